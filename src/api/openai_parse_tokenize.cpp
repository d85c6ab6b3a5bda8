// POST /tokenize and /detokenize: the bodies.
#include <limits>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

struct TokenizeDraft {
  TokenizeRequest request;
  std::optional<std::string> content;
  std::optional<std::vector<ChatMessage>> messages;
  std::string prefix;  // as ChatRequest's
};

ApiStatus parse_tokenize_messages(const FieldPlace& place, const JsonValue& value,
                                  TokenizeDraft& draft) {
  TRY_ASSIGN(draft.messages, parse_messages(place, value, draft.prefix));
  return {};
}

constexpr std::array kTextFields = {
    text_field<&TokenizeDraft::content>("content", 0, kIntegerMax, "The text.").also("prompt"),
    composite_field<TokenizeDraft, parse_tokenize_messages>(
        "messages", messages_schema, "Instead of content: what their prompt would be."),
};

constexpr std::string_view kModelText = "The alias of the served model; absent: that one.";

constexpr std::array kTokenizeFields = {
    text_field<&TokenizeRequest::model>("model", 0, &Limits::name_bytes_max, kModelText),
    boolean_field<&TokenizeRequest::add_special>(
        "add_special", "false", "The beginning-of-sequence token comes first; only with content.")
        .also("add_special_tokens"),
    boolean_field<&TokenizeRequest::parse_special>(
        "parse_special", "true", "Spellings of special tokens become these; false: only content."),
    boolean_field<&TokenizeRequest::with_pieces>("with_pieces", "false",
                                                 "The reply has each token's text."),
};

// A text's tokens do not depend on what belongs to chats, nor a chat's on what belongs to texts.
ApiStatus check_together(FieldReader& reader, const TokenizeDraft& draft) {
  if (draft.content && draft.messages) {
    return wrong_value("messages", "got content and messages, expected one of them");
  }
  if (!draft.content && !draft.messages) return missing("content");
  if (draft.content) {
    for (const FieldSpec& field : chat_prompt_fields()) {
      if (!reader.find(field.name)) continue;
      return wrong_value(reader.path(field.name), "only allowed with messages");
    }
    return {};
  }
  if (draft.request.add_special) {
    return wrong_value(reader.find("add_special") ? "add_special" : "add_special_tokens",
                       "got true, only allowed with content: messages have their template");
  }
  if (!draft.request.parse_special) {
    return wrong_value("parse_special", "got false, only allowed with content");
  }
  return {};
}

ApiStatus parse_detokenize_tokens(const FieldPlace& place, const JsonValue& value,
                                  DetokenizeRequest& request) {
  TRY_ASSIGN(request.tokens,
             parse_token_ids(place, value, std::numeric_limits<std::size_t>::max()));
  return {};
}

constexpr std::array kDetokenizeFields = {
    composite_field<DetokenizeRequest, parse_detokenize_tokens>(
        "tokens", [](const Limits&) { return token_ids_schema(); }, "")
        .needed(),
    text_field<&DetokenizeRequest::model>("model", 0, &Limits::name_bytes_max, kModelText),
};

}  // namespace

ApiResult<TokenizeRequest> parse_tokenize_request(std::string_view body, const Limits& limits) {
  TRY_ASSIGN(const JsonObject object, parse_request_object(body, limits));
  FieldReader reader(object);
  TokenizeDraft draft;
  TokenizeRequest& request = draft.request;
  TRY(read_fields(reader, kTextFields, limits, request.unknown, draft));
  TRY(read_fields(reader, kTokenizeFields, limits, request.unknown, request));
  ChatRequest chat;
  TRY(read_fields(reader, chat_prompt_fields(), limits, request.unknown, chat));
  TRY(check_together(reader, draft));
  TRY(finish_fields(reader, request.unknown));
  request.content = std::move(draft.content).value_or("");
  if (draft.messages) {
    chat.messages = std::move(*draft.messages);
    chat.prefix = std::move(draft.prefix);
    TRY(settle_continued(chat));
    request.chat = std::move(chat);
  }
  return std::move(request);
}

ApiResult<DetokenizeRequest> parse_detokenize_request(std::string_view body, const Limits& limits) {
  TRY_ASSIGN(const JsonObject object, parse_request_object(body, limits));
  FieldReader reader(object);
  DetokenizeRequest request;
  TRY(read_fields(reader, kDetokenizeFields, limits, request.unknown, request));
  add_unknown(reader, request.unknown);
  return request;
}

JsonObject tokenize_request_schema(const Limits& limits) {
  JsonObject schema = table_schema(kTextFields, limits);
  add_fields(schema, kTokenizeFields, limits);
  add_fields(schema, chat_prompt_fields(), limits);
  schema["anyOf"] = own_json(R"([
    {"required":["content"],"properties":{"content":{"type":"string"},"messages":{"type":"null"}}},
    {"required":["prompt"],"properties":{"prompt":{"type":"string"},"messages":{"type":"null"}}},
    {"required":["messages"],"properties":{"messages":{"type":"array"},
      "content":{"type":"null"},"prompt":{"type":"null"}}}])");
  return schema;
}

JsonObject detokenize_request_schema(const Limits& limits) {
  return table_schema(kDetokenizeFields, limits);
}

}  // namespace reprise
