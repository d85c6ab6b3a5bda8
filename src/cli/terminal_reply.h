// One reply of the engine, printed while it comes and waited for.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/options.h"
#include "cli/stack.h"
#include "engine/request.h"
#include "text/reply_parser.h"

namespace reprise {

struct TerminalReply {
  std::string text;       // what answers
  std::string reasoning;  // what the model thought before
  SequenceEnd end;
};

// Submits the prompt, prints its text to stdout, returns when it ended; thoughts in `format` are
// told from the answer, and dimmed on a terminal. Ctrl-C ends the reply early
// (FinishReason::cancelled). Errors: those of Engine::submit.
Result<TerminalReply> print_reply(Stack& stack, const Options& options, PreparedPrompt prompt,
                                  ReplyFormat format);

// "[12 prompt tokens, 10 cached, first token after 8 ms; 34 tokens at 56.7 tokens/s]", with a word
// on a reply that was cut. The speed is that of the tokens behind the first.
std::string summary_line(const Options& options, const SequenceEnd& end);
// The same on stderr.
void print_summary(const Options& options, const SequenceEnd& end);

}  // namespace reprise
