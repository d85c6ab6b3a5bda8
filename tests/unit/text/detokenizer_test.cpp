// Detokenizer: the text does not depend on how it was cut into tokens.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include "golden.h"
#include "text/utf8.h"

namespace reprise::test {
namespace {

// The whole text at once, by the naive reading of the rule: longest whole character, else one
// U+FFFD for the longest beginning of a character, else for one byte.
std::string naive_decode(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    std::size_t taken = 0;
    for (std::size_t size = 1; size <= 4 && size <= bytes.size() && taken == 0; ++size) {
      const Utf8Front front = utf8_front(bytes.substr(0, size));
      if (front.kind == Utf8Front::Kind::character && front.size == size) taken = size;
    }
    if (taken > 0) {
      text += bytes.substr(0, taken);
    } else {
      taken = 1;
      for (std::size_t size = 1; size <= 3 && size <= bytes.size(); ++size) {
        if (utf8_front(bytes.substr(0, size)).kind == Utf8Front::Kind::incomplete) taken = size;
      }
      text += kReplacementCharacter;
    }
    bytes.remove_prefix(taken);
  }
  return text;
}

TEST(Utf8, AgreesWithTheCodePoints) {
  // Every code point's bytes are one character, every prefix of them is incomplete.
  for (std::uint32_t point = 0x80; point <= 0x10FFFF; point += point < 0x3000 ? 1 : 37) {
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    std::string bytes;
    const auto tail = [&](int shift) {
      return static_cast<char>(0x80 | ((point >> shift) & 0x3F));
    };
    if (point < 0x800) {
      bytes = {static_cast<char>(0xC0 | (point >> 6)), tail(0)};
    } else if (point < 0x10000) {
      bytes = {static_cast<char>(0xE0 | (point >> 12)), tail(6), tail(0)};
    } else {
      bytes = {static_cast<char>(0xF0 | (point >> 18)), tail(12), tail(6), tail(0)};
    }
    const Utf8Front whole = utf8_front(bytes + "x");
    ASSERT_EQ(whole.kind, Utf8Front::Kind::character) << point;
    ASSERT_EQ(whole.size, bytes.size()) << point;
    for (std::size_t size = 1; size < bytes.size(); ++size) {
      ASSERT_EQ(utf8_front(bytes.substr(0, size)).kind, Utf8Front::Kind::incomplete) << point;
      ASSERT_EQ(utf8_front(bytes.substr(0, size) + "x").kind, Utf8Front::Kind::invalid) << point;
    }
  }
  for (const std::string_view bytes :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5", "\xFF"}) {
    EXPECT_EQ(utf8_front(bytes).kind, Utf8Front::Kind::invalid);
    EXPECT_EQ(utf8_front(bytes).size, 1U);
  }
}

TEST(Detokenizer, EveryCuttingGivesTheSameText) {
  const Tokenizer tokenizer = tokenizer_of(scores_vocabulary({"▁", "a", "▁a"}));
  const TokenId first_byte = *tokenizer.find("<0x00>");
  const std::pair<const char*, const char*> texts[] = {
      {"héllo 東 😀!", "héllo 東 😀!"},
      {"\xF0\x9F\x98", "\uFFFD"},              // cut off at the end
      {"\xF0\x9F\x98x", "\uFFFDx"},            // and in the middle
      {"\xF0\x9F\xE6\x9D\xB1", "\uFFFD東"},    // by another character
      {"\xFF\xFE\xC3", "\uFFFD\uFFFD\uFFFD"},  // never characters
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},  // a surrogate
      {"\x80\x80"
       "a\xC3\xA9",
       "\uFFFD\uFFFD"
       "aé"},
  };
  for (const auto& [bytes, expected] : texts) {
    Detokenizer detokenizer(tokenizer);
    std::string text;
    for (const char byte : std::string_view(bytes)) {
      const std::string piece = detokenizer.push(first_byte + static_cast<std::uint8_t>(byte));
      EXPECT_TRUE(is_utf8(piece)) << bytes;
      text += piece;
    }
    text += detokenizer.finish();
    EXPECT_EQ(text, expected);
    EXPECT_EQ(detokenizer.finish(), "");
  }
}

TEST(Detokenizer, EverySequenceOfAwkwardBytesEqualsDecodingItWhole) {
  const Tokenizer tokenizer = tokenizer_of(scores_vocabulary({}));
  const TokenId first_byte = *tokenizer.find("<0x00>");
  const std::string_view alphabet = "a\x80\xA9\xC3\xE6\x9D\xED\xF0\x9F\xF4";
  // All sequences of five of these ten bytes.
  for (int number = 0; number < 100'000; ++number) {
    std::string bytes, text;
    for (int rest = number; bytes.size() < 5; rest /= 10) bytes += alphabet[rest % 10];
    Detokenizer detokenizer(tokenizer);
    for (const char byte : bytes)
      text += detokenizer.push(first_byte + static_cast<std::uint8_t>(byte));
    text += detokenizer.finish();
    ASSERT_EQ(text, naive_decode(bytes)) << number;
  }
}

TEST(Detokenizer, TakeUtf8IsTheSameForEveryCut) {
  const std::string bytes = "aé東😀\xF0\x9F\x98\xC3(\xE6\x9D";
  for (std::uint32_t cuts = 0; cuts < (1U << (bytes.size() - 1)); ++cuts) {
    std::string pending, text;
    for (std::size_t place = 0; place < bytes.size(); ++place) {
      pending += bytes[place];
      if ((cuts >> place) & 1) text += take_utf8(pending);
    }
    text += take_utf8(pending);
    ASSERT_EQ(text, "aé東😀\uFFFD\uFFFD(");
    ASSERT_EQ(pending, "\xE6\x9D");
  }
}

TEST(Detokenizer, SpecialTokensStandForNoText) {
  const Tokenizer tokenizer = tokenizer_of(scores_vocabulary({"▁", "a", "▁a"}));
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(detokenizer.push(*tokenizer.find("a")), "a");
  EXPECT_EQ(detokenizer.push(*tokenizer.find("<turn>")), "");
  EXPECT_EQ(detokenizer.push(*tokenizer.find("▁a")), " a");
  EXPECT_EQ(detokenizer.push(3), "   ");     // user-defined
  EXPECT_EQ(detokenizer.push(100'000), "");  // no such token
  EXPECT_EQ(detokenizer.finish(), "");
}

}  // namespace
}  // namespace reprise::test
