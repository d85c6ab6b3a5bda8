// Masks of grammars over a small vocabulary: the right tokens, against a twin that asks byte by
// byte.
#include "text/grammar.h"

#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>

#include "golden.h"
#include "grammar_support.h"
#include "support/limited_memory.h"

namespace reprise::test {
namespace {

constexpr TokenId kEnd = 1, kTurn = 2;  // "<s>" and "<turn>" of the small vocabulary
constexpr TokenId kFirstByte = 4;
constexpr int kVocabulary = 300;  // with ids past the tokenizer's

Tokenizer small_tokenizer() {
  return tokenizer_of(
      scores_vocabulary({"{", "}",  "\"",   ":",  ",",    "{\"", "\":", "a", "b",  "ab", "aab",
                         "1", "12", "true", "}}", "a\"}", "▁",   "▁a",  "é", "a<", "<a", "\n\n"}));
}

TEST(Grammar, AllowsWhatMayFollow) {
  const Tokenizer tokenizer = small_tokenizer();
  GrammarProbe probe(tokenizer, {kEnd, kTurn}, kVocabulary);
  const std::string_view lark = R"(start: "a" /b+/ "a"?)";
  EXPECT_EQ(probe.after(lark, ""), "open");
  EXPECT_EQ(probe.after(lark, "a"), "open");
  EXPECT_EQ(probe.after(lark, "abb"), "complete");
  EXPECT_EQ(probe.after(lark, "aba"), "complete");
  EXPECT_EQ(probe.after(lark, "abaa"), "aba");
  EXPECT_EQ(probe.after(lark, "ba"), "");
}

// Whether the grammar takes the bytes after a prefix, asked without a mask.
bool takes(GrammarCompiler& compiler, std::string_view lark, std::string_view prefix,
           std::string_view bytes) {
  Result<GrammarMatcher> matcher = compiler.compile(lark);
  if (!matcher) return false;
  for (const std::string_view part : {prefix, bytes}) {
    for (const char byte : part) {
      if (!matcher->advance(kFirstByte + static_cast<unsigned char>(byte))) return false;
    }
  }
  return true;
}

TEST(Grammar, MasksEqualThoseOfATwin) {
  const Tokenizer tokenizer = small_tokenizer();
  GrammarProbe probe(tokenizer, {kEnd, kTurn}, kVocabulary);
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"(start: %json {"type": "object", "properties": {"a": {"type": "string"}}})",
       "{\"a\": \"x"},
      {R"(start: %json {"type": "object", "properties": {"ab": {"type": "integer"}}})", "{\""},
      {R"(start: %json {})", ""},
      {"start: TEXT\nTEXT: /(?s:.+)/ & ~/(?s:.*)<a>(?s:.*)/", "b<"},
      {"start: TEXT \"<a>\"\nTEXT: /[a-z]+/", "aa"},
      {R"(start: /a{2,4}/ "b")", "a"}};
  for (const auto& [lark, prefix] : cases) {
    Result<GrammarMatcher> matcher = probe.compiler().compile(lark);
    ASSERT_TRUE(matcher.has_value()) << matcher.error().message;
    for (const char byte : prefix) {
      ASSERT_TRUE(matcher->advance(kFirstByte + static_cast<unsigned char>(byte)).has_value());
    }
    ASSERT_TRUE(matcher->compute_mask().has_value());
    const bool has_choice = count_allowed(matcher->mask()) != 1;
    for (TokenId id = kFirstByte - 1; id < static_cast<TokenId>(tokenizer.size()); id++) {
      const bool expected = takes(probe.compiler(), lark, prefix, tokenizer.token_bytes(id));
      if (!has_choice && !is_allowed(matcher->mask(), id)) continue;  // cut otherwise
      EXPECT_EQ(is_allowed(matcher->mask(), id), expected)
          << lark << " after " << prefix << ": token " << id << " " << tokenizer.token_bytes(id);
    }
  }
}

// What the grammar forces comes in the tokens of the same text in a prompt, up to where the next
// token could reach beyond it.
TEST(Grammar, ForcedTextComesInTheTokenizersOwnTokens) {
  const Tokenizer tokenizer = small_tokenizer();
  GrammarProbe probe(tokenizer, {kEnd}, kVocabulary);
  const std::string_view text = "{\"ab\":aab 12true}}\n\n";
  const std::string lark = R"(start: "{\"ab\":aab 12true}}\n\n" /[c-z]*/)";
  Result<GrammarMatcher> matcher = probe.compiler().compile(lark);
  ASSERT_TRUE(matcher.has_value()) << matcher.error().message;
  const std::vector<TokenId> expected =
      tokenizer.encode(text, AddSpecial::no, ParseSpecial::no).value();
  ASSERT_GT(expected.size(), 6U);
  for (const TokenId id : expected) {
    ASSERT_TRUE(matcher->compute_mask().has_value());
    for (TokenId other = 0; other < kVocabulary; other++) {
      EXPECT_EQ(is_allowed(matcher->mask(), other), other == id) << id << " " << other;
    }
    ASSERT_EQ(matcher->advance(id), true);
  }
}

