// Tokenizer over small hand-made vocabularies of both kinds, and over vocabularies that lie.
#include "text/tokenizer.h"

#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "golden.h"

namespace reprise::test {
namespace {

// Ids as spellings, joined by '|': what a reader can check by eye.
std::string spelled(const Tokenizer& tokenizer, std::string_view text,
                    AddSpecial add = AddSpecial::no, ParseSpecial parse = ParseSpecial::yes) {
  const auto ids = tokenizer.encode(text, add, parse);
  if (!ids) return "error: " + ids.error().message;
  std::string joined;
  for (const TokenId id : *ids) {
    if (!joined.empty()) joined += '|';
    joined += tokenizer.token_bytes(id);
  }
  return joined;
}

const std::vector<std::string> kLearned = {"▁", "a", "b", "c", "▁a", "ab", "▁ab", "bc", "abc"};

TEST(ScoresTokenizer, BestScoreMergesFirst) {
  const Tokenizer tokenizer = tokenizer_of(scores_vocabulary(kLearned));
  EXPECT_EQ(spelled(tokenizer, "abc"), "abc");     // "ab" before "bc", then "abc"
  EXPECT_EQ(spelled(tokenizer, " abc"), " ab|c");  // "▁a" first: it leads to "▁ab"
  EXPECT_EQ(spelled(tokenizer, "bcab"), "bc|ab");
  EXPECT_EQ(spelled(tokenizer, ""), "");
}

TEST(ScoresTokenizer, UnknownCharactersBecomeBytes) {
  const Tokenizer tokenizer = tokenizer_of(scores_vocabulary(kLearned));
  const auto ids = tokenizer.encode("aé\n", AddSpecial::no, ParseSpecial::yes);
  ASSERT_TRUE(ids.has_value());
  const TokenId first_byte = *tokenizer.find("<0x00>");
  const std::vector<TokenId> expected = {*tokenizer.find("a"), first_byte + 0xC3, first_byte + 0xA9,
                                         first_byte + '\n'};
  EXPECT_EQ(*ids, expected);
  EXPECT_EQ(tokenizer.token_bytes(first_byte + 0xC3), "\xC3");
  const std::string with_zero("a\0b", 3);
  EXPECT_EQ(spelled(tokenizer, with_zero), std::string("a|\0|b", 5));
}

TEST(ScoresTokenizer, SpacePrefixGoesBeforeEveryStretchOfText) {
  OwnedVocabulary owned = scores_vocabulary(kLearned);
  owned.vocabulary.add_space_prefix = true;
  const Tokenizer tokenizer = tokenizer_of(std::move(owned));
  EXPECT_EQ(spelled(tokenizer, "abc"), " ab|c");
  EXPECT_EQ(spelled(tokenizer, "a<turn>b"), " a|<turn>| |b");
  EXPECT_EQ(spelled(tokenizer, ""), "");
}

TEST(ScoresTokenizer, AddedTokens) {
  OwnedVocabulary owned = scores_vocabulary(kLearned);
  owned.vocabulary.add_bos = owned.vocabulary.add_eos = true;
  const Tokenizer tokenizer = tokenizer_of(std::move(owned));
  const TokenId turn = *tokenizer.find("<turn>");
  EXPECT_TRUE(tokenizer.is_special(turn));
  const auto parsed = tokenizer.encode("a<turn>", AddSpecial::yes, ParseSpecial::yes);
  EXPECT_EQ(parsed, (std::vector<TokenId>{1, *tokenizer.find("a"), turn, 2}));
  const auto plain = tokenizer.encode("<turn>", AddSpecial::no, ParseSpecial::no);
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->size(), 6U);  // six byte tokens: the characters are not in the vocabulary
  for (const TokenId id : *plain) EXPECT_FALSE(tokenizer.is_special(id));
  // A user-defined token of spaces is reached by merging, or by the space marks themselves.
  const auto marks = tokenizer.encode("▁▁▁", AddSpecial::no, ParseSpecial::no);
  EXPECT_EQ(marks, (std::vector<TokenId>{3}));
  EXPECT_FALSE(tokenizer.is_special(3));
  EXPECT_EQ(tokenizer.token_bytes(3), "   ");
}

TEST(ScoresTokenizer, WithoutByteTokensARunOfUnknownCharactersIsOneToken) {
  OwnedVocabulary owned;
  owned.tokens = {"<unk>", "▁", "a"};
  owned.vocabulary.types = {TokenType::unknown, TokenType::normal, TokenType::normal};
  owned.vocabulary.scores = {0, -1, -2};
  owned.vocabulary.unknown = 0;
  const Tokenizer tokenizer = tokenizer_of(owned);
  EXPECT_EQ(spelled(tokenizer, "xy a zz"), "<unk>| |a| |<unk>");
  owned.vocabulary.unknown.reset();  // then they are left out, as Hugging Face does
  EXPECT_EQ(spelled(tokenizer_of(owned), "xy a zz"), " |a| ");
}

TEST(MergesTokenizer, MergesInOrderWithinWords) {
  const Tokenizer tokenizer = tokenizer_of(merges_vocabulary({"a b", "Ġ ab", "b c", "Ã ©"}));
  EXPECT_EQ(spelled(tokenizer, "abc ab"), "ab|c| ab");
  EXPECT_EQ(spelled(tokenizer, "é\n"), "é|\n");
  EXPECT_EQ(spelled(tokenizer, "a<turn>b<s>", AddSpecial::yes),
            "a|<turn>|b|<s>");  // add_bos is off
  EXPECT_EQ(spelled(tokenizer, "<s>", AddSpecial::no, ParseSpecial::no), "<|s|>");
  // A user-defined token is no special one: it is found anyhow.
  EXPECT_EQ(spelled(tokenizer, "<turn>", AddSpecial::no, ParseSpecial::no), "<turn>");
}

// Never more than there are, whatever the text; enough to refuse megabytes.
TEST(Tokenizer, LeastTokens) {
  OwnedVocabulary few;
  few.tokens = {"<unk>", "▁", "a"};
  few.vocabulary.types = {TokenType::unknown, TokenType::normal, TokenType::normal};
  few.vocabulary.scores = {0, -1, -2};
  few.vocabulary.unknown = 0;
  const Tokenizer unknowns = tokenizer_of(few);
  const Tokenizer scores = tokenizer_of(scores_vocabulary(kLearned));
  const Tokenizer merges = tokenizer_of(merges_vocabulary({"a b", "Ġ ab", "b c", "Ã ©"}));
  const auto repeated = [](std::string_view piece) {
    std::string text;
    for (int i = 0; i < 1000; i++) text += piece;
    return text;
  };
  for (const Tokenizer* tokenizer : {&unknowns, &scores, &merges}) {
    for (const std::string_view piece :
         {"a", " ", "▁", "é", "abc ab", "<turn>", "<s>", "\xF4\x8F\xBF\xBF", "xyz", "\n", "\x04"}) {
      const std::string text = repeated(piece);
      const auto ids = tokenizer->encode(text, AddSpecial::no, ParseSpecial::yes);
      ASSERT_TRUE(ids);
      EXPECT_LE(tokenizer->least_tokens(text), ids->size()) << piece;
    }
    EXPECT_EQ(tokenizer->least_tokens(""), 0);
  }
  EXPECT_EQ(unknowns.least_tokens(repeated("xyz")), 0);
  EXPECT_GE(scores.least_tokens(repeated("abc ab")), 100);
  EXPECT_GE(merges.least_tokens(repeated("abc ab")), 100);
}

TEST(Tokenizer, LooksUpTokens) {
  const Tokenizer tokenizer = tokenizer_of(merges_vocabulary({"a b"}));
  EXPECT_EQ(tokenizer.find("<s>"), TokenId{0});
  EXPECT_EQ(tokenizer.find("ab"), static_cast<TokenId>(tokenizer.size() - 1));
  EXPECT_EQ(tokenizer.find("abc"), std::nullopt);
  EXPECT_EQ(tokenizer.find(""), std::nullopt);
  EXPECT_EQ(tokenizer.bos(), TokenId{0});
  EXPECT_EQ(tokenizer.eos(), std::nullopt);
  EXPECT_EQ(tokenizer.token_bytes(-1), "");
  EXPECT_EQ(tokenizer.token_bytes(static_cast<TokenId>(tokenizer.size())), "");
  EXPECT_FALSE(tokenizer.is_special(-1));
  EXPECT_FALSE(tokenizer.is_special(std::numeric_limits<TokenId>::max()));
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefused) {
  for (const Tokenizer& tokenizer :
       {tokenizer_of(scores_vocabulary(kLearned)), tokenizer_of(merges_vocabulary({}))}) {
    for (const std::string_view text : {"\xFF", "a\xC3", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
      const auto ids = tokenizer.encode(text, AddSpecial::no, ParseSpecial::yes);
      ASSERT_FALSE(ids.has_value());
      EXPECT_EQ(ids.error().code, Errc::invalid_argument);
      EXPECT_TRUE(ids.error().message.starts_with("text is not UTF-8")) << ids.error().message;
    }
  }
}

struct Hostile {
  const char* name;
  bool merges;  // which kind to start from
  std::function<void(OwnedVocabulary&)> spoil;
  Errc code;
  const char* message;
};

const Hostile kHostile[] = {
    {"no tokens", false, [](auto& v) { v.tokens.clear(); }, Errc::corrupt,
     "vocabulary of 0 tokens"},
    {"few types", false, [](auto& v) { v.vocabulary.types.pop_back(); }, Errc::corrupt,
     "268 token types for 269 tokens"},
    {"few scores", false, [](auto& v) { v.vocabulary.scores.pop_back(); }, Errc::corrupt,
     "268 scores for 269 tokens"},
    {"many scores", false, [](auto& v) { v.vocabulary.scores.push_back(0); }, Errc::corrupt,
     "270 scores for 269 tokens"},
    {"no score", false, [](auto& v) { v.vocabulary.scores[265] = std::nanf(""); }, Errc::corrupt,
     "token 265 has the score NaN"},
    {"endless score", false,
     [](auto& v) { v.vocabulary.scores[4] = std::numeric_limits<float>::infinity(); },
     Errc::corrupt, "token 4 has the score inf"},
    {"odd type", false, [](auto& v) { v.vocabulary.types[9] = static_cast<TokenType>(7); },
     Errc::corrupt, "token 9 has type 7, expected 1 to 6"},
    {"zero type", true, [](auto& v) { v.vocabulary.types[1] = static_cast<TokenType>(0); },
     Errc::corrupt, "token 1 has type 0, expected 1 to 6"},
    {"bytes that are no text", false, [](auto& v) { v.tokens[264] = "\xC3"; }, Errc::corrupt,
     "token 264 is not UTF-8"},
    {"bos outside", false, [](auto& v) { v.vocabulary.bos = 269; }, Errc::corrupt,
     "bos token is 269, but there are 269 tokens"},
    {"negative eos", true, [](auto& v) { v.vocabulary.eos = -5; }, Errc::corrupt,
     "special token id -5, expected at least 0"},
    {"unknown outside", true, [](auto& v) { v.vocabulary.unknown = 99999; }, Errc::corrupt,
     "unknown token is 99999"},
    {"merge of nothing", true, [](auto& v) { v.merges.push_back("a q9"); }, Errc::corrupt, "q9"},
    {"merge into nothing", true, [](auto& v) { v.merges.push_back("z z"); }, Errc::corrupt, "zz"},
    {"merge without space", true, [](auto& v) { v.merges.push_back("ab"); }, Errc::corrupt,
     "merge 'ab'"},
    {"empty merge", true, [](auto& v) { v.merges.push_back(""); }, Errc::corrupt, "merge ''"},
    {"merge that is no text", true, [](auto& v) { v.merges.push_back("a \xFF"); }, Errc::corrupt,
     "merge 1 is not UTF-8"},
    {"unknown rules", true, [](auto& v) { v.vocabulary.pre_tokenizer = "tekken"; },
     Errc::unsupported, "pre-tokenizer 'tekken', expected one of"},
    {"no rules", true, [](auto& v) { v.vocabulary.pre_tokenizer.clear(); }, Errc::unsupported,
     "pre-tokenizer ''"},
};

TEST(Tokenizer, HostileVocabulariesAreErrors) {
  for (const Hostile& hostile : kHostile) {
    OwnedVocabulary owned =
        hostile.merges ? merges_vocabulary({"a b"}) : scores_vocabulary(kLearned);
    hostile.spoil(owned);
    const auto tokenizer = Tokenizer::from_vocabulary(owned.lend());
    ASSERT_FALSE(tokenizer.has_value()) << hostile.name;
    EXPECT_EQ(tokenizer.error().code, hostile.code) << hostile.name;
    EXPECT_NE(tokenizer.error().message.find(hostile.message), std::string::npos)
        << hostile.name << ": " << tokenizer.error().message;
    EXPECT_EQ(tokenizer.error().message.find('\n'), std::string::npos) << hostile.name;
  }
}

TEST(Tokenizer, OddVocabulariesAreFine) {
  OwnedVocabulary owned = scores_vocabulary(kLearned);
  owned.tokens[264] = "";     // empty
  owned.tokens[265] = "abc";  // twice
  owned.tokens[2] = "";       // an empty special token is found nowhere
  const Tokenizer tokenizer = tokenizer_of(std::move(owned));
  EXPECT_EQ(spelled(tokenizer, "aab"), "a|a|b");  // "ab" is gone
  EXPECT_EQ(tokenizer.find("abc"), TokenId{265});
}

TEST(Tokenizer, LongTextsWithoutSpacesTakeNoQuadraticTime) {
  for (const Tokenizer& tokenizer : {tokenizer_of(scores_vocabulary(kLearned)),
                                     tokenizer_of(merges_vocabulary({"a b", "ab ab"}))}) {
    std::string text;
    while (text.size() < 400'000) text += "abab";
    const auto ids = tokenizer.encode(text, AddSpecial::no, ParseSpecial::yes);
    ASSERT_TRUE(ids.has_value());
    EXPECT_GE(ids->size(), 100'000U);
    const auto spaces =
        tokenizer.encode(std::string(400'000, ' '), AddSpecial::no, ParseSpecial::yes);
    EXPECT_TRUE(spaces.has_value()) << spaces.error().message;
  }
}

}  // namespace
}  // namespace reprise::test
