// POST /tokenize and /detokenize: the bodies.
#include <limits>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

struct TokenizeDraft {
  TokenizeRequest request;
  std::optional<std::string> content;
  std::string model;
};

ApiStatus parse_tokenize_messages(const FieldPlace& place, const JsonValue& value,
                                  TokenizeRequest& request) {
  TRY_ASSIGN(request.messages, parse_messages(place, value));
  return {};
}

constexpr std::array kContentFields = {
    text_field<&TokenizeDraft::content>("content", 0, kIntegerMax, "The text.").also("prompt"),
    text_field<&TokenizeDraft::model>("model", 0, &Limits::name_bytes_max, "Without effect."),
};

constexpr std::array kTokenizeFields = {
    composite_field<TokenizeRequest, parse_tokenize_messages>(
        "messages", messages_schema, "Instead of content: what their prompt would be."),
    boolean_field<&TokenizeRequest::add_special>("add_special", "false",
                                                 "The beginning-of-sequence token comes first.")
        .also("add_special_tokens"),
    boolean_field<&TokenizeRequest::parse_special>("parse_special", "true",
                                                   "Spellings of special tokens become these."),
    boolean_field<&TokenizeRequest::with_pieces>("with_pieces", "false",
                                                 "The reply has each token's text."),
};

ApiStatus parse_detokenize_tokens(const FieldPlace& place, const JsonValue& value,
                                  std::vector<TokenId>& tokens) {
  TRY_ASSIGN(tokens, parse_token_ids(place, value, std::numeric_limits<std::size_t>::max()));
  return {};
}

constexpr std::array kDetokenizeFields = {
    composite_field<std::vector<TokenId>, parse_detokenize_tokens>(
        "tokens", R"({"type":"array","items":{"type":"integer","minimum":0}})", "")
        .needed(),
};

}  // namespace

ApiResult<TokenizeRequest> parse_tokenize_request(std::string_view body, const Limits& limits) {
  TRY_ASSIGN(const JsonObject object, parse_request_object(body, limits));
  FieldReader reader(object);
  TokenizeDraft draft;
  std::vector<std::string> unknown;  // nothing here could go wrong by it
  TRY(read_fields(reader, kContentFields, limits, unknown, draft));
  TRY(read_fields(reader, kTokenizeFields, limits, unknown, draft.request));
  if (draft.content && draft.request.messages) {
    return wrong_value("messages", "got content and messages, expected one of them");
  }
  if (!draft.content && !draft.request.messages) return missing("content");
  draft.request.content = std::move(draft.content).value_or("");
  return std::move(draft.request);
}

ApiResult<std::vector<TokenId>> parse_detokenize_request(std::string_view body,
                                                         const Limits& limits) {
  TRY_ASSIGN(const JsonObject object, parse_request_object(body, limits));
  FieldReader reader(object);
  std::vector<TokenId> tokens;
  std::vector<std::string> unknown;
  TRY(read_fields(reader, kDetokenizeFields, limits, unknown, tokens));
  return tokens;
}

JsonObject tokenize_request_schema(const Limits& limits) {
  JsonObject schema = table_schema(kContentFields, limits);
  add_fields(schema, kTokenizeFields, limits);
  return schema;
}

JsonObject detokenize_request_schema(const Limits& limits) {
  return table_schema(kDetokenizeFields, limits);
}

}  // namespace reprise
