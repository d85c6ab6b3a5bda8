// POST /v1/chat/completions: the body. /apply-template takes the same one, /tokenize the fields of
// its prompt.
#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

// ---- rows

ApiStatus parse_chat_messages(const FieldPlace& place, const JsonValue& value,
                              ChatRequest& request) {
  TRY_ASSIGN(request.messages, parse_messages(place, value, request.prefix));
  return {};
}

ApiStatus parse_chat_tools(const FieldPlace& place, const JsonValue& value, ChatRequest& request) {
  return parse_tools(place, value, request.tools);
}

ApiStatus parse_chat_choice(const FieldPlace& place, const JsonValue& value, ChatRequest& request) {
  return parse_tool_choice(place, value, request.tools);
}

ApiStatus parse_parallel(const FieldPlace& place, const JsonValue& value, ChatRequest& request) {
  TRY_ASSIGN(request.tools.parallel, read_boolean(place.param, value));
  return {};
}

ApiStatus parse_format(const FieldPlace& place, const JsonValue& value, ChatRequest& request) {
  TRY_ASSIGN(request.schema, parse_reply_format(place, value, Nesting::nested));
  const bool is_beside_type = text_of(value.get_object().at("type")) == "json_object";
  if (is_beside_type) request.names.schema = "response_format.schema";
  return {};
}

// After reasoning_effort.
ApiStatus parse_reasoning(const FieldPlace& place, const JsonValue& value, ChatRequest& request) {
  TRY_ASSIGN(std::string effort, parse_reasoning_effort(place, value));
  std::string& before = request.reasoning_effort;
  if (!before.empty() && !effort.empty() && before != effort) {
    return wrong_value(place.member("effort").param,
                       "got another value than reasoning_effort, expected the same");
  }
  if (!effort.empty()) before = std::move(effort);
  return {};
}

ApiStatus parse_max_tokens(const FieldPlace& place, const JsonValue& value,
                           GenerationFields& fields) {
  TRY_ASSIGN(fields.max_tokens, read_length(place, value));
  return {};
}

ApiStatus parse_variables(const FieldPlace& place, const JsonValue& value, ChatRequest& request) {
  TRY_ASSIGN(request.template_variables, parse_template_variables(place, value));
  return {};
}

JsonObject chat_tools_schema(const Limits& limits) {
  return tools_schema(limits);
}
JsonObject chat_choice_schema(const Limits&) {
  return tool_choice_schema();
}
JsonObject chat_format_schema(const Limits& limits) {
  return reply_format_schema(limits, Nesting::nested);
}

constexpr std::array kMessagesFields = {
    composite_field<ChatRequest, parse_chat_messages>("messages", messages_schema,
                                                      "The conversation so far.")
        .needed(),
};

// The tools come before the choice among them.
constexpr std::array kPromptFields = {
    composite_field<ChatRequest, parse_chat_tools>("tools", chat_tools_schema,
                                                   "Functions that the reply may call."),
    composite_field<ChatRequest, parse_chat_choice>("tool_choice", chat_choice_schema,
                                                    "Absent: auto with tools, none without."),
    word_field<&ChatRequest::reasoning_effort>(
        "reasoning_effort", kReasoningEfforts, "",
        "How much is thought before the answer, where the model's template knows it."),
    composite_field<ChatRequest, parse_reasoning>("reasoning", reasoning_schema,
                                                  "Its effort is reasoning_effort."),
    composite_field<ChatRequest, parse_variables>("chat_template_kwargs", R"({"type":"object"})",
                                                  "Variables of the model's chat template."),
    boolean_field<&ChatRequest::adds_generation_prompt>(
        "add_generation_prompt", "",
        "false: the prompt ends behind the messages, and no reply has begun. Absent: true, but for "
        "continue_final_message, which takes false only."),
    boolean_field<&ChatRequest::continues>(
        "continue_final_message", "false",
        "true: the prompt ends right behind the text of the last message, the assistant's, and the "
        "reply is what follows it."),
};

constexpr std::array kReplyFields = {
    composite_field<ChatRequest, parse_parallel>("parallel_tool_calls", R"({"type":"boolean"})",
                                                 "false: at most one call in a reply."),
    composite_field<ChatRequest, parse_format>("response_format", chat_format_schema,
                                               "Holds the reply to JSON, or to a schema."),
};

