// Text to token ids and back, over Hugging Face's tokenizers library. Immutable after construction:
// any thread may use it.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "text/vocabulary.h"

struct TextTokenizer;  // of text-ffi

namespace reprise {

// Whether encode() adds the tokens that the model expects around a text (bos, and eos if it says
// so).
enum class AddSpecial : bool { no, yes };
// Whether the spelling of a special token inside the text becomes that token.
enum class ParseSpecial : bool { no, yes };

// The spellings of a folder's bos and eos tokens; empty where there is none.
struct TokenizerNames {
  std::string bos, eos;
};

class Tokenizer {
 public:
  // Errors: corrupt (counts disagree, a merge names no token), unsupported (unknown pre-tokenizer).
  static Result<Tokenizer> from_vocabulary(const Vocabulary& vocabulary);

  // From the text of a Hugging Face tokenizer.json, which is untrusted. Errors: corrupt (no JSON,
  // more than 64 MB, ids that contradict each other, a name of `names` that is no token),
  // unsupported (a step or model that is not done); the message names the part of the file.
  static Result<Tokenizer> from_json(std::string_view tokenizer_json, const TokenizerNames& names);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Errors: invalid_argument when `text` is not UTF-8.
  Result<std::vector<TokenId>> encode(std::string_view text, AddSpecial add,
                                      ParseSpecial parse) const;

  // At least so many tokens, without tokenising: no token stands for more bytes of text than the
  // longest one has. Bytes that could be unknown characters are not counted.
  std::size_t least_tokens(std::string_view text) const;

  std::size_t size() const;  // the highest id + 1
  // Ids below size() without a token, ascending: the model's head may have rows for them (and past
  // size()); they must never be sampled.
  std::vector<TokenId> missing_ids() const;
  bool is_special(TokenId id) const;
  // The bytes that the token stands for (a special token: its spelling). Empty for ids without a
  // token.
  std::string_view token_bytes(TokenId id) const;
  std::optional<TokenId> find(std::string_view token) const;  // by exact spelling in the vocabulary
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  const TextTokenizer& ffi() const;  // for this room

 private:
  struct State;
  static Tokenizer with_table(std::unique_ptr<State> state);
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace reprise