// A step looks at all text that must follow: there is a bound to it.
TEST(Grammar, LargeGrammarsLeaveTheCuttingToTheModel) {
  const Tokenizer tokenizer = small_tokenizer();
  GrammarProbe probe(tokenizer, {kEnd}, kVocabulary);
  for (const auto& [pairs, has_choice] : {std::pair(8'000, false), std::pair(8'500, true)}) {
    std::string text;
    for (int i = 0; i < pairs; i++) text += "ab";
    Result<GrammarMatcher> matcher =
        probe.compiler().compile("start: %json {\"const\": \"" + text + "\"}");
    ASSERT_TRUE(matcher.has_value()) << matcher.error().message;
    Result<GrammarMatcher> other = matcher->copy();
    for (GrammarMatcher* each : {&*matcher, &*other}) {
      ASSERT_TRUE(each->compute_mask().has_value());
      EXPECT_TRUE(is_allowed(each->mask(), tokenizer.find("\"").value()));
      ASSERT_EQ(each->advance(tokenizer.find("\"").value()), true);
      ASSERT_TRUE(each->compute_mask().has_value());
      EXPECT_TRUE(is_allowed(each->mask(), tokenizer.find("ab").value()));
      EXPECT_EQ(is_allowed(each->mask(), tokenizer.find("a").value()), has_choice);
    }
  }
}

// "a" may become "ab" or "aab": it is not forced to be a token of its own.
TEST(Grammar, TextThatMayGoOnInOneTokenIsNotCut) {
  const Tokenizer tokenizer = small_tokenizer();
  GrammarProbe probe(tokenizer, {kEnd}, kVocabulary);
  Result<GrammarMatcher> matcher = probe.compiler().compile(R"(start: "a" /[b1]+/)");
  ASSERT_TRUE(matcher.has_value()) << matcher.error().message;
  ASSERT_TRUE(matcher->compute_mask().has_value());
  EXPECT_TRUE(is_allowed(matcher->mask(), tokenizer.find("ab").value()));
  EXPECT_TRUE(is_allowed(matcher->mask(), tokenizer.find("a").value()));
}

TEST(Grammar, TextHasNoSpecialTokensAndNoMissingOnes) {
  const Tokenizer tokenizer = small_tokenizer();
  const auto size = static_cast<TokenId>(tokenizer.size());
  for (const TokenId vocabulary : {TokenId{270}, TokenId{kVocabulary}}) {
    GrammarProbe probe(tokenizer, {kEnd}, vocabulary);
    Result<GrammarMatcher> matcher = probe.compiler().compile("start: /(?s:.*)/");
    ASSERT_TRUE(matcher.has_value()) << matcher.error().message;
    ASSERT_TRUE(matcher->compute_mask().has_value());
    ASSERT_EQ(matcher->mask().size(), (static_cast<std::size_t>(vocabulary) + 31) / 32);
    EXPECT_TRUE(is_allowed(matcher->mask(), kEnd));
    EXPECT_FALSE(is_allowed(matcher->mask(), 0));
    EXPECT_FALSE(is_allowed(matcher->mask(), kTurn));
    EXPECT_TRUE(is_allowed(matcher->mask(), 261));
    for (TokenId id = std::min(size, vocabulary); id < (vocabulary + 31) / 32 * 32; id++) {
      EXPECT_FALSE(is_allowed(matcher->mask(), id)) << id;
    }
  }
}

TEST(Grammar, NamesSpecialTokensByNumber) {
  const Tokenizer tokenizer = small_tokenizer();
  GrammarProbe probe(tokenizer, {kEnd}, kVocabulary);
  const std::string_view lark = "start: TEXT? <[2]> \"a\"\nTEXT: /(?s:.+)/";
  EXPECT_EQ(probe.after(lark, "ab<turn>a"), "complete");
  EXPECT_EQ(probe.after(lark, "<turn>a"), "complete");
  EXPECT_EQ(probe.after(lark, "ab<turn>b"), "ab<turn>");
}

TEST(Grammar, ARefusedTokenChangesNothing) {
  const Tokenizer tokenizer = small_tokenizer();
  GrammarProbe probe(tokenizer, {kEnd}, kVocabulary);
  Result<GrammarMatcher> matcher = probe.compiler().compile(R"(start: "a" "b")");
  ASSERT_TRUE(matcher.has_value());
  for (const TokenId id : {kFirstByte + 'b', kTurn, kVocabulary - 1, kVocabulary + 5, -1}) {
    const Result<bool> refused = matcher->advance(id);
    ASSERT_FALSE(refused.has_value()) << id;
    EXPECT_EQ(refused.error().code, Errc::invalid_argument) << id;
  }
  EXPECT_EQ(matcher->advance(kFirstByte + 'a'), true);
  EXPECT_EQ(matcher->advance(kFirstByte + 'b'), false);
}

