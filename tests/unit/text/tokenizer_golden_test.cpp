// Token ids of small random vocabularies equal those of their Hugging Face form
// (tools/goldens/make_tokenizer_goldens.py).
#include <gtest/gtest.h>

#include "golden.h"

namespace reprise::test {
namespace {

OwnedVocabulary vocabulary_of(const JsonObject& golden) {
  OwnedVocabulary owned;
  owned.tokens = strings_of(golden.at("tokens"));
  for (const TokenId type : ids_of(golden.at("types"))) {
    owned.vocabulary.types.push_back(static_cast<TokenType>(type));
  }
  if (golden.at("kind") == "scores") {
    owned.vocabulary.kind = VocabularyKind::scores;
    for (const JsonValue& score : golden.at("scores").as_array()) {
      owned.vocabulary.scores.push_back(score.to_number<float>());
    }
    owned.vocabulary.unknown = 0;
    owned.vocabulary.add_space_prefix = golden.at("add_space_prefix").as_bool();
  } else {
    owned.vocabulary.kind = VocabularyKind::merges;
    owned.merges = strings_of(golden.at("merges"));
    owned.vocabulary.pre_tokenizer = golden.at("pre").as_string();
  }
  return owned;
}

TEST(TokenizerGolden, SmallVocabularies) {
  const JsonValue golden = read_golden("tokenizer_tiny.json");
  std::size_t compared = 0;
  for (const JsonValue& value : golden.at("cases").as_array()) {
    const JsonObject& expected = value.as_object();
    const Tokenizer tokenizer = tokenizer_of(vocabulary_of(expected));
    const auto strings = strings_of(expected.at("strings"));
    for (std::size_t index = 0; index < strings.size(); ++index) {
      const std::string& text = strings[index];
      const auto where = expected.contains("pre") ? std::string(expected.at("pre").as_string())
                                                  : "scores " + std::to_string(tokenizer.size());
      EXPECT_EQ(tokenizer.encode(text, AddSpecial::no, ParseSpecial::yes),
                ids_of(expected.at("parsed").at(index)))
          << where << ": " << text;
      EXPECT_EQ(tokenizer.encode(text, AddSpecial::no, ParseSpecial::no),
                ids_of(expected.at("plain").at(index)))
          << where << ", plain: " << text;
      ++compared;
    }
  }
  EXPECT_GE(compared, 600U);
}

}  // namespace
}  // namespace reprise::test
