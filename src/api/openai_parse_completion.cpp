// POST /v1/completions and llama-server's POST /completion: the bodies.
#include <algorithm>
#include <limits>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

// ---- prompts

ApiResult<std::vector<TokenId>> prompt_of_ids(const FieldPlace& place, const JsonValue& value) {
  if (value.is_array() && value.get_array().empty()) {
    return wrong_value(place.param, "got an empty list, expected at least 1 token");
  }
  return parse_token_ids(place, value, std::numeric_limits<std::size_t>::max());
}

// One prompt of a list: a string or token ids.
ApiStatus add_prompt(const FieldPlace& place, const JsonValue& value,
                     std::vector<PromptInput>& prompts) {
  if (value.is_string()) {
    prompts.emplace_back(std::string(text_of(value)));
    return {};
  }
  if (!value.is_array()) return wrong_type(place.param, "a string or a list of token ids", value);
  TRY_ASSIGN(std::vector<TokenId> ids, prompt_of_ids(place, value));
  prompts.emplace_back(std::move(ids));
  return {};
}

// A string, token ids, or a list of these.
ApiStatus parse_prompt(const FieldPlace& place, const JsonValue& value,
                       CompletionRequest& request) {
  std::vector<PromptInput>& prompts = request.prompts;
  if (value.is_string()) return add_prompt(place, value, prompts);
  const JsonArray* list = value.if_array();
  if (!list) return wrong_type(place.param, "a string or a list", value);
  if (list->empty()) {
    return wrong_value(place.param, "got an empty list, expected at least one prompt");
  }
  if (!list->front().is_string() && !list->front().is_array()) {
    return add_prompt(place, value, prompts);
  }
  return read_list(
      place, value, "prompts", 1, place.limits->prompts_max,
      [&](const FieldPlace& at, const JsonValue& item) { return add_prompt(at, item, prompts); });
}

JsonObject prompt_schema(const Limits& limits) {
  const JsonObject text{{"type", "string"}};
  JsonObject ids = token_ids_schema();
  ids["minItems"] = 1;
  const JsonObject list{{"type", "array"},
                        {"minItems", 1},
                        {"maxItems", limits.prompts_max},
                        {"items", JsonObject{{"anyOf", JsonArray{text, ids}}}}};
  return {{"anyOf", JsonArray{text, ids, list}}};
}

// Texts get special tokens where the model wants them, here as in vLLM.
ApiStatus check_special(const FieldPlace& place, const JsonValue& value, CompletionRequest&) {
  TRY_ASSIGN(const bool is_wanted, read_boolean(place.param, value));
  if (is_wanted) return {};
  return unsupported(place.param, "not supported, expected true or no such field");
}

constexpr auto kPromptField =
    composite_field<CompletionRequest, parse_prompt>(
        "prompt", prompt_schema, "A text, token ids, or a list of texts and lists of ids.")
        .needed();
constexpr auto kSpecialField = composite_field<CompletionRequest, check_special>(
    "add_special_tokens", R"({"const":true})",
    "A text gets the beginning-of-sequence token where the model wants one.");

// ---- OpenAI's form

constexpr std::array kRequestFields = {
    kPromptField,
    kSpecialField,
    boolean_field<&CompletionRequest::echo>("echo", "false", "The reply begins with the prompt."),
    ignored_field<CompletionRequest>("parallel_tool_calls", "Accepted, without effect."),
};

ApiStatus parse_max_tokens(const FieldPlace& place, const JsonValue& value,
                           GenerationFields& fields) {
  if (value.is_number() && integral(value) == 0) {
    fields.max_tokens = 0;
    return {};
  }
  TRY_ASSIGN(fields.max_tokens, read_length(place, value));
  return {};
}

constexpr std::array kReplyFields = {
    composite_field<GenerationFields, parse_max_tokens>(
        "max_tokens", R"({"type":"integer","minimum":-1,"maximum":2147483647})",
        "Absent and -1: what is left of the context length. 0: only with echo.")
        .also("max_completion_tokens"),
    integer_field<&GenerationFields::top_logprobs>(
        "logprobs", 0, &Limits::completion_logprobs_max, "",
        "Log probabilities of the tokens, and of so many likeliest ones beside each."),
};

// ---- llama-server's form

ApiStatus parse_json_schema(const FieldPlace& place, const JsonValue& value,
                            CompletionRequest& request) {
  TRY_ASSIGN(JsonObject schema, parse_reply_schema(place, value));
  request.schema = std::move(schema);
  return {};
}

constexpr std::string_view kNoEffect = "Accepted, without effect.";

