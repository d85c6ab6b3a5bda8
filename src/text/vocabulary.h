// A tokenizer as model files describe it: the tokens, and how text becomes tokens.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace reprise {

enum class VocabularyKind : std::uint8_t {
  scores,  // SentencePiece with byte fallback (GGUF "llama"): the best-scored merge first
  merges,  // byte-level BPE with a list of merges (GGUF "gpt2")
};

// Numbered as in GGUF's tokenizer.ggml.token_type.
enum class TokenType : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

// Views point into the model file, which must outlive the call that takes the vocabulary.
struct Vocabulary {
  VocabularyKind kind = VocabularyKind::scores;
  std::vector<std::string_view> tokens;  // index = TokenId
  std::vector<float> scores;             // as many as tokens (kind scores)
  std::vector<TokenType> types;          // as many as tokens
  std::vector<std::string_view> merges;  // "left right", best first (kind merges)
  std::string pre_tokenizer;  // name of the split rules (kind merges): "smollm", "llama-bpe" ...
  std::optional<TokenId> bos, eos, unknown;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
};

}  // namespace reprise
