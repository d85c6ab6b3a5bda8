// What llguidance would get wrong or stop at in the midst of a reply: held to exactly, or refused
// at the request.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "golden.h"
#include "grammar_support.h"
#include "text/json_schema.h"
#include "text/reply_grammar.h"

namespace reprise::test {
namespace {

class SchemaLimits : public testing::Test {
 protected:
  // "complete", "open", what was let through, or why the schema is refused.
  std::string after(std::string_view schema, std::string_view text) {
    const Result<JsonValue> value = parse_json(schema);
    if (!value) return "no JSON: " + value.error().message;
    const Result<std::string> lark = json_grammar({}, value->as_object());
    if (!lark) return fmt::format("{}: {}", to_string(lark.error().code), lark.error().message);
    return probe_.after(*lark, text);
  }

  static std::string to_string(Errc code) {
    if (code == Errc::unsupported) return "unsupported";
    return code == Errc::exhausted ? "exhausted" : "invalid";
  }

  Tokenizer tokenizer_ = tokenizer_of(scores_vocabulary({"▁", "{", "}", "[", "]", "\"", ":", ","}));
  GrammarProbe probe_{tokenizer_, {1, 2}, 300};
};

TEST_F(SchemaLimits, MultiplesJoinToTheirCommonOne) {
  constexpr std::string_view kBoth =
      R"({"allOf": [{"type": "integer", "multipleOf": 6}, {"multipleOf": 4}]})";
  EXPECT_EQ(after(kBoth, "6"), "open");
  EXPECT_EQ(after(kBoth, "12"), "complete");
  EXPECT_EQ(after(kBoth, "100"), "open");
  EXPECT_EQ(after(kBoth, "108"), "complete");
  constexpr std::string_view kDecimals =
      R"({"$defs": {"a": {"type": "number", "multipleOf": 0.25}},
          "$ref": "#/$defs/a", "multipleOf": 0.1})";
  EXPECT_EQ(after(kDecimals, "0.25"), "0.");
  EXPECT_EQ(after(kDecimals, "0.5"), "complete");
  EXPECT_EQ(after(kDecimals, "2"), "complete");
}

// 9973 * 9967 has room in 32 bits, but as many remainders; 500000000 * 10 wraps around.
TEST_F(SchemaLimits, MultiplesThatWouldWrapAreRefusedWithTheirPlace) {
  EXPECT_TRUE(after(R"({"type": "integer", "multipleOf": 500000000})", "1")
                  .starts_with("exhausted: schema: multipleOf 500000000, expected at most"));
  EXPECT_TRUE(after(R"({"items": {"multipleOf": 1e-300}})", "1")
                  .starts_with("exhausted: items: multipleOf 1e-300"));
  EXPECT_TRUE(after(R"({"type": "number", "multipleOf": 0.07})", "1")
                  .starts_with("unsupported: schema: multipleOf 0.07"));
  constexpr std::string_view kSays = "several multipleOf that may apply to one number";
  for (const auto& [schema, place] : std::vector<std::pair<std::string_view, std::string_view>>{
           {R"({"properties": {"a": {"allOf": [{"multipleOf": 9973}, {"multipleOf": 9967}]}}})",
            "properties.a: "},
           {R"({"$defs": {"m": {"multipleOf": 9973}},
                "items": {"$ref": "#/$defs/m", "multipleOf": 9967}})",
            "items: "},
           {R"({"anyOf": [{"multipleOf": 9973}, {"type": "string"}], "multipleOf": 9967})",
            "schema: "},
           {R"({"allOf": [{"items": {"multipleOf": 9973}}, {"items": {"multipleOf": 9967}}]})",
            "schema: "},
           {R"({"$defs": {"m": {"anyOf": [{"multipleOf": 9973}, {"multipleOf": 9967}]}},
                "allOf": [{"$ref": "#/$defs/m"}, {"$ref": "#/$defs/m"}]})",
            "schema: "},
           {R"({"properties": {"a": {"multipleOf": 9973}},
                "patternProperties": {"^a": {"multipleOf": 9967}}})",
            "schema: "}}) {
    const std::string said = after(schema, "1");
    EXPECT_TRUE(said.starts_with(fmt::format("unsupported: {}{}", place, kSays))) << said;
  }
}

TEST_F(SchemaLimits, MultiplesThatNeverMeetMayBeLarge) {
  constexpr std::string_view kApart = R"({"type": "object", "properties": {
      "a": {"type": "integer", "multipleOf": 9973}, "b": {"type": "integer", "multipleOf": 9967},
      "c": {"anyOf": [{"type": "integer", "multipleOf": 7}, {"type": "integer",
            "multipleOf": 11}]}}, "required": ["a", "b", "c"], "additionalProperties": false})";
  EXPECT_EQ(after(kApart, R"({"a":9973,"b":9967,"c":22})"), "complete");
  EXPECT_EQ(after(kApart, R"({"a":9973,"b":9973,)"), R"({"a":9973,"b":9973)");
  // Alone: no product is ever taken.
  EXPECT_EQ(after(R"({"allOf": [{"type": "integer", "multipleOf": 9973}]})", "9973"), "complete");
  EXPECT_EQ(after(R"({"allOf": [{"multipleOf": 9973}, {"multipleOf": 9973}]})", "9973"),
            "complete");
}

