// "messages": who said what, which functions were called and what they gave back.
#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "api/call_messages.h"
#include "api/openai_fields.h"

namespace reprise {
namespace {

// A message while it is read: what its role allows is known only at its end.
struct Draft {
  ChatMessage message;
  std::optional<std::string> content;
  std::string refusal;
  bool prefix = false;
};

// ---- content

ApiStatus parse_content(const FieldPlace& place, const JsonValue& value, Draft& draft) {
  static constexpr std::array kParts = {TextPart{"text", "text"}, TextPart{"refusal", "refusal"}};
  const std::span<const TextPart> parts(kParts);
  const bool is_assistant = draft.message.role == "assistant";
  const bool has_none = value.is_array() && value.get_array().empty();
  if (is_assistant && has_none) return {};  // as null
  const std::size_t least = draft.message.role == "tool" ? 0 : 1;
  TRY_ASSIGN(draft.content,
             parse_text_content(place, value, parts.first(is_assistant ? 2 : 1), least));
  return {};
}

// ---- roles

ApiStatus parse_role(const FieldPlace& place, const JsonValue& value, Draft& draft) {
  if (!value.is_string()) return wrong_type(place.param, "a string", value);
  const std::string_view role = text_of(value);
  if (role == "function") {
    return unsupported(place.param, "\"function\" messages are not supported, expected \"tool\"");
  }
  if (role != "system" && role != "developer" && role != "user" && role != "assistant" &&
      role != "tool") {
    return wrong_value(place.param,
                       fmt::format("got \"{}\", expected system, developer, user, assistant or "
                                   "tool",
                                   clipped(role)));
  }
  draft.message.role = role == "developer" ? "system" : std::string(role);
  return {};
}

// ---- calls

ApiStatus parse_arguments(const FieldPlace& place, const JsonValue& value, ToolCall& call) {
  if (!value.is_string()) return wrong_type(place.param, "a string", value);
  call.arguments = history_arguments(text_of(value));
  return {};
}

constexpr std::array kFunctionFields = {
    text_field<&ToolCall::name>("name", 1, &Limits::name_bytes_max, "The function.").needed(),
    composite_field<ToolCall, parse_arguments>("arguments", R"({"type":"string"})",
                                               "A JSON object, as text.")
        .needed(),
};

ApiStatus parse_function(const FieldPlace& place, const JsonValue& value, ToolCall& call) {
  return read_object<ToolCall>(place, value, kFunctionFields, call);
}

JsonObject function_schema(const Limits& limits) {
  return table_schema(kFunctionFields, limits);
}

ApiStatus parse_call_type(const FieldPlace& place, const JsonValue& value, ToolCall&) {
  TRY_ASSIGN(const std::string type, read_text(place.param, value, 0, std::string::npos));
  if (type == "function") return {};
  return unsupported(place.param, fmt::format("got \"{}\", expected \"function\"", clipped(type)));
}

constexpr std::array kCallFields = {
    text_field<&ToolCall::id>("id", 1, &Limits::name_bytes_max, "What its answer refers to.")
        .needed(),
    composite_field<ToolCall, parse_call_type>("type", R"({"const":"function"})", ""),
    composite_field<ToolCall, parse_function>("function", function_schema, "").needed(),
};

ApiStatus parse_calls(const FieldPlace& place, const JsonValue& value, Draft& draft) {
  return read_list(place, value, "calls", 0, place.limits->tool_calls_max,
                   [&](const FieldPlace& at, const JsonValue& item) -> ApiStatus {
                     ToolCall call;
                     TRY(read_object<ToolCall>(at, item, kCallFields, call));
                     draft.message.tool_calls.push_back(std::move(call));
                     return {};
                   });
}

JsonObject calls_schema(const Limits& limits) {
  return {{"type", "array"},
          {"maxItems", limits.tool_calls_max},
          {"items", table_schema(kCallFields, limits)}};
}

// ---- one message

// What a message may carry beyond text and calls would be lost in silence.
ApiStatus refuse_extra(const FieldPlace& place, const JsonValue& value, Draft&) {
  if (value.is_array() && value.get_array().empty()) return {};
  return unsupported(place.param, "not supported");
}

JsonObject content_schema(const Limits& limits) {
  JsonValue schema = own_json(R"({"anyOf":[{"type":"string"},
    {"type":"array","items":{"anyOf":[
      {"type":"object","required":["type","text"],
       "properties":{"type":{"const":"text"},"text":{"type":"string"}}},
      {"type":"object","required":["type","refusal"],
       "properties":{"type":{"const":"refusal"},"refusal":{"type":"string"}}}]}}]})");
  schema.at("anyOf").at(1).as_object()["maxItems"] = limits.content_parts_max;
  return std::move(schema.as_object());
}

