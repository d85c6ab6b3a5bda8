// What a chat template's text gives away about replies: the marks of each format stand in it.

#include "text/chat_template.h"
#include "text/reply_parser.h"

namespace reprise {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_name_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
         (byte >= '0' && byte <= '9');
}

// Whether a word stands inside Jinja's braces, where it is a variable (or part of a text; rare).
bool has_variable(std::string_view source, std::string_view name) {
  bool in_braces = false;
  for (std::size_t at = 0; at < source.size(); ++at) {
    const std::string_view pair = source.substr(at, 2);
    if (pair == "{%" || pair == "{{") {
      in_braces = true;
    } else if (pair == "%}" || pair == "}}") {
      in_braces = false;
    } else if (in_braces && source.substr(at, name.size()) == name) {
      const std::size_t end = at + name.size();
      const bool begins = at == 0 || !is_name_byte(source[at - 1]);
      const bool ends = end == source.size() || !is_name_byte(source[end]);
      if (begins && ends) return true;
    }
  }
  return false;
}

// The format of the calls that a template writes; plain: none that we read.
ReplyFormat format_of_calls(std::string_view source) {
  if (has(source, "<|tool_call>")) return ReplyFormat::gemma4;
  if (has(source, "<atem:function_calls>")) return ReplyFormat::muse;
  const bool has_parameters = has(source, "\"parameters\"");
  if (has(source, "<|header_start|>") && has_parameters) return ReplyFormat::llama4;
  if (has(source, "<|start_header_id|>") && has_parameters) return ReplyFormat::llama3;
  // Some write <function=name> inside of <tool_call>.
  const bool has_json = has(source, "<tool_call>") && has(source, "arguments");
  if (has_json && !has(source, "<function=")) return ReplyFormat::hermes;
  return ReplyFormat::plain;
}

bool writes_thoughts(ReplyFormat format, std::string_view source) {
  if (format == ReplyFormat::hermes) return has(source, "</think>");
  if (format == ReplyFormat::gemma4) return has(source, "<|channel>thought");
  return format == ReplyFormat::muse;
}

std::string_view thinking_name(std::string_view source) {
  for (const std::string_view name : {"enable_thinking", "thinking"}) {
    if (has_variable(source, name)) return name;
  }
  return {};
}

}  // namespace

ReplyStyle detect_reply_style(std::string_view template_source, std::string_view family_tag) {
  const std::string_view source =
      template_source.empty() ? builtin_chat_template(family_tag) : template_source;
  if (source.empty()) return {};
  const ReplyFormat calls = format_of_calls(source);
  ReplyStyle style;
  style.renders_tools = calls != ReplyFormat::plain && has_variable(source, "tools");
  style.format = style.renders_tools ? calls : ReplyFormat::hermes;
  style.has_reasoning = writes_thoughts(style.format, source);
  style.thinking_name = thinking_name(source);
  return style;
}

}  // namespace reprise
