// POST /v1/completions: the body.
#include <limits>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

using Prompt = std::variant<std::string, std::vector<TokenId>>;

std::string text_of(const JsonValue& value) {
  return std::string(value.get_string().data(), value.get_string().size());
}

ApiResult<TokenId> parse_token(const JsonValue& value, std::size_t index) {
  const std::string param = fmt::format("prompt[{}]", index);
  const std::optional<std::int64_t> id = integral(value);
  if (!id) return wrong_type(param, "a token id", value);
  constexpr TokenId kMax = std::numeric_limits<TokenId>::max();
  if (*id < 0 || *id > kMax) {
    return refuse(400, "invalid_value",
                  fmt::format("{}: got {}, expected 0 to {}", param, *id, kMax), param);
  }
  return static_cast<TokenId>(*id);
}

// One prompt: a string, a list of one string, or a list of token ids.
ApiResult<Prompt> parse_prompt(FieldReader& reader) {
  const JsonValue* value = reader.find("prompt");
  if (!value) return missing("prompt");
  if (value->is_string()) return text_of(*value);
  const JsonArray* list = value->if_array();
  if (!list) return wrong_type("prompt", "a string or a list", *value);
  if (list->empty()) {
    return refuse(400, "invalid_value", "prompt: got an empty list, expected one prompt", "prompt");
  }
  if (list->front().is_string() || list->front().is_array()) {
    if (list->size() > 1) {
      return unsupported("prompt", fmt::format("got {} prompts, expected 1", list->size()));
    }
    if (list->front().is_array()) return unsupported("prompt", "lists of lists are not supported");
    return text_of(list->front());
  }
  std::vector<TokenId> ids;
  ids.reserve(list->size());
  for (std::size_t index = 0; index < list->size(); index++) {
    TRY_ASSIGN(const TokenId id, parse_token((*list)[index], index));
    ids.push_back(id);
  }
  return ids;
}

}  // namespace

ApiResult<CompletionRequest> parse_completion_request(std::string_view body, const Limits& limits) {
  TRY_ASSIGN(const JsonObject object, parse_request_object(body, limits));
  FieldReader reader(object);
  CompletionRequest request;
  TRY_ASSIGN(request.fields, parse_generation_fields(reader, limits));
  TRY_ASSIGN(const auto logprobs, reader.integer("logprobs", 0, limits.completion_logprobs_max));
  request.fields.top_logprobs = static_cast<int>(logprobs.value_or(-1));
  TRY_ASSIGN(request.prompt, parse_prompt(reader));
  std::vector<std::string> unknown = reader.unknown();
  request.fields.unknown.insert(request.fields.unknown.end(), unknown.begin(), unknown.end());
  return request;
}

}  // namespace reprise
