// The vocabulary of a real GGUF file with scores (Gemma's), for tests and benches of the text room.
#pragma once
#include <cstdlib>
#include <optional>

#include "model/gguf.h"
#include "text/tokenizer.h"

namespace reprise::testing {

// The tokenizer of the file; it need not stay open.
inline Result<Tokenizer> scores_tokenizer_of(const char* path) {
  TRY_ASSIGN(const GgufFile file, GgufFile::open(path));
  Vocabulary vocabulary;
  TRY_ASSIGN(vocabulary.tokens, file.texts("tokenizer.ggml.tokens"));
  TRY_ASSIGN(const auto types, file.integers("tokenizer.ggml.token_type"));
  for (const std::int64_t type : types) vocabulary.types.push_back(static_cast<TokenType>(type));
  TRY_ASSIGN(const auto scores, file.numbers("tokenizer.ggml.scores"));
  for (const double score : scores) vocabulary.scores.push_back(static_cast<float>(score));
  TRY_ASSIGN(const auto unknown, file.integer("tokenizer.ggml.unknown_token_id"));
  if (unknown) vocabulary.unknown = static_cast<TokenId>(*unknown);
  return Tokenizer::from_vocabulary(vocabulary);
}

}  // namespace reprise::testing
