// `reprise generate`: one prompt, one answer on stdout, figures on stderr.
#include "cli/commands.h"
#include "cli/model_headers.h"
#include "cli/stack.h"
#include "cli/standard_output.h"
#include "cli/terminal_reply.h"

namespace reprise {

int run_generate(const Options& options) {
  if (options.prompt.empty()) {
    return report({Errc::invalid_argument, "no prompt given: -p TEXT", "--prompt"});
  }
  if (const Status fits = check_context_length(options); !fits) return report(fits.error());
  Result<Stack> stack = Stack::load(options);
  if (!stack) return report(stack.error());
  Result<PreparedPrompt> prompt = options.chat
                                      ? stack->bundle->prepare_chat({{"user", options.prompt}})
                                      : stack->bundle->prepare_text(options.prompt);
  if (!prompt) return report(prompt.error());
  if (const Status started = stack->start_engine(options); !started) return report(started.error());
  const ReplyFormat format =
      options.chat ? stack->bundle->reply_style().format : ReplyFormat::plain;
  const Result<TerminalReply> reply = print_reply(*stack, options, std::move(*prompt), format);
  if (!reply) return report(reply.error());
  write_output("\n");
  print_summary(options, reply->end);
  return reply->end.error ? report(*reply->end.error) : 0;
}

}  // namespace reprise
