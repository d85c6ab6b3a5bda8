// The tables of POST /v1/responses.
#include "api/responses_request.h"

#include <array>
#include <utility>

#include <fmt/core.h>

#include "api/openai_fields.h"
#include "api/responses_input.h"
#include "text/utf8.h"

namespace reprise {
namespace {

constexpr std::size_t kMetadataMax = 16;  // OpenAI's numbers
constexpr std::size_t kMetadataKeyMax = 64;
constexpr std::size_t kMetadataValueMax = 512;
constexpr std::string_view kLogprobsInclude = "message.output_text.logprobs";
// Agents ask for it always. Thoughts are in the items' content here, readable and accepted back, so
// that nothing is lost without it.
constexpr std::string_view kEncryptedInclude = "reasoning.encrypted_content";

// ---- ResponseExtras
// -------------------------------------------------------------------------------

ApiStatus parse_include(const FieldPlace& place, const JsonValue& value, ResponseExtras& extras) {
  return read_list(
      place, value, "names", 0, 16, [&](const FieldPlace& at, const JsonValue& item) -> ApiStatus {
        if (!item.is_string()) return wrong_type(at.param, "a string", item);
        if (text_of(item) == kEncryptedInclude) return {};
        if (text_of(item) != kLogprobsInclude) {
          return unsupported(at.param, fmt::format("got \"{}\", expected \"{}\"",
                                                   clipped(text_of(item)), kLogprobsInclude));
        }
        extras.include_logprobs = true;
        return {};
      });
}

ApiStatus parse_metadata(const FieldPlace& place, const JsonValue& value, ResponseExtras& extras) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  const JsonObject& object = value.get_object();
  TRY(check_count(place.param, object.size(), "pairs", 0, kMetadataMax));
  for (const auto& pair : object) {
    const std::string_view name(pair.key().data(), pair.key().size());
    const std::string param = place.member(clipped(name)).param;
    const std::size_t letters = count_characters(name);
    if (letters > kMetadataKeyMax) {
      return wrong_value(param, fmt::format("got a name of {} characters, expected at most {}",
                                            letters, kMetadataKeyMax));
    }
    if (!pair.value().is_string()) return wrong_type(param, "a string", pair.value());
    const std::size_t size = count_characters(text_of(pair.value()));
    if (size > kMetadataValueMax) {
      return wrong_value(
          param, fmt::format("got {} characters, expected at most {}", size, kMetadataValueMax));
    }
  }
  extras.metadata_json = to_json(value);
  return {};
}

ApiStatus refuse_background(const FieldPlace& place, const JsonValue& value, ResponseExtras&) {
  TRY_ASSIGN(const bool is_wanted, read_boolean(place.param, value));
  if (!is_wanted) return {};
  return unsupported(place.param,
                     "got true, expected false: replies are made while their client "
                     "waits");
}

ApiStatus check_truncation(const FieldPlace& place, const JsonValue& value, ResponseExtras&) {
  if (!value.is_string()) return wrong_type(place.param, "a string", value);
  if (text_of(value) == "disabled") return {};
  return unsupported(place.param, fmt::format("got \"{}\", expected \"disabled\": nothing of a "
                                              "conversation is left out in silence",
                                              clipped(text_of(value))));
}

// Parameters of the Responses API that we do not have, whatever their value.
ApiStatus refuse_any(const FieldPlace& place, const JsonValue&, ResponseExtras&) {
  return unsupported(place.param, "not supported, expected no such field");
}

constexpr std::string_view kIncludeSchema =
    R"({"type":"array","items":{"enum":["message.output_text.logprobs",
                                        "reasoning.encrypted_content"]}})";
constexpr std::string_view kMetadataSchema =
    R"({"type":"object","maxProperties":16,
        "additionalProperties":{"type":"string","maxLength":512}})";
constexpr std::string_view kBackgroundSchema = R"({"const":false})";
constexpr std::string_view kTruncationSchema = R"({"const":"disabled"})";

