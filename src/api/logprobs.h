// Log probabilities of a reply in OpenAI's two forms, written token by token.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/openai_format.h"
#include "engine/sampling.h"
#include "text/tokenizer.h"

namespace reprise {

// A token's bytes as text: themselves, or "bytes:\xE2\x82" when they are not UTF-8 by themselves.
std::string token_text(std::string_view bytes);

// {token, logprob, bytes, top_logprobs: [{token, logprob, bytes}]}, as chat and responses have it;
// in llama-server's form with "id" in front of each.
enum class LogprobIds : std::uint8_t { no, yes };
void append_logprob(JsonWriter& json, const Tokenizer& tokenizer, const SampledToken& token,
                    LogprobIds ids = LogprobIds::no);

// chat: {"content":[{token, logprob, bytes, top_logprobs}], "refusal":null}.
// completion: {tokens, token_logprobs, top_logprobs, text_offset}; offsets count characters of the
// reply, an echoed prompt included. The numbers are floats in their own shortest digits.
class LogprobsWriter {
 public:
  LogprobsWriter(const Tokenizer& tokenizer, ReplyKind kind)  // the tokenizer must outlive this
      : tokenizer_(&tokenizer), kind_(kind) {}

  void add(const SampledToken& token);
  // A prompt's tokens, for a reply that repeats the prompt. Nothing comes before the first one: it
  // has no logprob. `is_shown`: its spelling is in the repeated text; a special token that was only
  // added in front has none there.
  void add_first(TokenId id, bool is_shown);
  void add_prompt(const SampledToken& token);
  bool is_empty() const { return count_ == 0; }
  // What was added since the last take, as a JSON value; "null" when nothing was.
  std::string take();

 private:
  void add_chat(const SampledToken& token);
  void add_completion(const SampledToken& token, bool is_shown);
  void add_place(TokenId id, bool is_shown);

  const Tokenizer* tokenizer_;
  ReplyKind kind_;
  std::size_t count_ = 0;
  std::size_t offset_ = 0;                                             // characters so far
  std::string content_;                                                // chat: list items
  std::string tokens_, token_logprobs_, top_logprobs_, text_offsets_;  // completion: list items
};

}  // namespace reprise
