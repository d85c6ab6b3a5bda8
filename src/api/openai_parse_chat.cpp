// POST /v1/chat/completions: the body.
#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

// One part of a list content: {"type": "text", "text": "..."}.
ApiResult<std::string> parse_part(const JsonValue& value, const std::string& param) {
  if (!value.is_object()) return wrong_type(param, "an object", value);
  FieldReader reader(value.get_object(), param + ".");
  const JsonValue* type = reader.find("type");
  if (!type) return missing(reader.path("type"));
  if (!type->is_string()) return wrong_type(reader.path("type"), "a string", *type);
  const std::string_view name(type->get_string().data(), type->get_string().size());
  if (name != "text") {
    return unsupported(reader.path("type"),
                       fmt::format("got \"{}\", expected \"text\"", clipped(name)));
  }
  const JsonValue* text = reader.find("text");
  if (!text) return missing(reader.path("text"));
  if (!text->is_string()) return wrong_type(reader.path("text"), "a string", *text);
  return std::string(text->get_string().data(), text->get_string().size());
}

// A string, or a list of text parts, which are joined by line feeds as other servers do.
ApiResult<std::string> parse_content(FieldReader& reader, const Limits& limits) {
  const std::string param = reader.path("content");
  const JsonValue* value = reader.find("content");
  if (!value) return missing(param);
  if (value->is_string())
    return std::string(value->get_string().data(), value->get_string().size());
  const JsonArray* parts = value->if_array();
  if (!parts) return wrong_type(param, "a string or a list of parts", *value);
  if (parts->empty()) {
    return refuse(400, "invalid_value", param + ": got 0 parts, expected at least 1", param);
  }
  if (parts->size() > limits.content_parts_max) {
    return refuse(400, "invalid_value",
                  fmt::format("{}: got {} parts, expected at most {}", param, parts->size(),
                              limits.content_parts_max),
                  param);
  }
  std::string content;
  for (std::size_t index = 0; index < parts->size(); index++) {
    TRY_ASSIGN(const std::string text,
               parse_part((*parts)[index], fmt::format("{}[{}]", param, index)));
    if (index > 0) content += '\n';
    content += text;
  }
  return content;
}

ApiResult<std::string> parse_role(FieldReader& reader) {
  const std::string param = reader.path("role");
  const JsonValue* value = reader.find("role");
  if (!value) return missing(param);
  if (!value->is_string()) return wrong_type(param, "a string", *value);
  const std::string role(value->get_string().data(), value->get_string().size());
  if (role == "developer") return "system";
  if (role == "system" || role == "user" || role == "assistant") return role;
  if (role == "tool" || role == "function") {
    return unsupported(param, fmt::format("\"{}\" messages are not supported", role));
  }
  return refuse(400, "invalid_value",
                fmt::format("{}: got \"{}\", expected system, developer, user or assistant", param,
                            clipped(role)),
                param);
}

// What a message may carry beyond text would be lost in silence.
ApiStatus check_message_extras(FieldReader& reader, const Limits& limits) {
  for (const std::string_view name : {"tool_calls", "function_call", "audio"}) {
    const JsonValue* value = reader.find(name);
    if (!value) continue;
    if (value->is_array() && value->get_array().empty()) continue;
    return unsupported(reader.path(name), "not supported");
  }
  TRY(reader.text("name", limits.name_bytes_max));
  TRY(reader.text("refusal", std::string::npos));
  return {};
}

ApiResult<std::vector<ChatMessage>> parse_messages(FieldReader& reader,
                                                   std::vector<std::string>& unknown,
                                                   const Limits& limits) {
  const JsonValue* value = reader.find("messages");
  if (!value) return missing("messages");
  const JsonArray* list = value->if_array();
  if (!list) return wrong_type("messages", "a list", *value);
  if (list->empty()) {
    return refuse(400, "invalid_value", "messages: got 0 messages, expected at least 1",
                  "messages");
  }
  if (list->size() > limits.messages_max) {
    return refuse(400, "invalid_value",
                  fmt::format("messages: got {} messages, expected at most {}", list->size(),
                              limits.messages_max),
                  "messages");
  }
  std::vector<ChatMessage> messages;
  for (std::size_t index = 0; index < list->size(); index++) {
    const JsonValue& item = (*list)[index];
    const std::string param = fmt::format("messages[{}]", index);
    if (!item.is_object()) return wrong_type(param, "an object", item);
    FieldReader member(item.get_object(), param + ".");
    TRY_ASSIGN(std::string role, parse_role(member));
    TRY(check_message_extras(member, limits));
    TRY_ASSIGN(std::string content, parse_content(member, limits));
    messages.push_back({std::move(role), std::move(content)});
    // One name for the log, whatever the index.
    for (const std::string& name : member.unknown()) {
      unknown.push_back("messages[]." + name.substr(param.size() + 1));
    }
  }
  return messages;
}

ApiStatus parse_logprobs(FieldReader& reader, GenerationFields& fields, const Limits& limits) {
  TRY_ASSIGN(const auto logprobs, reader.boolean("logprobs"));
  TRY_ASSIGN(const auto top_logprobs,
             reader.integer("top_logprobs", 0, limits.chat_top_logprobs_max));
  if (logprobs.value_or(false)) {
    fields.top_logprobs = static_cast<int>(top_logprobs.value_or(0));
  } else if (top_logprobs.value_or(0) != 0) {
    return refuse(400, "invalid_value", "top_logprobs: only allowed when logprobs is true",
                  "top_logprobs");
  }
  return {};
}

}  // namespace

ApiResult<ChatRequest> parse_chat_request(std::string_view body, const Limits& limits) {
  TRY_ASSIGN(const JsonObject object, parse_request_object(body, limits));
  FieldReader reader(object);
  ChatRequest request;
  TRY_ASSIGN(request.fields, parse_generation_fields(reader, limits));
  TRY(parse_logprobs(reader, request.fields, limits));
  TRY_ASSIGN(request.messages, parse_messages(reader, request.fields.unknown, limits));
  std::vector<std::string> unknown = reader.unknown();
  request.fields.unknown.insert(request.fields.unknown.end(), unknown.begin(), unknown.end());
  return request;
}

}  // namespace reprise
