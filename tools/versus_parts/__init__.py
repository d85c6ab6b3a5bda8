# What tools/versus and tools/kl are made of.