constexpr std::array kLengthFields = {
    composite_field<GenerationFields, parse_max_tokens>(
        "max_tokens", kLengthSchema, "Absent and -1: what is left of the context length.")
        .also("max_completion_tokens"),
};

struct LogprobsDraft {
  bool wanted = false;
  int top = 0;
};

constexpr std::array kLogprobsFields = {
    boolean_field<&LogprobsDraft::wanted>("logprobs", "false",
                                          "The log probabilities of the reply's tokens."),
    integer_field<&LogprobsDraft::top>("top_logprobs", 0, &Limits::chat_top_logprobs_max, "0",
                                       "So many likeliest tokens beside each; only with logprobs."),
};

ApiStatus parse_logprobs(FieldReader& reader, GenerationFields& fields, const Limits& limits) {
  LogprobsDraft draft;
  TRY(read_fields(reader, kLogprobsFields, limits, fields.unknown, draft));
  if (draft.wanted) {
    fields.top_logprobs = draft.top;
  } else if (draft.top != 0) {
    return wrong_value("top_logprobs", "only allowed when logprobs is true");
  }
  return {};
}

ApiStatus not_continued(const ChatRequest& request, std::string_view why) {
  return wrong_value(request.prefix.empty() ? "continue_final_message" : request.prefix,
                     fmt::format("got true, {}", why));
}

}  // namespace

std::span<const Field<ChatRequest>> chat_prompt_fields() {
  return kPromptFields;
}

ApiStatus settle_continued(ChatRequest& request) {
  if (!request.prefix.empty()) request.continues = true;
  if (!request.continues) return {};
  if (request.adds_generation_prompt.value_or(false)) {
    return wrong_value("add_generation_prompt",
                       "got true, expected false or no such field beside continue_final_message");
  }
  const ChatMessage& last = request.messages.back();
  if (last.role != "assistant") {
    return not_continued(
        request, fmt::format("but the last message's role is {}, expected assistant", last.role));
  }
  if (!last.tool_calls.empty()) {
    return not_continued(request, "but the last message has tool_calls, expected text only");
  }
  if (last.content.find_first_not_of(" \n\r\t") == std::string::npos) {
    return not_continued(request, "but the last message has no text to go on with");
  }
  if (request.tools.choice == ToolChoice::required) {
    return wrong_value("tool_choice",
                       "got a call that must come, expected \"auto\" or \"none\" beside "
                       "continue_final_message: the reply has begun with text");
  }
  if (request.schema) {
    return wrong_value("response_format",
                       "got a format beside continue_final_message, expected {\"type\":\"text\"}: "
                       "only what follows could be held to it");
  }
  return {};
}

ApiResult<JsonObject> parse_template_variables(const FieldPlace& place, const JsonValue& value) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  TRY(check_json_size(place, to_json(value).size(), place.limits->template_bytes_max));
  return value.get_object();
}

ApiResult<ChatRequest> parse_chat_request(std::string_view body, const Limits& limits) {
  TRY_ASSIGN(const JsonObject object, parse_request_object(body, limits));
  FieldReader reader(object);
  ChatRequest request;
  GenerationFields& fields = request.fields;
  TRY_ASSIGN(fields, parse_generation_fields(reader, limits));
  TRY(read_fields(reader, kLengthFields, limits, fields.unknown, fields));
  TRY(check_token_counts(fields));
  TRY(parse_logprobs(reader, fields, limits));
  TRY(read_fields(reader, kMessagesFields, limits, fields.unknown, request));
  TRY(read_fields(reader, kPromptFields, limits, fields.unknown, request));
  TRY(read_fields(reader, kReplyFields, limits, fields.unknown, request));
  TRY(finish_fields(reader, fields.unknown));
  TRY(settle_continued(request));
  return request;
}

JsonObject chat_request_schema(const Limits& limits) {
  JsonObject schema = table_schema(kMessagesFields, limits);
  add_fields(schema, kPromptFields, limits);
  add_fields(schema, kReplyFields, limits);
  add_fields(schema, kLengthFields, limits);
  add_fields(schema, kLogprobsFields, limits);
  add_generation_schema(schema, limits);
  return schema;
}

}  // namespace reprise
