// Grammars over Gemma's 262,144 tokens: replies drawn from the masks are valid JSON, or calls that
// the format's parser reads. Needs the real file: REPRISE_MODEL_GEMMA3.
#include <cstdlib>

#include <gtest/gtest.h>

#include "grammar_support.h"
#include "schema_validity.h"
#include "support/gguf_vocabulary.h"
#include "text/reply_grammar.h"

namespace reprise::test {
namespace {

constexpr TokenId kEos = 1, kEndOfTurn = 106;

class GemmaGrammar : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("REPRISE_MODEL_GEMMA3");
    if (path == nullptr) GTEST_SKIP() << "REPRISE_MODEL_GEMMA3 names no GGUF file";
    auto tokenizer = reprise::testing::scores_tokenizer_of(path);
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    tokenizer_ = std::make_unique<Tokenizer>(std::move(*tokenizer));
    probe_ = std::make_unique<GrammarProbe>(*tokenizer_, std::vector<TokenId>{kEos, kEndOfTurn},
                                            static_cast<int>(tokenizer_->size()));
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<GrammarProbe> probe_;
};

TEST_F(GemmaGrammar, RandomRepliesSatisfyTheSchema) {
  const auto schema = parse_json(R"({"type": "object", "properties": {
      "name": {"type": "string", "maxLength": 40}, "count": {"type": "integer", "minimum": 0,
      "maximum": 1000}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
      "kind": {"enum": ["first", "second", null]}}, "required": ["name", "tags"],
      "additionalProperties": false})");
  ASSERT_TRUE(schema.has_value());
  const auto lark = json_grammar({}, schema->as_object());
  ASSERT_TRUE(lark.has_value()) << lark.error().message;
  std::mt19937 random(3);
  int complete = 0;
  for (int i = 0; i < 15; i++) {
    const auto ids = probe_->walk(*lark, random, 200);
    if (!ids) continue;
    complete++;
    const std::string reply = probe_->text_of(*ids);
    const auto value = parse_json(reply);
    ASSERT_TRUE(value.has_value()) << value.error().message << ": " << reply;
    EXPECT_TRUE(satisfies(*schema, *schema, *value)) << reply;
  }
  EXPECT_GE(complete, 10);
}

TEST_F(GemmaGrammar, TextIsTokenisedAsTheModelWould) {
  const auto lark = tool_grammar(
      {.format = ReplyFormat::hermes, .tokenizer = tokenizer_.get()},
      std::vector<ToolSpec>{{"get_weather", {{"properties", {{"city", {{"type", "string"}}}}}}}},
      ToolChoice::automatic, true);
  ASSERT_TRUE(lark.has_value()) << lark.error().message;
  EXPECT_EQ(probe_->after(*lark,
                          "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", "
                          "\"arguments\": {\"city\": \"São Paulo\"}}\n</tool_call>"),
            "complete");
  EXPECT_EQ(probe_->after(*lark, "It is \"warm\" in São Paulo: 3 < 30 <b>degrees</b>."),
            "complete");
  EXPECT_EQ(probe_->after(*lark, "<tool_call>\n{\"name\": \"other"), "<tool_call>\n{\"name\": \"");
}

}  // namespace
}  // namespace reprise::test
