// LogprobsWriter: list items are kept as text, so that a long reply costs what it sends.
#include "api/logprobs.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "api/json_writer.h"
#include "text/utf8.h"

namespace reprise {
namespace {

// OpenAI's number for "practically never": JSON knows no infinity.
constexpr float kLeastLogprob = -9999.0f;

float printable(float logprob) {
  return std::isfinite(logprob) ? logprob : kLeastLogprob;
}

void append_item(std::string& list, std::string_view item) {
  if (!list.empty()) list += ',';
  list += item;
}

void append_members(JsonWriter& json, std::string_view bytes, float logprob) {
  json.key("token").text(token_text(bytes));
  json.key("logprob").number(printable(logprob));
  json.key("bytes").begin_array();
  for (const char byte : bytes) json.integer(static_cast<unsigned char>(byte));
  json.end_array();
}

}  // namespace

std::string token_text(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  std::string text = "bytes:";
  for (const char byte : bytes) {
    text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

void append_logprob(JsonWriter& json, const Tokenizer& tokenizer, const SampledToken& token,
                    LogprobIds ids) {
  const auto append = [&](TokenId id, float logprob) {
    json.begin_object();
    if (ids == LogprobIds::yes) json.key("id").integer(id);
    append_members(json, tokenizer.token_bytes(id), logprob);
  };
  append(token.id, token.logprob);
  json.key("top_logprobs").begin_array();
  for (const TokenLogprob& top : token.top) {
    append(top.id, top.logprob);
    json.end_object();
  }
  json.end_array().end_object();
}

void LogprobsWriter::add(const SampledToken& token) {
  count_++;
  if (kind_ == ReplyKind::chat) {
    add_chat(token);
  } else {
    add_completion(token, !tokenizer_->is_special(token.id));
  }
}

void LogprobsWriter::add_chat(const SampledToken& token) {
  JsonWriter json;
  append_logprob(json, *tokenizer_, token);
  append_item(content_, json.take());
}

void LogprobsWriter::add_prompt(const SampledToken& token) {
  count_++;
  add_completion(token, true);
}

void LogprobsWriter::add_first(TokenId id, bool is_shown) {
  count_++;
  add_place(id, is_shown);
  append_item(token_logprobs_, "null");
  append_item(top_logprobs_, "null");
}

void LogprobsWriter::add_place(TokenId id, bool is_shown) {
  const std::string_view bytes = tokenizer_->token_bytes(id);
  append_item(tokens_, JsonWriter().text(token_text(bytes)).take());
  append_item(text_offsets_, JsonWriter().integer(offset_).take());
  if (is_shown) offset_ += count_characters(bytes);
}

// top_logprobs is an object by token text here: the sampled token is in it even when it is not
// among the best; of two tokens with the same text the likelier one is.
void LogprobsWriter::add_completion(const SampledToken& token, bool is_shown) {
  add_place(token.id, is_shown);
  append_item(token_logprobs_, JsonWriter().number(printable(token.logprob)).take());

  JsonWriter json;
  json.begin_object();
  std::vector<std::string> seen;
  const auto append = [&](std::string name, float logprob) {
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) return;
    json.key(name).number(printable(logprob));
    seen.push_back(std::move(name));
  };
  for (const TokenLogprob& top : token.top) {
    append(token_text(tokenizer_->token_bytes(top.id)), top.logprob);
  }
  append(token_text(tokenizer_->token_bytes(token.id)), token.logprob);
  append_item(top_logprobs_, json.end_object().take());
}

std::string LogprobsWriter::take() {
  if (count_ == 0) return "null";
  count_ = 0;
  JsonWriter json;
  json.begin_object();
  const auto list = [&json](std::string_view name, std::string& items) {
    json.key(name).raw("[" + std::exchange(items, {}) + "]");
  };
  if (kind_ == ReplyKind::chat) {
    list("content", content_);
    json.key("refusal").null();
  } else {
    list("tokens", tokens_);
    list("token_logprobs", token_logprobs_);
    list("top_logprobs", top_logprobs_);
    list("text_offset", text_offsets_);
  }
  return json.end_object().take();
}

}  // namespace reprise
