// ChatTemplate over text-ffi.
#include "text/chat_template.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/core.h>

#include "base/json.h"
#include "text/ffi.h"
#include "text/utf8.h"

namespace reprise {
namespace {

struct FreeTemplate {
  void operator()(TextTemplate* chat_template) const { text_template_free(chat_template); }
};

// Of texts that a JSON value holds. The values of requests are shallow: parse_json sees to it.
bool is_utf8_json(const JsonValue& value) {
  if (value.is_string()) return is_utf8(value.get_string());
  if (value.is_array()) return std::ranges::all_of(value.get_array(), is_utf8_json);
  if (!value.is_object()) return true;
  return std::ranges::all_of(value.get_object(), [](const auto& member) {
    return is_utf8(member.key()) && is_utf8_json(member.value());
  });
}

bool is_utf8_call(const ToolCall& call) {
  return is_utf8(call.id) && is_utf8(call.name) && is_utf8_json(call.arguments);
}

bool is_utf8_message(const ChatMessage& message) {
  for (const std::string* text : {&message.role, &message.content, &message.reasoning,
                                  &message.tool_call_id, &message.name}) {
    if (!is_utf8(*text)) return false;
  }
  return std::ranges::all_of(message.tool_calls, is_utf8_call);
}

// As OpenAI's clients send it, with the arguments as an object: templates ask for one.
JsonObject call_object(const ToolCall& call) {
  JsonObject object{{"type", "function"}};
  if (!call.id.empty()) object["id"] = call.id;
  object["function"] = JsonObject{{"name", call.name}, {"arguments", call.arguments}};
  return object;
}

// Members are there only when they say something: templates ask `'tool_calls' in message`. The
// content of an assistant that only calls is "", not null: some templates search in it.
JsonObject message_object(const ChatMessage& message) {
  JsonObject object{{"role", message.role}, {"content", message.content}};
  if (!message.reasoning.empty()) object["reasoning_content"] = message.reasoning;
  if (!message.tool_calls.empty()) {
    JsonArray calls;
    for (const ToolCall& call : message.tool_calls) calls.push_back(call_object(call));
    object["tool_calls"] = std::move(calls);
  }
  if (!message.tool_call_id.empty()) object["tool_call_id"] = message.tool_call_id;
  if (!message.name.empty()) object["name"] = message.name;
  return object;
}

// The variables that transformers' apply_chat_template sets.
std::string context_json(const std::vector<ChatMessage>& messages,
                         const ChatTemplate::Options& options) {
  JsonArray list;
  for (const ChatMessage& message : messages) list.push_back(message_object(message));
  JsonObject context{
      {"documents", nullptr}, {"bos_token", options.bos_token}, {"eos_token", options.eos_token}};
  for (const auto& [name, value] : options.variables) context[name] = value;
  context["messages"] = std::move(list);
  context["tools"] = options.tools.empty() ? JsonValue(nullptr) : JsonValue(options.tools);
  context["add_generation_prompt"] = options.add_generation_prompt;
  return to_json(std::move(context));
}

}  // namespace

struct ChatTemplate::State {
  std::unique_ptr<TextTemplate, FreeTemplate> compiled;
};

ChatTemplate::ChatTemplate(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::compile(std::string_view source) {
  TextTemplate* compiled = nullptr;
  ffi::Buffer error;
  const auto status = text_template_compile(ffi::slice(source), &compiled, error.out());
  if (status != TEXT_OK) return ffi::failure(status, error);
  auto state = std::make_unique<State>();
  state->compiled.reset(compiled);
  return ChatTemplate(std::move(state));
}

Result<std::string> ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                         const Options& options) const {
  // Checked here because JSON would quietly replace what is not text.
  for (std::size_t index = 0; index < messages.size(); ++index) {
    if (is_utf8_message(messages[index])) continue;
    return fail(Errc::invalid_argument, fmt::format("message {} is not UTF-8", index), "messages");
  }
  for (std::size_t index = 0; index < options.tools.size(); ++index) {
    if (is_utf8_json(options.tools[index])) continue;
    return fail(Errc::invalid_argument, fmt::format("tool {} is not UTF-8", index), "tools");
  }
  const std::string context = context_json(messages, options);
  const std::int64_t now = options.now.value_or(std::time(nullptr));
  ffi::Buffer text, error;
  const auto status = text_template_render(state_->compiled.get(), ffi::slice(context), now,
                                           text.out(), error.out());
  if (status != TEXT_OK) return ffi::failure(status, error, "messages");
  return text.text();
}

}  // namespace reprise
