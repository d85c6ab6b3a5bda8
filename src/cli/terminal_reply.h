// One reply of the engine, printed while it comes and waited for.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/options.h"
#include "cli/stack.h"
#include "engine/request.h"

namespace reprise {

struct TerminalReply {
  std::string text;
  SequenceEnd end;
};

// Submits the prompt, prints its text to stdout, returns when it ended. Ctrl-C ends the reply early
// (FinishReason::cancelled). Errors: those of Engine::submit.
Result<TerminalReply> print_reply(Stack& stack, const Options& options, PreparedPrompt prompt);

// "12 prompt tokens (10 cached), 34 tokens at 56.7 tokens/s" on stderr.
void print_summary(const SequenceEnd& end);

}  // namespace reprise
