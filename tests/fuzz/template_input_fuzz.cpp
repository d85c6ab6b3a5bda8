// Fuzzes what clients bring into chat templates: any JSON value as messages, tools and variables
// renders to UTF-8 text or is refused with a message, and messages with tools as text hold no
// calls any more.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/chat_template.h"
#include "text/tool_prompt.h"
#include "text/utf8.h"

namespace reprise {
namespace {

// What templates do with messages and tools: methods, filters, search, nested access.
constexpr std::string_view kTemplate = R"({{ bos_token }}
{%- if tools %}{% for tool in tools %}{{ tool | tojson }}
{% if tool is mapping and tool.function is defined %}{{ tool.function.name }}{{ tool['function'] }}
{% endif %}{% endfor %}{% endif %}
{%- for m in messages %}<{{ m.role }}>
{%- if '</think>' in m.content %}{{ m.content.split('</think>')[-1].lstrip('\n') }}{% else %}
{{ m.content | trim }}{% endif %}
{%- if m.get('reasoning_content') %}{{ m['reasoning_content'] | upper }}{% endif %}
{%- if 'tool_calls' in m %}{% for c in m.tool_calls %}{{ c.function.name }}
{%- for key, value in c.function.arguments | dictsort %}{{ key }}={{ value }}
{%- if value is string %}{{ value[:3] }}{% elif value is mapping %}{{ value | tojson(indent=2) }}
{%- elif value is sequence %}{{ value | length }}{% endif %}{% endfor %}{% endfor %}{% endif %}
{%- if m.tool_call_id %}{{ m.tool_call_id }}{% endif %}{% if m.name %}{{ m.name }}{% endif %}
{%- endfor %}{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %})";

std::string text_in(const JsonObject& object, std::string_view name) {
  const JsonValue* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

const JsonObject& object_in(const JsonObject& object, std::string_view name) {
  static const JsonObject empty;
  const JsonValue* value = object.if_contains(name);
  return value != nullptr && value->is_object() ? value->as_object() : empty;
}

const JsonArray& array_in(const JsonObject& object, std::string_view name) {
  static const JsonArray empty;
  const JsonValue* value = object.if_contains(name);
  return value != nullptr && value->is_array() ? value->as_array() : empty;
}

ChatMessage message_of(const JsonObject& object) {
  ChatMessage message{.role = text_in(object, "role"),
                      .content = text_in(object, "content"),
                      .reasoning = text_in(object, "reasoning_content"),
                      .tool_call_id = text_in(object, "tool_call_id"),
                      .name = text_in(object, "name")};
  for (const JsonValue& call : array_in(object, "tool_calls")) {
    if (!call.is_object()) continue;
    const JsonObject& function = object_in(call.as_object(), "function");
    message.tool_calls.push_back({.id = text_in(call.as_object(), "id"),
                                  .name = text_in(function, "name"),
                                  .arguments = object_in(function, "arguments")});
  }
  return message;
}

std::vector<ChatTemplate> make_templates() {
  std::vector<ChatTemplate> templates;
  for (const std::string_view source :
       {kTemplate, builtin_chat_template("gemma3"), builtin_chat_template("llama4"),
        builtin_chat_template("afmoe")}) {
    auto compiled = ChatTemplate::compile(source);
    CHECK(compiled.has_value());
    templates.push_back(std::move(*compiled));
  }
  return templates;
}

void check_text(const Result<std::string>& text) {
  CHECK(text ? is_utf8(*text) : !text.error().message.empty());
}

void exercise(std::string_view json) {
  static const std::vector<ChatTemplate> templates = make_templates();
  const auto body = parse_json(json);
  if (!body || !body->is_object()) return;
  const JsonObject& request = body->as_object();
  std::vector<ChatMessage> messages;
  for (const JsonValue& message : array_in(request, "messages")) {
    if (message.is_object()) messages.push_back(message_of(message.as_object()));
  }
  ChatTemplate::Options options;
  options.now = 0;
  options.tools = array_in(request, "tools");
  options.variables = object_in(request, "chat_template_kwargs");
  const auto as_text = messages_with_tools_as_text(messages, options.tools);
  for (const ChatMessage& message : as_text) {
    CHECK(message.tool_calls.empty() && message.tool_call_id.empty() && message.role != "tool");
  }
  for (const ChatTemplate& chat_template : templates) {
    check_text(chat_template.render(messages, options));
    check_text(chat_template.render(as_text, options));
  }
}

}  // namespace
}  // namespace reprise

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reprise::exercise({reinterpret_cast<const char*>(data), size});
  return 0;
}
