// Golden files and small vocabularies for the text tests.
#include "golden.h"

#include <fmt/core.h>

#include "base/check.h"
#include "base/file.h"

namespace reprise::test {

JsonValue read_golden(std::string_view name) {
  const auto text = read_file(std::string(REPRISE_GOLDEN_FOLDER "/") + std::string(name), 1 << 24);
  CHECK(text.has_value());
  auto value = parse_json(*text);
  CHECK(value.has_value());
  return std::move(*value);
}

std::vector<TokenId> ids_of(const JsonValue& list) {
  std::vector<TokenId> ids;
  for (const JsonValue& id : list.as_array()) ids.push_back(static_cast<TokenId>(id.as_int64()));
  return ids;
}

std::vector<std::string> strings_of(const JsonValue& list) {
  std::vector<std::string> strings;
  for (const JsonValue& string : list.as_array()) strings.emplace_back(string.as_string());
  return strings;
}

const Vocabulary& OwnedVocabulary::lend() {
  vocabulary.tokens.assign(tokens.begin(), tokens.end());
  vocabulary.merges.assign(merges.begin(), merges.end());
  return vocabulary;
}

OwnedVocabulary scores_vocabulary(const std::vector<std::string>& learned) {
  OwnedVocabulary owned;
  owned.tokens = {"<unk>", "<s>", "<turn>", "   "};
  owned.vocabulary.types = {TokenType::unknown, TokenType::control, TokenType::control,
                            TokenType::user_defined};
  for (int byte = 0; byte < 256; ++byte) owned.tokens.push_back(fmt::format("<0x{:02X}>", byte));
  owned.vocabulary.types.resize(owned.tokens.size(), TokenType::byte);
  owned.vocabulary.scores.resize(owned.tokens.size(), -1000.0F);
  float score = 0;
  for (const std::string& token : learned) {
    owned.tokens.push_back(token);
    owned.vocabulary.types.push_back(TokenType::normal);
    owned.vocabulary.scores.push_back(score -= 1);
  }
  owned.vocabulary.kind = VocabularyKind::scores;
  owned.vocabulary.unknown = 0;
  owned.vocabulary.bos = 1;
  owned.vocabulary.eos = 2;
  return owned;
}

OwnedVocabulary merges_vocabulary(const std::vector<std::string>& merges) {
  OwnedVocabulary owned;
  owned.tokens = {"<s>", "<turn>"};
  owned.vocabulary.types = {TokenType::control, TokenType::user_defined};
  for (char letter = 'a'; letter <= 'z'; ++letter) owned.tokens.emplace_back(1, letter);
  for (const char* other : {"Ġ", "Ċ", "<", ">", "Ã", "©", "1", "2"})
    owned.tokens.emplace_back(other);
  for (const std::string& merge : merges) {
    std::string token = merge;
    token.erase(token.find(' '), 1);
    owned.tokens.push_back(token);
  }
  owned.vocabulary.types.resize(owned.tokens.size(), TokenType::normal);
  owned.merges = merges;
  owned.vocabulary.kind = VocabularyKind::merges;
  owned.vocabulary.pre_tokenizer = "gpt-2";
  owned.vocabulary.bos = 0;
  return owned;
}

Tokenizer tokenizer_of(OwnedVocabulary vocabulary) {
  auto tokenizer = Tokenizer::from_vocabulary(vocabulary.lend());
  CHECK(tokenizer.has_value());
  return std::move(*tokenizer);
}

}  // namespace reprise::test
