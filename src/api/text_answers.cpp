// Tokens and prompts, shown.
#include "api/text_answers.h"

#include <utility>

#include "api/json_writer.h"
#include "text/utf8.h"

namespace reprise {
namespace {

template <class T>
ApiResult<T> in_api_terms(Result<T> result) {
  if (!result) return std::unexpected(to_api_error(result.error()));
  return std::move(*result);
}

void append_piece(JsonWriter& json, TokenId id, std::string_view bytes) {
  json.begin_object();
  json.key("id").integer(id);
  json.key("piece");
  if (is_utf8(bytes)) {
    json.text(bytes);
  } else {
    json.begin_array();
    for (const char byte : bytes) json.integer(static_cast<unsigned char>(byte));
    json.end_array();
  }
  json.end_object();
}

std::string object_of(std::string_view key, std::string_view text) {
  return JsonWriter().begin_object().key(key).text(text).end_object().take();
}

// The text that a chat becomes.
ApiResult<std::string> rendered(const PromptWriter& prompts, ChatRequest request) {
  const ChatSettings settings = take_settings(request);
  return in_api_terms(prompts.render_chat(request.messages, settings));
}

ApiResult<std::vector<TokenId>> tokens_of(const PromptWriter& prompts, TokenizeRequest request) {
  if (request.chat) return chat_tokens(prompts, std::move(*request.chat));
  return in_api_terms(
      prompts.tokenize(request.content, request.add_special ? AddSpecial::yes : AddSpecial::no,
                       request.parse_special ? ParseSpecial::yes : ParseSpecial::no));
}

}  // namespace

ApiResult<std::vector<TokenId>> chat_tokens(const PromptWriter& prompts, ChatRequest request) {
  const std::string param(request.names.messages);
  TRY_ASSIGN(const std::string text, rendered(prompts, std::move(request)));
  return in_api_terms(prompts.tokenize(text, AddSpecial::yes, ParseSpecial::yes, param));
}

ApiResult<TextAnswer> tokenize_body(const PrepareContext& context, std::string_view body) {
  TRY_ASSIGN(TokenizeRequest request, parse_tokenize_request(body, context.limits));
  TRY(check_model(request.model, context.model_alias));
  TextAnswer answer{.unknown = std::move(request.unknown)};
  const bool with_pieces = request.with_pieces;
  const Bundle& bundle = *context.bundle;
  TRY_ASSIGN(const std::vector<TokenId> ids, tokens_of(bundle.prompts(), std::move(request)));
  JsonWriter json;
  json.begin_object().key("tokens").begin_array();
  for (const TokenId id : ids) {
    if (with_pieces) {
      append_piece(json, id, bundle.tokenizer().token_bytes(id));
    } else {
      json.integer(id);
    }
  }
  answer.body = json.end_array().end_object().take();
  return answer;
}

ApiResult<TextAnswer> detokenize_body(const PrepareContext& context, std::string_view body) {
  TRY_ASSIGN(DetokenizeRequest request, parse_detokenize_request(body, context.limits));
  TRY(check_model(request.model, context.model_alias));
  TRY_ASSIGN(const std::string text,
             in_api_terms(context.bundle->prompts().detokenize(request.tokens)));
  return TextAnswer{.body = object_of("content", text), .unknown = std::move(request.unknown)};
}

ApiResult<TextAnswer> apply_template_body(const PrepareContext& context, std::string_view body) {
  TRY_ASSIGN(ChatRequest request, parse_chat_request(body, context.limits));
  TRY(check_model(request.fields.model, context.model_alias));
  TextAnswer answer{.unknown = std::move(request.fields.unknown)};
  TRY_ASSIGN(const std::string prompt, rendered(context.bundle->prompts(), std::move(request)));
  answer.body = object_of("prompt", prompt);
  return answer;
}

}  // namespace reprise
