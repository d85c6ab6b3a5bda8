// Golden files of tests/golden, and vocabularies in a form that owns its texts.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace reprise::test {

// The JSON value of tests/golden/<name>. A file that cannot be read ends the test program.
JsonValue read_golden(std::string_view name);

std::vector<TokenId> ids_of(const JsonValue& list);
std::vector<std::string> strings_of(const JsonValue& list);

// A vocabulary and the texts that it points to.
struct OwnedVocabulary {
  std::vector<std::string> tokens, merges;
  Vocabulary vocabulary;  // without tokens and merges until lend()

  const Vocabulary& lend();
};

// Byte-fallback vocabulary: <unk> <s> <turn>, a user-defined token of three spaces, 256 byte
// tokens, then `learned` with scores -1, -2 ...
OwnedVocabulary scores_vocabulary(const std::vector<std::string>& learned);

// Byte-level vocabulary: <s>, the user-defined "<turn>", the letters and marks below, then the
// merges.
OwnedVocabulary merges_vocabulary(const std::vector<std::string>& merges);

Tokenizer tokenizer_of(OwnedVocabulary vocabulary);

}  // namespace reprise::test
