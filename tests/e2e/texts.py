# Prompts of known size, made of ordinary words: the same on every run.
import random

WORDS = (
    "the old clock on the wall of a small harbour town keeps time for boats and people alike while "
    "gulls turn over the grey water and somebody paints a door blue because last year it was green "
    "and every child knows that the lamp is lit at six in winter and at nine in summer"
).split()

SYSTEM = (
    "You are a careful assistant in a harbour office. Answer in short sentences. Name the sources "
    "that you use, and say so when you do not know something. "
) + " ".join(WORDS * 4)


def words(count, seed):
    """`count` words with some punctuation."""
    generator = random.Random(seed)
    text = []
    for i in range(count):
        word = generator.choice(WORDS)
        text.append(word.capitalize() if i % 12 == 0 else word + "." if i % 12 == 11 else word)
    return " ".join(text)
