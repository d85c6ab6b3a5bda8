// `reprise run`: a conversation in the terminal. Its turns share one prompt cache, so each costs
// only its new tokens.
#include <iostream>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/core.h>

#include "cli/commands.h"
#include "cli/stack.h"
#include "cli/terminal_reply.h"

namespace reprise {
namespace {

constexpr std::string_view kHelp =
    "/reset starts over, /quit or Ctrl-D ends, Ctrl-C stops a reply\n";

std::vector<ChatMessage> first_messages(const Options& options) {
  if (options.system.empty()) return {};
  return {{"system", options.system}};
}

Result<TerminalReply> reply_to(Stack& stack, const Options& options,
                               const std::vector<ChatMessage>& messages) {
  TRY_ASSIGN(PreparedPrompt prompt, stack.bundle->prepare_chat(messages));
  return print_reply(stack, options, std::move(prompt), stack.bundle->reply_style().format);
}

}  // namespace

int run_chat(const Options& options) {
  Result<Stack> stack = Stack::load(options);
  if (!stack) return report(stack.error());
  if (!stack->bundle->has_chat_template()) {
    return report(
        {Errc::unsupported, "this model has no chat template; try `reprise generate`", "--model"});
  }
  if (const Status started = stack->start_engine(options); !started) return report(started.error());
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  if (terminal) fmt::print("{}", kHelp);
  std::vector<ChatMessage> messages = first_messages(options);
  std::string line;
  while (true) {
    if (terminal) fmt::print("\n> ");
    std::fflush(stdout);
    if (!std::getline(std::cin, line) || line == "/quit") break;
    if (line.empty()) continue;
    if (line == "/help") {
      fmt::print("{}", kHelp);
      continue;
    }
    if (line == "/reset") {
      messages = first_messages(options);
      continue;
    }
    messages.push_back({"user", line});
    const Result<TerminalReply> reply = reply_to(*stack, options, messages);
    if (!reply || reply->end.error) {  // the conversation stays usable: the message is taken back
      report(reply ? *reply->end.error : reply.error());
      messages.pop_back();
      continue;
    }
    fmt::print("\n");
    print_summary(reply->end);
    // The template decides whether it shows thoughts of earlier replies.
    messages.push_back({"assistant", reply->text, reply->reasoning});
  }
  return 0;
}

}  // namespace reprise