// What check_role says, in a schema's words.
constexpr std::string_view kRoleRules = R"([
  {"required":["content"],"properties":{"role":{"enum":["system","developer","user"]},
    "content":{"type":["string","array"],"minItems":1,
      "items":{"properties":{"type":{"const":"text"}}}},
    "refusal":{"maxLength":0},"tool_calls":{"maxItems":0},"reasoning_content":{"maxLength":0},
    "reasoning":{"maxLength":0},"tool_call_id":{"maxLength":0},"prefix":{"enum":[false,null]}}},
  {"properties":{"role":{"const":"assistant"},"tool_call_id":{"maxLength":0}},"anyOf":[
    {"required":["content"],"properties":{"content":{"type":["string","array"],"minItems":1}}},
    {"required":["tool_calls"],"properties":{"tool_calls":{"type":"array","minItems":1}}},
    {"required":["refusal"],"properties":{"refusal":{"type":"string","minLength":1}}},
    {"required":["reasoning"],"properties":{"reasoning":{"type":"string","minLength":1}}},
    {"required":["reasoning_content"],
     "properties":{"reasoning_content":{"type":"string","minLength":1}}}]},
  {"required":["content","tool_call_id"],"properties":{"role":{"const":"tool"},
    "content":{"type":["string","array"],"items":{"properties":{"type":{"const":"text"}}}},
    "refusal":{"maxLength":0},"tool_calls":{"maxItems":0},"reasoning_content":{"maxLength":0},
    "reasoning":{"maxLength":0},"tool_call_id":{"type":"string","minLength":1},
    "prefix":{"enum":[false,null]}}}
])";
constexpr std::string_view kNoneSchema = R"({"type":"array","maxItems":0})";
constexpr std::string_view kRoleSchema =
    R"({"type":"string","enum":["system","developer","user","assistant","tool"]})";

constexpr std::array kDraftFields = {
    composite_field<Draft, parse_role>("role", kRoleSchema, "developer is system.").needed(),
    composite_field<Draft, parse_content>(
        "content", content_schema,
        "A text or its parts; only an assistant that called tools, and a tool, may have none."),
    text_field<&Draft::refusal>("refusal", 0, kIntegerMax, "An assistant's, instead of content."),
    composite_field<Draft, parse_calls>("tool_calls", calls_schema, "Of an assistant."),
    boolean_field<&Draft::prefix>("prefix", "false",
                                  "true, of the last message only: as continue_final_message."),
    composite_field<Draft, refuse_extra>("function_call", kNoneSchema, "Not supported."),
    composite_field<Draft, refuse_extra>("audio", kNoneSchema, "Not supported."),
};

constexpr std::array kMessageFields = {
    text_field<&ChatMessage::reasoning>("reasoning_content", 0, kIntegerMax,
                                        "What an assistant thought before.")
        .also("reasoning"),
    text_field<&ChatMessage::tool_call_id>("tool_call_id", 0, &Limits::name_bytes_max,
                                           "Of a tool: the call that it answers."),
    text_field<&ChatMessage::name>("name", 0, &Limits::name_bytes_max,
                                   "Who speaks; of a tool: the function."),
};

