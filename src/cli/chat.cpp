// `reprise run`: a conversation in the terminal. Its turns share one prompt cache, so each costs
// only its new tokens.
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/printable.h"
#include "cli/commands.h"
#include "cli/line_editor.h"
#include "cli/model_headers.h"
#include "cli/progress_line.h"
#include "cli/stack.h"
#include "cli/standard_output.h"
#include "cli/terminal_reply.h"
#include "cli/typed_text.h"

namespace reprise {
namespace {

constexpr std::string_view kBanner =
    "/help lists keys and commands; Ctrl-C stops a reply; Ctrl-D or /exit leaves\n";
constexpr std::string_view kHelp =
    "/exit, /quit, /bye, Ctrl-D   leave\n"
    "/reset                       start over\n"
    "/help                        show this\n"
    "Ctrl-C                       stop a reply; at the prompt: clear the line\n"
    "Alt-Enter, or \\ and Enter    begin another line of the message\n"
    "up, down, Ctrl-R             bring back earlier messages\n"
    "A paste of many lines is one message.\n";

// Messages of a person, or lines of a pipe.
class ChatInput {
 public:
  ChatInput() : editor_(LineEditor::open()) {
    if (editor_ != nullptr) editor_->say(std::string(kBanner));
  }

  // The next message or command; nullopt at the end.
  std::optional<std::string> next() {
    if (editor_ == nullptr) {
      std::string line;
      if (!std::getline(std::cin, line)) return std::nullopt;
      return line;
    }
    while (true) {
      LineEditor::Input input = editor_->read();
      if (input.event == LineEditor::Event::end) return std::nullopt;
      if (input.event == LineEditor::Event::line) return std::move(input.text);
      if (is_blank(input.text)) editor_->say("Ctrl-D or /exit leaves\n");
    }
  }

 private:
  std::unique_ptr<LineEditor> editor_;
};

std::vector<ChatMessage> first_messages(const Options& options) {
  if (options.system.empty()) return {};
  return {{"system", options.system}};
}

Result<TerminalReply> reply_to(Stack& stack, const Options& options,
                               const std::vector<ChatMessage>& messages) {
  TRY_ASSIGN(PreparedPrompt prompt, stack.bundle->prepare_chat(messages));
  return print_reply(stack, options, std::move(prompt), stack.bundle->reply_style().format);
}

// One turn. What goes wrong takes the message back: the conversation stays usable.
void answer(Stack& stack, const Options& options, std::string text,
            std::vector<ChatMessage>& messages) {
  messages.push_back({"user", std::move(text)});
  const Result<TerminalReply> reply = reply_to(stack, options, messages);
  if (!reply || reply->end.error) {
    report(reply ? *reply->end.error : reply.error());
    messages.pop_back();
    return;
  }
  write_output("\n");
  print_summary(options, reply->end);
  // The template decides whether it shows thoughts of earlier replies.
  messages.push_back({"assistant", reply->text, reply->reasoning});
}

void converse(Stack& stack, const Options& options) {
  ChatInput input;
  std::vector<ChatMessage> messages = first_messages(options);
  while (std::optional<std::string> text = input.next()) {
    if (is_blank(*text)) continue;
    switch (chat_command(*text)) {
      case ChatCommand::leave:
        return;
      case ChatCommand::help:
        write_output(kHelp);
        break;
      case ChatCommand::reset:
        messages = first_messages(options);
        break;
      case ChatCommand::unknown:
        write_stderr(fmt::format("unknown command \"{}\"; /help lists them\n", printable(*text)));
        break;
      case ChatCommand::none:
        answer(stack, options, std::move(*text), messages);
        break;
    }
  }
}

}  // namespace

int run_chat(const Options& options) {
  if (const Status fits = check_context_length(options); !fits) return report(fits.error());
  Result<Stack> stack = Stack::load(options);
  if (!stack) return report(stack.error());
  if (!stack->bundle->has_chat_template()) {
    return report(
        {Errc::unsupported, "this model has no chat template; try `reprise generate`", "--model"});
  }
  if (const Status started = stack->start_engine(options); !started) return report(started.error());
  converse(*stack, options);
  return 0;
}

}  // namespace reprise