constexpr std::array kLlamaRequestFields = {
    kPromptField,
    kSpecialField,
    composite_field<CompletionRequest, parse_json_schema>("json_schema", R"({"type":"object"})",
                                                          "The reply is one JSON value by it."),
    ignored_field<CompletionRequest>("parallel_tool_calls", kNoEffect),
    ignored_field<CompletionRequest>("n_keep", kNoEffect),
    ignored_field<CompletionRequest>("n_discard", kNoEffect),
    ignored_field<CompletionRequest>("mirostat_tau", kNoEffect),
    ignored_field<CompletionRequest>("mirostat_eta", kNoEffect),
    ignored_field<CompletionRequest>("dynatemp_exponent", kNoEffect),
};

struct LlamaDraft {
  std::optional<Position> max_tokens;
  int n_probs = 0;
  int id_slot = -1;
};

ApiStatus parse_n_predict(const FieldPlace& place, const JsonValue& value, LlamaDraft& draft) {
  TRY_ASSIGN(draft.max_tokens, read_length(place, value));
  return {};
}

constexpr std::array kLlamaFields = {
    composite_field<LlamaDraft, parse_n_predict>("n_predict", kLengthSchema,
                                                 "Tokens of the reply; absent and -1: what fits.")
        .also("max_tokens"),
    integer_field<&LlamaDraft::n_probs>("n_probs", 0, &Limits::chat_top_logprobs_max, "0",
                                        "Log probabilities of so many likeliest tokens."),
    integer_field<&LlamaDraft::id_slot>("id_slot", -1, kIntegerMax, "-1",
                                        "Without effect: there are no slots."),
};

constexpr std::array kLlamaReplyFields = {
    boolean_field<&GenerationFields::return_token_ids>("return_tokens", "false",
                                                       "The reply carries its token ids."),
};

// -1 and its 32 bits are llama-server's words for "draw one".
void drop_drawn_seed(GenerationFields& fields) {
  constexpr std::uint64_t kDrawn = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t kDrawn32 = std::numeric_limits<std::uint32_t>::max();
  if (fields.sampling.seed == kDrawn || fields.sampling.seed == kDrawn32) fields.has_seed = false;
}

}  // namespace

ApiResult<CompletionRequest> parse_completion_request(std::string_view body, const Limits& limits) {
  TRY_ASSIGN(const JsonObject object, parse_request_object(body, limits));
  FieldReader reader(object);
  CompletionRequest request;
  GenerationFields& fields = request.fields;
  TRY_ASSIGN(fields, parse_generation_fields(reader, limits));
  TRY(read_fields(reader, kReplyFields, limits, fields.unknown, fields));
  TRY(check_token_counts(fields));
  TRY(read_fields(reader, kRequestFields, limits, fields.unknown, request));
  if (fields.max_tokens == 0 && !request.echo) {
    return wrong_value("max_tokens",
                       fmt::format("got 0, expected 1 to {}, or 0 with echo", kIntegerMax));
  }
  TRY(finish_fields(reader, fields.unknown));
  return request;
}

ApiResult<CompletionRequest> parse_llama_completion_request(std::string_view body,
                                                            const Limits& limits) {
  TRY_ASSIGN(const JsonObject object, parse_request_object(body, limits));
  FieldReader reader(object);
  CompletionRequest request;
  GenerationFields& fields = request.fields;
  TRY_ASSIGN(fields, parse_generation_fields(reader, limits));
  drop_drawn_seed(fields);
  LlamaDraft draft;
  TRY(read_fields(reader, kLlamaFields, limits, fields.unknown, draft));
  fields.max_tokens = draft.max_tokens;
  if (draft.n_probs > 0) fields.top_logprobs = draft.n_probs;
  request.names.max_tokens = "n_predict";
  request.names.logprobs = "n_probs";
  TRY(check_token_counts(fields));
  TRY(read_fields(reader, kLlamaReplyFields, limits, fields.unknown, fields));
  TRY(read_fields(reader, kLlamaRequestFields, limits, fields.unknown, request));
  TRY(finish_fields(reader, fields.unknown));
  return request;
}

JsonObject completion_request_schema(const Limits& limits) {
  JsonObject schema = table_schema(kRequestFields, limits);
  add_fields(schema, kReplyFields, limits);
  add_generation_schema(schema, limits);
  return schema;
}

JsonObject llama_completion_request_schema(const Limits& limits) {
  JsonObject schema = table_schema(kLlamaRequestFields, limits);
  add_fields(schema, kLlamaFields, limits);
  add_fields(schema, kLlamaReplyFields, limits);
  add_generation_schema(schema, limits);
  return schema;
}

}  // namespace reprise