TEST_F(SchemaLimits, MultiplesOfHintsAreDropped) {
  const Result<JsonValue> schema =
      parse_json(R"({"allOf": [{"multipleOf": 9973}, {"multipleOf": 9967}], "multipleOf": 1e9})");
  ASSERT_TRUE(schema.has_value());
  std::string dropped;
  const auto checked = checked_hints(schema->as_object(), dropped);
  ASSERT_TRUE(checked.has_value()) << checked.error().message;
  EXPECT_EQ(to_json(JsonValue(*checked)).find("multipleOf"), std::string::npos);
}

// llguidance lets what needs a backslash in JSON into each class with all control characters.
TEST_F(SchemaLimits, ClassesWithoutQuotesHaveNone) {
  const auto after_pattern = [&](std::string_view pattern, std::string_view text) {
    const JsonObject schema = {{"type", "string"}, {"pattern", pattern}};
    return after(to_json(JsonValue(schema)), text);
  };
  for (const std::string_view pattern :
       {R"(^[^"]*$)", R"(^[^\\"]+$)", R"(^[^"\\]{1,9}$)", R"(^[^ -~]$)", R"(^[^-"-]+$)",
        R"(^[^\p{P}]+$)", R"(^[^"\n]+$)"}) {
    EXPECT_EQ(after_pattern(pattern, R"("\")"), R"("\)") << pattern;
    EXPECT_EQ(after_pattern(pattern, R"("é")"), "complete") << pattern;
  }
  EXPECT_EQ(after_pattern(R"(^[^"]$)", R"("\\")"), "complete");
  EXPECT_EQ(after_pattern(R"(^[^\\]$)", R"("\"")"), "complete");
  EXPECT_EQ(after_pattern(R"(^[^\\]$)", R"("\\)"), R"("\)");
  EXPECT_EQ(after_pattern(R"(^[^-"a]$)", R"("-)"), R"(")");
  EXPECT_EQ(after_pattern(R"(^[\x00-\x7f]$)", R"("\"")"), "complete");
  for (const std::string_view pattern :
       {R"(^[\x00-\x1f]$)", R"(^[\u0000-!]$)", R"(\p{Cc})", R"(^\P{P}$)", R"(\x00)"})
    EXPECT_TRUE(after_pattern(pattern, "\"").starts_with("unsupported: ")) << pattern;
}

TEST_F(SchemaLimits, PlacesThatNothingMayFollowAreRefused) {
  // No integer from 1 to 2 is a multiple, but 1.2 and 1.8 are.
  EXPECT_EQ(after(R"({"type": "object", "properties": {"a": {"type": "integer",
                      "multipleOf": 0.3, "minimum": 1, "maximum": 2.9}}, "required": ["a"]})",
                  "{"),
            "error: a: no value satisfies what the schema asks for here");
  // Optional, but who begins with it cannot end.
  EXPECT_EQ(after(R"({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}},
                      "$defs": {"b": {"type": "object", "properties": {"next": {"$ref":
                      "#/$defs/b"}}, "required": ["next"]}}})",
                  "{"),
            "error: a: no value satisfies what the schema asks for here");
  // "a" is taken: after a comma no name is left.
  EXPECT_TRUE(after(R"({"type": "object", "properties": {"a": {}}, "patternProperties": {"^a$":
                        {}}, "additionalProperties": false})",
                    "{")
                  .starts_with("error: no value satisfies"));
  EXPECT_EQ(after(R"({"type": "object", "properties": {"next": {"$ref": "#"}}})",
                  R"({"next":{"next":{}}})"),
            "complete");
}

// Each letter leads to new states; a reply as long as this came to an error at 20000 of them.
TEST_F(SchemaLimits, LongRepliesDoNotRunOutOfStates) {
  std::string text;
  for (int i = 0; i < 4900; i++) text += "abcd123 "[i * 7 % 8];
  EXPECT_EQ(after(R"({"allOf": [{"type": "string", "maxLength": 5000},
                      {"pattern": "[a-z]{3,50}[0-9]{3,50}[a-z]{3,50}"}]})",
                  "\"" + text + "abc123abc\""),
            "complete");
}

TEST_F(SchemaLimits, PatternsThatNoStepCanFollowAreRefused) {
  EXPECT_EQ(after(R"({"type": "string", "allOf": [{"pattern": "a.{8}b"}, {"pattern": "c.{9}d"},
                      {"pattern": "e.{7}f"}], "maxLength": 400})",
                  "\""),
            "error: patterns and lengths that are too large to be followed");
  for (const std::string_view pattern :
       {R"(^\\p{L}+( \\p{L}+)*$)", "^[a-z0-9._-]+@[a-z0-9-]+[.][a-z]{2,}$", "^.*(foo|bar).*$"}) {
    const std::string schema = fmt::format(
        R"({{"allOf": [{{"type": "string", "pattern": "{}"}}, {{"maxLength": 200}}]}})", pattern);
    EXPECT_EQ(after(schema, "\""), "open") << pattern;
  }
}

}  // namespace
}  // namespace reprise::test
