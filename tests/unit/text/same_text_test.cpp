// Whether two lists of tokens say the same text.
#include "text/same_text.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "golden.h"

namespace reprise::test {
namespace {

class SameText : public testing::Test {
 protected:
  // One token a byte.
  std::vector<TokenId> bytes(std::string_view text) const {
    std::vector<TokenId> ids;
    for (const char byte : text) ids.push_back(4 + static_cast<unsigned char>(byte));
    return ids;
  }
  std::vector<TokenId> words(const std::vector<std::string>& spellings) const {
    std::vector<TokenId> ids;
    for (const std::string& spelling : spellings) {
      const auto id = tokenizer_.find(spelling);
      EXPECT_TRUE(id.has_value()) << spelling;
      ids.push_back(id.value_or(0));
    }
    return ids;
  }
  bool is_same(const std::vector<TokenId>& reply, const std::vector<TokenId>& prompt) const {
    return is_same_text(tokenizer_, reply, prompt);
  }

  const Tokenizer tokenizer_ =
      tokenizer_of(scores_vocabulary({"the", "th", "e", "▁sea", "▁", "s", "ea", "é", "€"}));
};

TEST_F(SameText, InOtherTokens) {
  const std::vector<TokenId> reply = words({"the", "▁sea"});
  EXPECT_TRUE(is_same(reply, words({"th", "e", "▁", "s", "ea"})));
  EXPECT_TRUE(is_same(reply, bytes("the sea")));
  EXPECT_TRUE(is_same(bytes("the sea"), reply));
  EXPECT_TRUE(is_same(reply, reply));
}

TEST_F(SameText, EitherMayBeCutOff) {
  const std::vector<TokenId> reply = words({"the", "▁sea"});
  EXPECT_TRUE(is_same(reply, bytes("the s")));
  EXPECT_TRUE(is_same(reply, bytes("the")));
  EXPECT_TRUE(is_same(reply, bytes("the sea and more")));
  EXPECT_TRUE(is_same(words({"the"}), bytes("the land")));  // the reply says no more than that
}

// Less than the first token of the reply says nothing.
TEST_F(SameText, TooLittleIsNotTheSame) {
  const std::vector<TokenId> reply = words({"the", "▁sea"});
  EXPECT_FALSE(is_same(reply, bytes("th")));
  EXPECT_FALSE(is_same(reply, {}));
  EXPECT_FALSE(is_same({}, bytes("the")));
  EXPECT_FALSE(is_same({}, {}));
}

TEST_F(SameText, EditedText) {
  const std::vector<TokenId> reply = words({"the", "▁sea"});
  EXPECT_FALSE(is_same(reply, bytes("the lea")));
  EXPECT_FALSE(is_same(reply, bytes("The sea")));
  EXPECT_FALSE(is_same(reply, bytes("the  sea")));
  EXPECT_FALSE(is_same(reply, bytes(" the sea")));
}

TEST_F(SameText, CutInsideACharacter) {
  const std::vector<TokenId> reply = words({"s", "€"});
  for (std::size_t cut = 1; cut <= 4; cut++) {
    EXPECT_TRUE(is_same(reply, bytes(std::string_view("s\xE2\x82\xAC").substr(0, cut)))) << cut;
    EXPECT_TRUE(is_same(bytes(std::string_view("s\xE2\x82\xAC").substr(0, cut)), reply)) << cut;
  }
  // The place where they part may lie inside a character too.
  EXPECT_TRUE(is_same(bytes("\x82\xAC"
                            "s"),
                      bytes("\x82\xAC")));
  EXPECT_FALSE(is_same(reply, bytes("s\xE2\x82\xAD")));
  EXPECT_FALSE(is_same(reply, words({"s", "é"})));
}

// A message that ends before the reply did was edited: its end is a special token.
TEST_F(SameText, AShortenedMessage) {
  std::vector<TokenId> prompt = bytes("the");
  prompt.push_back(*tokenizer_.find("<turn>"));
  EXPECT_FALSE(is_same(words({"the", "▁sea"}), prompt));
  EXPECT_TRUE(is_same(words({"the"}), prompt));
}

TEST_F(SameText, SpecialTokensOfAReplyWereNotShown) {
  std::vector<TokenId> reply = words({"the", "<turn>", "▁sea"});
  EXPECT_TRUE(is_same(reply, bytes("the sea")));
  EXPECT_FALSE(is_same(words({"<turn>"}), bytes("the sea")));
}

}  // namespace
}  // namespace reprise::test