TEST(Grammar, CopiesGoTheirOwnWays) {
  const Tokenizer tokenizer = small_tokenizer();
  GrammarProbe probe(tokenizer, {kEnd}, kVocabulary);
  Result<GrammarMatcher> first = probe.compiler().compile(R"(start: "a" ("b" "a" | "c"))");
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->advance(kFirstByte + 'a'), true);
  Result<GrammarMatcher> second = first->copy();
  ASSERT_TRUE(second.has_value()) << second.error().message;
  EXPECT_EQ(first->advance(kFirstByte + 'c'), false);
  EXPECT_EQ(second->advance(kFirstByte + 'b'), true);
  ASSERT_TRUE(second->compute_mask().has_value());
  EXPECT_TRUE(is_allowed(second->mask(), tokenizer.find("a").value()));
  EXPECT_FALSE(is_allowed(second->mask(), kFirstByte + 'c'));
  EXPECT_FALSE(is_allowed(second->mask(), kEnd));
}

void expect_refused(GrammarCompiler& compiler, std::string_view lark, Errc code) {
  const Result<GrammarMatcher> matcher = compiler.compile(lark);
  ASSERT_FALSE(matcher.has_value()) << lark.substr(0, 80);
  EXPECT_EQ(matcher.error().code, code) << matcher.error().message;
  EXPECT_EQ(matcher.error().message.find('\n'), std::string::npos) << matcher.error().message;
  EXPECT_LE(matcher.error().message.size(), 400U);
}

TEST(Grammar, ErrorsAreOneLine) {
  const Tokenizer tokenizer = small_tokenizer();
  GrammarProbe probe(tokenizer, {kEnd}, kVocabulary);
  GrammarCompiler& compiler = probe.compiler();
  expect_refused(compiler, "", Errc::invalid_argument);
  expect_refused(compiler, "start: (", Errc::invalid_argument);
  expect_refused(compiler, "start: other", Errc::invalid_argument);
  expect_refused(compiler, "start: <[999]>", Errc::invalid_argument);
  expect_refused(compiler, "start: <|nobody|>", Errc::invalid_argument);
  expect_refused(compiler, std::string_view("start: \"\xff\"", 10), Errc::invalid_argument);
  expect_refused(compiler, "start: /(/", Errc::invalid_argument);
  expect_refused(compiler, R"(start: %json {"type": "array", "uniqueItems": true})",
                 Errc::unsupported);
  expect_refused(compiler, R"(start: %json {"type": "string", "format": "iri"})",
                 Errc::unsupported);
  expect_refused(compiler, R"(start: %json {"$ref": "#"})", Errc::invalid_argument);
  expect_refused(compiler, R"(start: %json {"allOf": [{"type": "null"}, {"type": "string"}]})",
                 Errc::invalid_argument);
  expect_refused(compiler, "start: \"" + std::string(3 << 20, 'a') + "\"", Errc::exhausted);
  expect_refused(compiler, "start: /" + std::string(60'000, '(') + "/", Errc::invalid_argument);
  expect_refused(compiler, "start: " + std::string(100'000, '(') + "\"a\"", Errc::invalid_argument);
}

TEST(Grammar, NeedsStopTokensOfTheVocabulary) {
  const Tokenizer tokenizer = small_tokenizer();
  GrammarProbe none(tokenizer, {}, kVocabulary);
  expect_refused(none.compiler(), "start: \"a\"", Errc::invalid_argument);
  GrammarProbe outside(tokenizer, {kEnd, kVocabulary}, kVocabulary);
  expect_refused(outside.compiler(), "start: \"a\"", Errc::corrupt);
}

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Exits with how many of the steps went as they should.
[[noreturn]] void compile_without_memory() {
  const Tokenizer tokenizer = small_tokenizer();
  GrammarCompiler compiler(tokenizer, {kEnd}, kVocabulary);
  const auto fails = [&] {
    const auto matcher = compiler.compile("start: \"a\"");
    return !matcher && matcher.error().code == Errc::io;
  };
  int right = 0;
  testing::limit_memory(1 << 20);  // no stack for the thread that prepares
  compiler.prepare();
  right += fails() ? 1 : 0;
  testing::limit_memory(-1);
  right += compiler.compile("start: \"a\"").has_value() ? 1 : 0;
  testing::limit_memory(100 << 20);  // none for the one that compiles
  right += fails() ? 1 : 0;
  std::_Exit(right);
}

TEST(GrammarDeathTest, TheSystemsRefusalIsAnErrorThatPasses) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(compile_without_memory(), ::testing::ExitedWithCode(3), "");
}
#endif

TEST(Grammar, AnyThreadMayCompile) {
  const Tokenizer tokenizer = small_tokenizer();
  GrammarCompiler compiler(tokenizer, {kEnd}, kVocabulary);
  compiler.prepare();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&compiler] {
      for (int j = 0; j < 3; j++) EXPECT_TRUE(compiler.compile("start: \"a\"").has_value());
    });
  }
}

}  // namespace
}  // namespace reprise::test
