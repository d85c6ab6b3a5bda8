// Messages with several calls taken apart, messages of one speaker put together.
#include "api/call_messages.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "text/reply_parser.h"

namespace reprise {
namespace {

// The answers that follow the message at `index`.
std::span<const ChatMessage> answers_to(const std::vector<ChatMessage>& messages,
                                        std::size_t index) {
  const auto first = messages.begin() + static_cast<std::ptrdiff_t>(index) + 1;
  const auto last = std::find_if(first, messages.end(),
                                 [](const ChatMessage& message) { return message.role != "tool"; });
  return {first, last};
}

// Answers to a call by its id; those that name none of the ids go behind the last call.
void append_answers(std::vector<ChatMessage>& out, std::span<const ChatMessage> answers,
                    const std::vector<ToolCall>& calls, std::size_t call) {
  for (const ChatMessage& answer : answers) {
    const auto named = std::ranges::find(calls, answer.tool_call_id, &ToolCall::id);
    const auto place =
        named == calls.end() ? calls.size() - 1 : static_cast<std::size_t>(named - calls.begin());
    if (place == call) out.push_back(answer);
  }
}

// "a", "b" or both, with a line feed between.
void append_line(std::string& text, const std::string& more) {
  if (!text.empty() && !more.empty()) text += '\n';
  text += more;
}

bool are_same_speaker(const ChatMessage& message, const ChatMessage& next) {
  return message.role == next.role && message.role != "tool" && message.name == next.name;
}

}  // namespace

bool has_calls(const std::vector<ChatMessage>& messages) {
  return std::ranges::any_of(messages, [](const ChatMessage& message) {
    return message.role == "tool" || !message.tool_calls.empty();
  });
}

// Models may repeat a name; what we sent must do for us.
JsonObject history_arguments(std::string_view text) {
  if (text.empty()) return {};
  Result<JsonValue> arguments = parse_json(text, kCallLimits);
  if (arguments && arguments->is_object()) return std::move(arguments->get_object());
  return {{"malformed_arguments", boost::json::string(text)}};
}

std::vector<ChatMessage> split_parallel_calls(const std::vector<ChatMessage>& messages) {
  std::vector<ChatMessage> out;
  for (std::size_t index = 0; index < messages.size(); index++) {
    const ChatMessage& message = messages[index];
    if (message.tool_calls.size() < 2) {
      out.push_back(message);
      continue;
    }
    const std::span<const ChatMessage> answers = answers_to(messages, index);
    for (std::size_t call = 0; call < message.tool_calls.size(); call++) {
      ChatMessage single{.role = message.role, .name = message.name};
      if (call == 0) {
        single.content = message.content;
        single.reasoning = message.reasoning;
      }
      single.tool_calls.push_back(message.tool_calls[call]);
      out.push_back(std::move(single));
      append_answers(out, answers, message.tool_calls, call);
    }
    index += answers.size();
  }
  return out;
}

std::vector<ChatMessage> join_same_speakers(const std::vector<ChatMessage>& messages) {
  std::vector<ChatMessage> out;
  for (const ChatMessage& message : messages) {
    if (out.empty() || !are_same_speaker(out.back(), message)) {
      out.push_back(message);
      continue;
    }
    append_line(out.back().content, message.content);
    append_line(out.back().reasoning, message.reasoning);
    std::vector<ToolCall>& calls = out.back().tool_calls;
    calls.insert(calls.end(), message.tool_calls.begin(), message.tool_calls.end());
  }
  return out;
}

}  // namespace reprise
