// Tokens and prompts, shown.
#include "api/text_answers.h"

#include <utility>

#include "api/json_writer.h"
#include "api/openai.h"
#include "api/prepare.h"
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

ApiResult<std::vector<TokenId>> tokens_of(const Bundle& bundle, const TokenizeRequest& request) {
  if (request.messages) {
    TRY_ASSIGN(PreparedPrompt prompt, in_api_terms(bundle.prepare_chat(*request.messages)));
    return std::move(prompt.ids);
  }
  return in_api_terms(bundle.prompts().tokenize(
      request.content, request.add_special ? AddSpecial::yes : AddSpecial::no,
      request.parse_special ? ParseSpecial::yes : ParseSpecial::no));
}

}  // namespace

ApiResult<std::string> tokenize_body(const Bundle& bundle, const Limits& limits,
                                     std::string_view body) {
  TRY_ASSIGN(const TokenizeRequest request, parse_tokenize_request(body, limits));
  TRY_ASSIGN(const std::vector<TokenId> ids, tokens_of(bundle, request));
  JsonWriter json;
  json.begin_object().key("tokens").begin_array();
  for (const TokenId id : ids) {
    if (request.with_pieces) {
      append_piece(json, id, bundle.tokenizer().token_bytes(id));
    } else {
      json.integer(id);
    }
  }
  return json.end_array().end_object().take();
}

ApiResult<std::string> detokenize_body(const Bundle& bundle, const Limits& limits,
                                       std::string_view body) {
  TRY_ASSIGN(const std::vector<TokenId> ids, parse_detokenize_request(body, limits));
  TRY_ASSIGN(const std::string text, in_api_terms(bundle.prompts().detokenize(ids)));
  return JsonWriter().begin_object().key("content").text(text).end_object().take();
}

ApiResult<std::string> apply_template_body(const Bundle& bundle, const Limits& limits,
                                           std::string_view body) {
  TRY_ASSIGN(ChatRequest request, parse_template_request(body, limits));
  const ChatSettings settings{.tools = std::move(request.tools.definitions),
                              .variables = std::move(request.template_variables),
                              .reasoning_effort = std::move(request.reasoning_effort)};
  TRY_ASSIGN(const std::string prompt,
             in_api_terms(bundle.prompts().render_chat(request.messages, settings)));
  return JsonWriter().begin_object().key("prompt").text(prompt).end_object().take();
}

}  // namespace reprise