// Whether what was read fits the role.
ApiStatus check_role(const FieldPlace& place, const Draft& draft) {
  const ChatMessage& message = draft.message;
  const bool is_assistant = message.role == "assistant", is_tool = message.role == "tool";
  const auto only = [&](std::string_view name, std::string_view role) {
    return wrong_value(place.member(name).param,
                       fmt::format("got one in a message of role {}, expected only in those of "
                                   "role {}",
                                   message.role, role));
  };
  if (!is_assistant && !message.tool_calls.empty()) return only("tool_calls", "assistant");
  if (!is_assistant && !message.reasoning.empty()) return only("reasoning_content", "assistant");
  if (!is_assistant && !draft.refusal.empty()) return only("refusal", "assistant");
  if (!is_tool && !message.tool_call_id.empty()) return only("tool_call_id", "tool");
  if (is_tool && message.tool_call_id.empty()) return missing(place.member("tool_call_id").param);
  if (draft.content) return {};
  const std::string param = place.member("content").param;
  if (!is_assistant) return missing(param);
  if (message.tool_calls.empty() && message.reasoning.empty() && draft.refusal.empty()) {
    return refuse(400, "missing_required_parameter",
                  param + ": missing or null, expected content or tool_calls of an assistant",
                  param);
  }
  return {};
}

ApiResult<Draft> parse_message(const FieldPlace& place, const JsonValue& value) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  FieldReader reader(value.get_object(), place.param + ".");
  Draft draft;
  TRY(read_fields(reader, kDraftFields, *place.limits, *place.unknown, draft));
  TRY(read_fields(reader, kMessageFields, *place.limits, *place.unknown, draft.message));
  TRY(check_role(place, draft));
  add_unknown(reader, *place.unknown);
  draft.message.content = draft.content.value_or(draft.refusal);
  return draft;
}

// DeepSeek's and Mistral's word for going on with a message.
std::unexpected<ApiError> not_last(std::string param) {
  return wrong_value(std::move(param),
                     "got true, only allowed in the last message, the assistant's");
}

// The newest call of each id, and the function that it called.
using Calls = std::map<std::string, std::string>;

// A tool's answer belongs to a call of an earlier message; it gets the function's name from there.
ApiStatus name_answer(const FieldPlace& place, const Calls& earlier, ChatMessage& answer) {
  const auto call = earlier.find(answer.tool_call_id);
  if (call == earlier.end()) {
    return wrong_value(place.member("tool_call_id").param,
                       fmt::format("got \"{}\", expected the id of a call in an earlier message",
                                   clipped(answer.tool_call_id)));
  }
  if (answer.name.empty()) answer.name = call->second;
  return {};
}

}  // namespace

ApiResult<std::vector<ChatMessage>> parse_messages(const FieldPlace& place, const JsonValue& value,
                                                   std::string& prefix) {
  std::vector<ChatMessage> messages;
  Calls calls;
  const auto add = [&](const FieldPlace& at, const JsonValue& item) -> ApiStatus {
    if (!prefix.empty()) return not_last(std::move(prefix));
    TRY_ASSIGN(Draft draft, parse_message(at, item));
    ChatMessage& message = draft.message;
    if (draft.prefix) prefix = at.member("prefix").param;
    if (draft.prefix && message.role != "assistant") return not_last(std::move(prefix));
    if (message.role == "tool") TRY(name_answer(at, calls, message));
    for (const ToolCall& call : message.tool_calls) calls[call.id] = call.name;
    messages.push_back(std::move(message));
    return {};
  };
  TRY(read_list(place, value, "messages", 1, place.limits->messages_max, add));
  return messages;
}

JsonObject messages_schema(const Limits& limits) {
  JsonObject message = table_schema(kDraftFields, limits);
  add_fields(message, kMessageFields, limits);
  message["anyOf"] = own_json(kRoleRules);
  return {{"type", "array"},
          {"minItems", 1},
          {"maxItems", limits.messages_max},
          {"items", std::move(message)}};
}

}  // namespace reprise