using Extras = ResponseExtras;
constexpr std::array kExtraFields = {
    text_field<&Extras::instructions>(
        "instructions", 0, &Limits::body_bytes_max,
        "A system message in front of this request's conversation only."),
    text_field<&Extras::previous_response_id>(
        "previous_response_id", 1, &Limits::name_bytes_max,
        "The kept response whose conversation the input goes on with."),
    boolean_field<&Extras::store>("store", "true", "Keep the response in memory."),
    composite_field<Extras, parse_include>("include", kIncludeSchema,
                                           "What the reply shall show beside its text."),
    integer_field<&Extras::top_logprobs>("top_logprobs", 0, &Limits::chat_top_logprobs_max, "0",
                                         "Only with include message.output_text.logprobs."),
    composite_field<Extras, parse_metadata>("metadata", kMetadataSchema, "Kept with the response."),
    text_field<&Extras::user>("user", 0, &Limits::name_bytes_max, "Shown in the response."),
    text_field<&Extras::prompt_cache_key>("prompt_cache_key", 0, &Limits::name_bytes_max,
                                          "Shown in the response."),
    text_field<&Extras::safety_identifier>("safety_identifier", 0, &Limits::name_bytes_max,
                                           "Shown in the response."),
    composite_field<Extras, refuse_background>("background", kBackgroundSchema,
                                               "Replies are made while their client waits."),
    composite_field<Extras, check_truncation>("truncation", kTruncationSchema,
                                              "A conversation that does not fit is refused."),
};

// Not in /openapi.json.
constexpr std::array kRefusedFields = {
    composite_field<Extras, refuse_any>("conversation", "{}", ""),
    composite_field<Extras, refuse_any>("max_tool_calls", "{}", ""),
    composite_field<Extras, refuse_any>("prompt", "{}", ""),
    composite_field<Extras, refuse_any>("context_management", "{}", ""),
    composite_field<Extras, refuse_any>("moderation", "{}", ""),
};

// ---- ChatRequest
// ----------------------------------------------------------------------------------

constexpr std::string_view kNoCalls = R"("none")";  // of tool_choice

// What every response object shows again, as JSON.
ApiStatus keep_echo(const FieldPlace& place, const JsonValue& value, std::string& echo) {
  echo = to_json(value);
  return check_json_size(place, echo.size(), place.limits->response_echo_bytes_max);
}

ApiStatus parse_tools_field(const FieldPlace& place, const JsonValue& value,
                            ResponsesRequest& request) {
  TRY(parse_response_tools(place, value, request.chat.tools, request.extras.tools));
  for (const HostedTool& tool : request.extras.tools.hosted) {
    request.chat.fields.tools_left_out.push_back(tool.type);
  }
  return {};
}

ApiStatus parse_choice_field(const FieldPlace& place, const JsonValue& value,
                             ResponsesRequest& request) {
  TRY(parse_response_choice(place, value, request.extras.tools, request.chat.tools));
  return keep_echo(place, value, request.extras.tool_choice_json);
}

ApiStatus parse_parallel(const FieldPlace& place, const JsonValue& value,
                         ResponsesRequest& request) {
  TRY_ASSIGN(request.chat.tools.parallel, read_boolean(place.param, value));
  return {};
}

ApiStatus parse_format(const FieldPlace& place, const JsonValue& value, ChatRequest& chat) {
  TRY_ASSIGN(chat.schema, parse_reply_format(place, value, Nesting::flat));
  return {};
}

ApiStatus check_verbosity(const FieldPlace& place, const JsonValue& value, ChatRequest&) {
  if (!value.is_string()) return wrong_type(place.param, "a string", value);
  if (text_of(value) == "medium") return {};
  return unsupported(place.param, fmt::format("got \"{}\", expected \"medium\" or no such field",
                                              clipped(text_of(value))));
}

JsonObject format_schema(const Limits& limits) {
  return reply_format_schema(limits, Nesting::flat);
}

constexpr std::array kTextFields = {
    composite_field<ChatRequest, parse_format>("format", format_schema, "What the text shall be."),
    composite_field<ChatRequest, check_verbosity>("verbosity", R"({"const":"medium"})",
                                                  "There is only one."),
};

ApiStatus parse_text(const FieldPlace& place, const JsonValue& value, ResponsesRequest& request) {
  TRY(read_object<ChatRequest>(place, value, kTextFields, request.chat));
  const JsonValue* format = value.get_object().if_contains("format");
  if (!format || format->is_null()) return {};
  return keep_echo(place, value, request.extras.text_json);
}

ApiStatus parse_reasoning(const FieldPlace& place, const JsonValue& value,
                          ResponsesRequest& request) {
  TRY_ASSIGN(request.chat.reasoning_effort, parse_reasoning_effort(place, value));
  return {};
}

ApiStatus parse_variables(const FieldPlace& place, const JsonValue& value,
                          ResponsesRequest& request) {
  TRY_ASSIGN(request.chat.template_variables, parse_template_variables(place, value));
  return {};
}

ApiStatus parse_input(const FieldPlace& place, const JsonValue& value, ResponsesRequest& request) {
  return parse_response_input(place, value, request.input);
}

JsonObject text_schema(const Limits& limits) {
  return table_schema(kTextFields, limits);
}

