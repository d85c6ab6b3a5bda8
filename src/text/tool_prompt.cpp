// The hermes format written into messages.
#include "text/tool_prompt.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace reprise {
namespace {

constexpr std::string_view kBeforeTools =
    "# Tools\n\nYou can call these functions, each described by one JSON object:\n<tools>\n";
constexpr std::string_view kAfterTools =
    "</tools>\n\nTo call a function, write its name and arguments as one JSON object, like this:\n"
    "<tool_call>\n{\"name\": \"function_name\", \"arguments\": {\"argument\": \"value\"}}\n"
    "</tool_call>\nThe result will follow within <tool_response></tool_response>. When no function "
    "is needed, answer without one.";

// Python's repr of a float: shortest digits, an exponent from 1e16 and below 1e-4.
void append_python_number(std::string& out, double number) {
  const double size = std::abs(number);
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
  char digits[64];
  const auto format = is_plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto [end, trouble] = std::to_chars(digits, digits + sizeof digits, number, format);
  static_cast<void>(trouble);  // 64 characters hold any shortest form
  const std::string_view text(digits, static_cast<std::size_t>(end - digits));
  out += text;
  if (is_plain && text.find('.') == std::string_view::npos) out += ".0";
}

// append_json_text, with Python's two more short escapes.
void append_python_text(std::string& out, std::string_view text) {
  std::string quoted;
  append_json_text(quoted, text);
  std::string_view rest = quoted;
  while (!rest.empty()) {
    const std::size_t slash = rest.find('\\');
    out += rest.substr(0, slash);
    if (slash == std::string_view::npos) return;
    rest.remove_prefix(slash);
    const bool is_backspace = rest.starts_with("\\u0008");
    if (is_backspace || rest.starts_with("\\u000c")) {
      out += is_backspace ? "\\b" : "\\f";
      rest.remove_prefix(6);
    } else {
      out += rest.substr(0, 2);
      rest.remove_prefix(2);
    }
  }
}

void append_spaced(std::string& out, const JsonValue& value) {
  std::string_view separator;
  if (value.is_array()) {
    out += '[';
    for (const JsonValue& item : value.get_array()) {
      out += std::exchange(separator, ", ");
      append_spaced(out, item);
    }
    out += ']';
  } else if (value.is_object()) {
    out += '{';
    for (const auto& member : value.get_object()) {
      out += std::exchange(separator, ", ");
      append_python_text(out, member.key());
      out += ": ";
      append_spaced(out, member.value());
    }
    out += '}';
  } else if (value.is_string()) {
    append_python_text(out, value.get_string());
  } else if (value.is_double()) {
    append_python_number(out, value.get_double());
  } else {
    out += to_json(value);
  }
}

std::string describe_tools(const JsonArray& tools) {
  std::string text(kBeforeTools);
  for (const JsonValue& tool : tools) text += spaced_json(tool) + '\n';
  text += kAfterTools;
  return text;
}

// What an assistant said and called, as it wrote it.
std::string spoken_and_called(const ChatMessage& message) {
  std::string text = message.content;
  for (const ToolCall& call : message.tool_calls) {
    if (!text.empty()) text += '\n';
    text += hermes_call_text(call);
  }
  return text;
}

// Results become words of the user. What the user says next joins them: templates want turns.
void add_user(std::vector<ChatMessage>& messages, ChatMessage message, bool& after_result) {
  const bool is_result = message.role == "tool";
  if (is_result) {
    message.content = fmt::format("<tool_response>\n{}\n</tool_response>", message.content);
    message.role = "user";
  }
  if (std::exchange(after_result, is_result)) {
    messages.back().content += '\n' + message.content;
  } else {
    messages.push_back(std::move(message));
  }
}

}  // namespace

std::string spaced_json(const JsonValue& value) {
  std::string out;
  append_spaced(out, value);
  return out;
}

std::string hermes_call_text(const ToolCall& call) {
  std::string text = "<tool_call>\n{\"name\": ";
  append_python_text(text, call.name);
  text += ", \"arguments\": " + spaced_json(call.arguments) + "}\n</tool_call>";
  return text;
}

std::vector<ChatMessage> messages_with_tools_as_text(std::vector<ChatMessage> messages,
                                                     const JsonArray& tools) {
  std::vector<ChatMessage> result;
  if (!tools.empty() && (messages.empty() || messages.front().role != "system")) {
    result.push_back({.role = "system", .content = describe_tools(tools)});
  }
  bool after_result = false;
  for (std::size_t index = 0; index < messages.size(); ++index) {
    ChatMessage& message = messages[index];
    message.content = spoken_and_called(message);
    message.tool_calls.clear();
    message.tool_call_id.clear();
    if (message.role == "tool") message.name.clear();
    if (index == 0 && message.role == "system" && !tools.empty()) {
      if (!message.content.empty()) message.content += "\n\n";
      message.content += describe_tools(tools);
    }
    if (message.role == "tool" || message.role == "user") {
      add_user(result, std::move(message), after_result);
    } else {
      after_result = false;
      result.push_back(std::move(message));
    }
  }
  return result;
}

}  // namespace reprise