using Request = ResponsesRequest;
constexpr std::array kRequestFields = {
    composite_field<Request, parse_input>("input", response_input_schema,
                                          "A user's text, or the items of a conversation.")
        .needed(),
    composite_field<Request, parse_tools_field>("tools", response_tools_schema,
                                                "Functions that the model may call."),
    composite_field<Request, parse_choice_field>("tool_choice", response_choice_schema,
                                                 "Whether it may, must or must not."),
    composite_field<Request, parse_parallel>("parallel_tool_calls", R"({"type":"boolean"})",
                                             "More than one call in a reply."),
    composite_field<Request, parse_text>("text", text_schema, "What the text shall be."),
    composite_field<Request, parse_reasoning>("reasoning", reasoning_schema,
                                              "How much the model shall think."),
    composite_field<Request, parse_variables>("chat_template_kwargs", R"({"type":"object"})",
                                              "More variables of the chat template."),
};

// ---- GenerationFields
// -----------------------------------------------------------------------------

constexpr std::array kLengthFields = {
    integer_field<&GenerationFields::max_tokens>(
        "max_output_tokens", 1, kIntegerMax, "",
        "The most that the reply may have, thoughts included; absent: what there is room for."),
};

constexpr ParamNames kNames = {
    .messages = "input", .max_tokens = "max_output_tokens", .schema = "text.format.schema"};

// Fields of chat requests that are called otherwise here; in silence they would be lost.
struct MovedField {
  std::string_view name, here;
};
constexpr std::array kMovedFields = {
    MovedField{"messages", "input"},
    MovedField{"max_tokens", "max_output_tokens"},
    MovedField{"max_completion_tokens", "max_output_tokens"},
    MovedField{"response_format", "text.format"},
    MovedField{"reasoning_effort", "reasoning.effort"},
    MovedField{"verbosity", "text.verbosity"},
    MovedField{"logprobs", "include"},
};

ApiStatus refuse_moved(FieldReader& reader) {
  for (const MovedField& field : kMovedFields) {
    if (!reader.find(field.name)) continue;
    return unsupported(reader.path(field.name),
                       fmt::format("not supported here, expected {}", field.here));
  }
  return {};
}

ApiStatus check_together(ResponsesRequest& request) {
  GenerationFields& fields = request.chat.fields;
  const ResponseExtras& extras = request.extras;
  if (fields.choices != 1) return unsupported("n", "not supported here, expected 1");
  if (fields.return_token_ids) {
    return unsupported("return_token_ids", "not supported here, expected false");
  }
  if (fields.return_progress) {
    return unsupported("return_progress", "not supported here, expected false");
  }
  if (extras.include_logprobs) {
    fields.top_logprobs = extras.top_logprobs.value_or(0);
  } else if (extras.top_logprobs.value_or(0) != 0) {
    return wrong_value("top_logprobs",
                       fmt::format("only allowed when include has \"{}\"", kLogprobsInclude));
  }
  TRY(check_hosted(extras.tools, request.chat.tools, extras.tool_choice_json != kNoCalls));
  return check_token_counts(fields);
}

}  // namespace

ApiResult<ResponsesRequest> parse_responses_request(std::string_view body, const Limits& limits) {
  TRY_ASSIGN(const JsonObject object, parse_request_object(body, limits));
  FieldReader reader(object);
  ResponsesRequest request;
  request.chat.names = kNames;
  TRY(refuse_moved(reader));
  TRY_ASSIGN(request.chat.fields, parse_generation_fields(reader, limits));
  std::vector<std::string>& unknown = request.chat.fields.unknown;
  TRY(read_fields<GenerationFields>(reader, kLengthFields, limits, unknown, request.chat.fields));
  TRY(read_fields<Extras>(reader, kExtraFields, limits, unknown, request.extras));
  TRY(read_fields<Extras>(reader, kRefusedFields, limits, unknown, request.extras));
  TRY(read_fields<Request>(reader, kRequestFields, limits, unknown, request));
  TRY(check_together(request));
  TRY(finish_fields(reader, unknown));
  return request;
}

JsonObject responses_request_schema(const Limits& limits) {
  JsonObject schema{{"type", "object"}};
  add_generation_schema(schema, limits);
  // Read only to be refused.
  JsonObject& properties = schema["properties"].get_object();
  for (const char* name : {"n", "return_progress", "return_token_ids"}) properties.erase(name);
  // After those of all: what these ignore (store, metadata ...) means something here.
  add_fields(schema, kRequestFields, limits);
  add_fields(schema, kExtraFields, limits);
  add_fields(schema, kLengthFields, limits);
  return schema;
}

}  // namespace reprise
