// Schemas of strangers: refused in time and by name, or made into what they say.
#include "text/json_schema.h"

#include <tuple>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "golden.h"
#include "grammar_support.h"
#include "schema_validity.h"
#include "support/cpu_seconds.h"
#include "text/reply_grammar.h"

namespace reprise::test {
namespace {

JsonObject schema_of(std::string_view text) {
  Result<JsonValue> value = parse_json(text, {.depth_max = 200});
  EXPECT_TRUE(value.has_value()) << text;
  return value ? value->as_object() : JsonObject{};
}

class JsonSchema : public testing::Test {
 protected:
  Result<GrammarMatcher> compile(const JsonObject& schema) {
    TRY_ASSIGN(const std::string lark, json_grammar({}, schema));
    return probe_.compiler().compile(lark);
  }

  // In one line and a second (ten under a sanitizer), by the check or by llguidance.
  void expect_refused(const JsonObject& schema, Errc code, std::string_view says) {
    const double begin = cpu_seconds();
    const Result<GrammarMatcher> matcher = compile(schema);
    const double elapsed = cpu_seconds() - begin;
    ASSERT_FALSE(matcher.has_value()) << says;
    const Error& error = matcher.error();
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_NE(error.message.find(says), std::string::npos) << error.message;
    EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
    EXPECT_LE(error.message.size(), 400U);
    EXPECT_LT(elapsed, 10.0) << error.message;
  }
  void expect_refused(std::string_view schema, Errc code, std::string_view says) {
    expect_refused(schema_of(schema), code, says);
  }

  Tokenizer tokenizer_ =
      tokenizer_of(scores_vocabulary({"▁", "{", "}", "[", "]", "\"", ":", ",", "{\"", "\":", "a",
                                      "b", "1", "true", "null", "kids"}));
  GrammarProbe probe_{tokenizer_, {1, 2}, 300};
};

TEST_F(JsonSchema, RefusesKeywordsByName) {
  const auto no = Errc::unsupported;
  expect_refused(R"({"type": "array", "uniqueItems": true})", no, "\"uniqueItems\"");
  expect_refused(R"({"type": "object", "properties": {"a": {"minlength": 3}}})", no,
                 "properties.a: keyword \"minlength\"");
  expect_refused(R"({"not": {"type": "string"}})", no, "\"not\"");
  expect_refused(R"({"if": {}, "then": {}, "$schema": "http://json-schema.org/draft-04/schema#"})",
                 no, "\"if\"");
  expect_refused(R"({"type": "array", "contains": {}})", no, "\"contains\"");
  expect_refused(R"({"type": "object", "propertyNames": {"pattern": "a"}})", no, "propertyNames");
  expect_refused(R"({"type": "string", "format": "iri"})", no, "format \"iri\"");
  expect_refused(R"({"oneOf": [{"type": "string"}, {"minLength": 2, "type": "string"}]})", no,
                 "oneOf");
  expect_refused(R"({"$defs": {"a": {"dependentRequired": {}}}, "$ref": "#/$defs/a"})", no,
                 "dependentRequired");
}

TEST_F(JsonSchema, RefusesWhatIsNoSchema) {
  const auto wrong = Errc::invalid_argument;
  expect_refused(R"({"type": "text"})", wrong, "text");
  expect_refused(R"({"type": 3})", wrong, "type must be");
  expect_refused(R"({"items": 3})", wrong, "items: expected a schema");
  expect_refused(R"({"properties": []})", wrong, "properties must be an object");
  expect_refused(R"({"required": "a"})", wrong, "required must be");
  expect_refused(R"({"anyOf": []})", wrong, "anyOf must be");
  expect_refused(R"({"enum": []})", wrong, "enum must be");
  expect_refused(R"({"minimum": "日本語日本語日本語日本語日本語日本語日本語日本語日本語"})", wrong,
                 "minimum must be a number");
  expect_refused(R"({"minItems": -1})", wrong, "minItems must be");
  expect_refused(R"({"minItems": 1.5})", wrong, "minItems must be");
  expect_refused(R"({"pattern": "("})", wrong, "");
  expect_refused(R"({"pattern": "a\\"})", wrong, "ends within an escape");
  expect_refused(R"({"$ref": "#/$defs/nobody"})", wrong, "names nothing");
  expect_refused(R"({"$ref": "https://example.com/schema"})", wrong, "names nothing");
  expect_refused(R"({"$ref": 7})", wrong, "$ref");
}

TEST_F(JsonSchema, RefusesContradictions) {
  const auto wrong = Errc::invalid_argument;
  expect_refused(R"({"allOf": [{"type": "string"}, {"type": "integer"}]})", wrong, "incompatible");
  expect_refused(R"({"type": "object", "properties": {"a": false}, "required": ["a"]})", wrong,
                 "'a'");
  expect_refused(R"({"type": "string", "minLength": 3, "maxLength": 2})", wrong,
                 "schema: minLength 3 is more than maxLength 2");
  expect_refused(R"({"type": "integer", "minimum": 3, "maximum": 2})", wrong,
                 "schema: no integer is at least 3 and at most 2");
  expect_refused(R"({"type": "integer", "minimum": 1.2, "maximum": 1.8})", wrong, "no integer");
  expect_refused(R"({"type": "integer", "format": "int32", "minimum": 3e9})", wrong, "no integer");
  expect_refused(R"({"properties": {"a": {"type": "array", "minItems": 3, "maxItems": 2}}})", wrong,
                 "properties.a: minItems 3 is more than maxItems 2");
  expect_refused(R"({"type": "object", "minProperties": 3, "maxProperties": 2,
                     "additionalProperties": false})",
                 wrong, "schema: minProperties 3 is more than maxProperties 2");
  expect_refused(R"({"$ref": "#"})", wrong, "no token");
}

TEST_F(JsonSchema, RefusesWhatIsTooLarge) {
  const auto large = Errc::exhausted;
  expect_refused({{"type", "string"}, {"pattern", std::string(60'000, '(')}}, large, "60000 bytes");
  expect_refused(
      {{"type", "string"}, {"pattern", std::string(2'000, '(') + std::string(2'000, ')')}}, large,
      "nested groups");
  expect_refused({{"patternProperties", {{std::string(60'000, '('), JsonObject{}}}}}, large,
                 "60000 bytes");
  std::string deep = "{}";
  for (int i = 0; i < 90; i++) deep = fmt::format(R"({{"items":{}}})", deep);
  expect_refused(deep, large, "deeper than 64");
  expect_refused(R"({"type": "array", "maxItems": 1e9})", large, "maxItems 1000000000");
  expect_refused(R"({"type": "string", "minLength": 1000000000})", large, "minLength 1000000000");
  JsonArray values;
  for (int i = 0; i < 100'000; i++) values.push_back(JsonValue(fmt::format("value number {}", i)));
  expect_refused({{"enum", values}}, large, "bytes, expected at most");
  JsonObject properties;
  for (int i = 0; i < 5'000; i++) properties[fmt::format("p{}", i)] = JsonObject{};
  expect_refused({{"properties", properties}}, large, "5000 properties");
  JsonArray factors;  // 10 to the power of 10 combinations
  for (int i = 0; i < 10; i++) {
    JsonArray options;
    for (int j = 0; j < 10; j++)
      options.push_back(
          JsonObject{{"properties", {{fmt::format("p{}{}", i, j), {{"type", "string"}}}}}});
    factors.push_back(JsonObject{{"anyOf", options}});
  }
  expect_refused({{"allOf", factors}}, large, "too large");
  expect_refused(R"({"type": "integer", "multipleOf": 987654321})", large,
                 "multipleOf 987654321, expected at most 10000");
}

// Two lists of 9000 constants, compared for each of 400 properties.
TEST_F(JsonSchema, ComparesAlternativesOnce) {
  JsonArray low, high;
  for (int i = 0; i < 9000; i++) {
    low.push_back(i);
    high.push_back(1'000'000 + i);
  }
  JsonObject properties;
  for (int i = 0; i < 400; i++) {
    properties[fmt::format("p{}", i)] = {
        {"oneOf", {{{"$ref", "#/$defs/low"}}, {{"$ref", "#/$defs/high"}}}}};
  }
  const JsonObject schema = {{"$defs", {{"low", {{"enum", low}}}, {"high", {{"enum", high}}}}},
                             {"properties", properties}};
  const double begin = cpu_seconds();
  const auto checked = checked_schema(schema);
  const double elapsed = cpu_seconds() - begin;
  ASSERT_TRUE(checked.has_value()) << checked.error().message;
  EXPECT_TRUE(checked->at("properties").at("p399").as_object().contains("anyOf"));
  EXPECT_LT(elapsed, 5.0);
  JsonArray large;  // 90 alternatives of 100 constants each, all to be compared, 40 times
  for (int i = 0; i < 90; i++) {
    JsonArray values;
    for (int j = 0; j < 100; j++) values.push_back(90 * j + i);
    large.push_back(JsonObject{{"enum", values}});
  }
  JsonArray lists(4, JsonValue(JsonObject{{"oneOf", large}}));
  expect_refused({{"anyOf", lists}}, Errc::exhausted, "alternatives exclude one another");
}

TEST_F(JsonSchema, RefusesWhatRepliesWouldBreak) {
  const auto no = Errc::unsupported;
  expect_refused(R"({"type": "object", "minProperties": 2})", no, "minProperties 2");
  expect_refused(R"({"type": "object", "patternProperties": {"^[ab]$": {}}, "minProperties": 2,
                     "additionalProperties": false})",
                 no, "minProperties 2");
  expect_refused(R"({"const": 12345678901234567890123})", no, "beyond 2^53");
  expect_refused(R"({"enum": [{"a": [9007199254740993]}]})", no, "beyond 2^53");
  expect_refused(R"({"oneOf": [{"const": 1}, {"const": 1.0}]})", no, "oneOf is not supported");
  expect_refused(R"({"oneOf": [{"type": "integer", "nullable": true}, {"type": "null"}]})", no,
                 "oneOf is not supported");
  expect_refused(R"({"$defs": {"x": {}}, "properties": {"a": {"$id": "http://e/sub",
                     "$ref": "#/$defs/x"}}})",
                 no, "properties.a: $id");
  expect_refused(R"({"type": "integer", "minimum": 1e30})", no, "beyond 64 bits");
  EXPECT_TRUE(compile(schema_of(R"({"type": "object", "minProperties": 2, "required": ["a"],
                                    "properties": {"a": {}}})")));
  EXPECT_TRUE(compile(schema_of(R"({"type": "integer", "minimum": -9223372036854775808,
                                    "maximum": 9223372036854775807})")));
}

TEST_F(JsonSchema, RefusesPatternsThatMeanAnotherThing) {
  const auto no = Errc::unsupported, wrong = Errc::invalid_argument;
  const std::tuple<std::string_view, Errc, std::string_view> cases[] = {
      {"^[[a]b]$", no, "\"[\" within a class is not supported, at byte 2"},
      {"^[a-c&&b]$", no, "\"&&\" within a class"},
      {"^[a--c]$", no, "\"--\" within a class"},
      {"^[a~~c]$", no, "\"~~\" within a class"},
      {"[]a]", no, "an empty class"},
      {"(?x)^a b$", no, "a group's flag"},
      {"(?i:a)", no, "a group's flag"},
      {"(?=a)", no, "look-around"},
      {"(?<!a)b", no, "look-around"},
      {"(?<", wrong, "without a group's kind"},
      {"a(?", wrong, "without a group's kind"},
      {"(?<stop>a)b", no, "a group named stop"},
      {R"(^a\z)", no, R"(the escape "\z")"},
      {R"(\Aa)", no, R"(the escape "\A")"},
      {R"(\u12)", no, "hexadecimal"},
      {R"(a\bb)", no, R"("\b")"},
      {"^+a", wrong, "\"+\" with nothing that it could repeat at byte 1"},
      {"*a", wrong, "\"*\" with nothing"},
      {"(|+a)", wrong, "\"+\" with nothing"},
      {"(^a)*b", wrong, "\"*\" with nothing"},
      {"a**", wrong, "\"*\" with nothing"},
      {"a{,2}", wrong, "\"{\" without counts"},
      {"a(b", wrong, "a pattern is wrong: unclosed group"}};
  for (const auto& [pattern, code, says] : cases)
    expect_refused(JsonObject{{"type", "string"}, {"pattern", pattern}}, code, says);
  for (const std::string_view pattern :
       {R"(^[a-z0-9_.\-]+?@(?:x|y){1,3}\.[^\s"\[]{2,}$)", R"(^\u0041\x42\/\p{L}(?<n>a)\w\d$)",
        "^(a|b)+$|^c", "^ab|cd$", "x{2}y{1,}z{1,2}?", R"(^\(\)\[\]\{\}$)"}) {
    const auto matcher = compile({{"type", "string"}, {"pattern", pattern}});
    EXPECT_TRUE(matcher.has_value()) << pattern << ": " << matcher.error().message;
  }
  expect_refused({{"pattern", "^([a-z]+ ?)*$"}, {"minLength", 3000}}, Errc::exhausted,
                 "a pattern of 13 bytes with minLength 3000");
}

TEST_F(JsonSchema, ReferencesMayHaveEscapes) {
  const JsonObject schema = schema_of(R"({"type": "object", "$defs": {
      "a/b": {"const": 1}, "c~d%": {"const": 11}, "Record<s,a>": {"enum": [111]}},
      "properties": {"a": {"$ref": "#/$defs/a~1b"}, "b": {"$ref": "#/$defs/c~0d%25"},
                     "kids": {"$ref": "#/$defs/Record%3Cs%2Ca%3E"}},
      "required": ["a", "b", "kids"], "additionalProperties": false})");
  const Result<std::string> lark = json_grammar({}, schema);
  ASSERT_TRUE(lark.has_value()) << lark.error().message;
  EXPECT_EQ(probe_.after(*lark, R"({"a":1,"b":11,"kids":111})"), "complete");
  EXPECT_EQ(probe_.after(*lark, R"({"a":11)"), R"({"a":1)");
  expect_refused(R"({"$defs": {"a%zz": {}}, "$ref": "#/$defs/a%zz"})", Errc::invalid_argument,
                 "names nothing");
}

TEST_F(JsonSchema, ExclusiveBoundsExclude) {
  const auto after = [&](std::string_view schema, std::string_view text) {
    const Result<std::string> lark = json_grammar({}, schema_of(schema));
    return lark ? probe_.after(*lark, text) : lark.error().message;
  };
  constexpr std::string_view kSmall =
      R"({"type": "number", "exclusiveMinimum": 0, "maximum": 0.001})";
  EXPECT_EQ(after(kSmall, "0"), "open");
  EXPECT_EQ(after(kSmall, "0.0"), "open");
  EXPECT_EQ(after(kSmall, "0.0005"), "complete");
  constexpr std::string_view kFlag =
      R"({"type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 3})";
  EXPECT_EQ(after(kFlag, "1"), "");
  EXPECT_EQ(after(kFlag, "2"), "complete");
  constexpr std::string_view kBelow =
      R"({"type": "number", "minimum": -0.5, "exclusiveMaximum": 0})";
  EXPECT_EQ(after(kBelow, "-0"), "open");
  EXPECT_EQ(after(kBelow, "-0.5"), "complete");
}

// As many as the limits promise, all optional: each step looks at all that may follow.
TEST_F(JsonSchema, AThousandOptionalPropertiesWork) {
  JsonObject properties;
  for (int i = 0; i < 1000; i++) properties[fmt::format("p{}", i)] = {{"type", "integer"}};
  const Result<std::string> lark =
      json_grammar({}, {{"type", "object"}, {"properties", properties}});
  ASSERT_TRUE(lark.has_value()) << lark.error().message;
  EXPECT_EQ(probe_.after(*lark, R"({"p0":1,"p7":1,"p999":1,"x":1})"), "complete");
}

// Either is right: what counts is that it takes neither long nor the process.
TEST_F(JsonSchema, SurvivesHostileSchemas) {
  JsonObject chain;
  for (int i = 0; i < 5'000; i++)
    chain[fmt::format("d{}", i)] = {{"items", {{"$ref", fmt::format("#/$defs/d{}", i + 1)}}}};
  chain["d5000"] = {{"type", "string"}};
  const JsonObject schemas[] = {
      {{"$defs", chain}, {"$ref", "#/$defs/d0"}},
      schema_of(R"({"anyOf": [{"$ref": "#"}, {"type": "string"}]})"),
      schema_of(R"({"allOf": [{"$ref": "#"}, {"type": "string"}]})"),
      schema_of(R"({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]},
                   "b": {"properties": {"a": {"$ref": "#/$defs/a"}}}}, "$ref": "#/$defs/a"})"),
      schema_of(
          R"({"type": "string", "pattern": "^((((a{1,999}){1,999}){1,999}){1,999}){1,999}$"})"),
      schema_of(R"({"type": "string", "pattern": "^(a|aa|aaa)*b.*c.*d.*e.*f.*g.*h$"})"),
      schema_of(R"({"type": "string", "pattern": "(.*a){20}.{200}", "maxLength": 100000})"),
      schema_of(R"({"type": "string", "pattern": "^[\\p{L}\\p{N}]{1,5000}$", "minLength": 99999})"),
      schema_of(R"({"type": "array", "items": {"type": "array", "items": {"type": "array",
                   "maxItems": 100000}, "maxItems": 100000}, "minItems": 99999})"),
      schema_of(R"({"type": "number", "multipleOf": 1e-300})"),
      schema_of(R"({"type": "integer", "minimum": -1e300, "maximum": 1e300})")};
  for (const JsonObject& schema : schemas) {
    const double begin = cpu_seconds();
    Result<GrammarMatcher> matcher = compile(schema);
    for (int i = 0; matcher && i < 30; i++) {
      if (!matcher->compute_mask()) break;
      if (!matcher->advance(4 + "\"aaaabaacaad"[i % 12])) break;
    }
    const double elapsed = cpu_seconds() - begin;
    EXPECT_LT(elapsed, 10.0) << to_json(schema).substr(0, 100);
    if (!matcher) {
      EXPECT_EQ(matcher.error().message.find('\n'), std::string::npos) << matcher.error().message;
    }
  }
}

TEST_F(JsonSchema, FormatsOfOpenApiAreSizesOrAnnotations) {
  const auto after = [&](std::string_view schema, std::string_view text) {
    const Result<std::string> lark = json_grammar({}, schema_of(schema));
    EXPECT_TRUE(lark.has_value()) << lark.error().message;
    return lark ? probe_.after(*lark, text) : std::string();
  };
  const std::string_view int32 = R"({"type": "integer", "format": "int32", "minimum": -5})";
  EXPECT_EQ(after(int32, "2147483647"), "complete");
  EXPECT_EQ(after(int32, "2147483648"), "214748364");
  EXPECT_EQ(after(int32, "-6"), "-");
  EXPECT_EQ(after(R"({"type": ["integer", "null"], "format": "uint8"})", "256"), "25");
  EXPECT_EQ(after(R"({"type": "integer", "format": "int64"})", "9223372036854775807"), "complete");
  EXPECT_EQ(after(R"({"type": "integer", "format": "int64"})", "9223372036854775808"),
            "922337203685477580");
  EXPECT_EQ(after(R"({"type": "number", "format": "double"})", "-1.5e-7"), "complete");
  for (const std::string_view format :
       {"int64", "int32", "float", "password", "binary", "byte", "path", "uri-reference"}) {
    EXPECT_EQ(after(fmt::format(R"({{"type": "string", "format": "{}"}})", format), R"("x y")"),
              "complete");
  }
}

// A number without bounds ends before its digits or its exponent are beyond all readers.
TEST_F(JsonSchema, NumbersCanBeRead) {
  const auto after = [&](std::string_view schema, std::string_view text) {
    const Result<std::string> lark = json_grammar({}, schema_of(schema));
    EXPECT_TRUE(lark.has_value()) << lark.error().message;
    return lark ? probe_.after(*lark, text) : std::string();
  };
  const std::string digits(40, '3');
  const std::pair<std::string_view, std::string_view> anywhere[] = {
      {R"({"type": "number"})", ""},
      {R"({"type": ["string", "number", "null"]})", ""},
      {R"({"anyOf": [{"type": "boolean"}, {"type": "number"}, {"type": "array"}]})", ""},
      {"{}", ""},
      {R"({"type": "object"})", R"({"a":)"},
      {R"({"type": "array"})", R"([1.5, )"},
      {R"({"items": {"type": "number"}})", "["},
      {R"({"type": "number", "minimum": 0})", ""}};
  for (const auto& [schema, before] : anywhere) {
    const std::string start(before);
    const auto passed = [&](const std::string& number) {
      const std::string let = after(schema, start + number);
      EXPECT_TRUE(let != "complete" && let != "open") << schema << number;
      return let.size() - start.size();
    };
    EXPECT_EQ(passed(digits), 19U) << schema;
    EXPECT_EQ(passed("0." + digits), 19U) << schema;
    EXPECT_LE(passed("2E480"), 4U) << schema;
    EXPECT_LE(passed("1e9868"), 4U) << schema;
    EXPECT_NE(after(schema, start + "12.0625"), start) << schema;
  }
  EXPECT_EQ(after(R"({"type": "integer"})", digits), digits.substr(0, 19));
  EXPECT_EQ(after(R"({"type": ["string", "number"]})", "\"" + digits + "\""), "complete");
  EXPECT_EQ(after(R"({"type": "number"})", "-2.5e+22"), "complete");
  // What is asked for is not cut: constants, multiples, and bounds with nothing shorter between.
  EXPECT_EQ(after(R"({"const": 1234567.0625})", "1234567.0625"), "complete");
  EXPECT_EQ(after(R"({"type": "integer", "multipleOf": 1000})", digits.substr(0, 25) + "000"),
            "complete");
  EXPECT_EQ(after(R"({"type": "number", "minimum": 1e-60, "maximum": 2e-60})",
                  "0." + std::string(59, '0') + "15"),
            "complete");
}

TEST_F(JsonSchema, DropsWhatAsksNothing) {
  for (const std::string_view schema :
       {R"({"type": "array", "uniqueItems": false, "title": "t", "x-order": 1})",
        R"({"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {}})",
        R"({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string"})",
        R"({"type": "object", "properties": {"$defs": {"type": "string"}},
           "$defs": {"x": {"not": 1}}})",
        R"({"type": "string", "x-guidance": {"lenient": true}, "description": "d"})"}) {
    const Result<GrammarMatcher> matcher = compile(schema_of(schema));
    EXPECT_TRUE(matcher.has_value()) << schema << ": " << matcher.error().message;
  }
  const JsonObject loose = schema_of(R"({"type": "array", "uniqueItems": true, "minItems": 1})");
  std::string first;
  const auto dropped = checked_hints(loose, first);
  ASSERT_TRUE(dropped.has_value()) << dropped.error().message;
  EXPECT_EQ(first, "schema: keyword \"uniqueItems\" is not supported");
  EXPECT_FALSE(dropped->contains("uniqueItems"));
  EXPECT_TRUE(dropped->contains("minItems"));
}

TEST_F(JsonSchema, ReadsOneOfWhereAlternativesExcludeOneAnother) {
  const JsonObject schema = schema_of(R"({"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
      "$defs": {"a": {"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]},
                "b": {"type": "object", "properties": {"k": {"const": "b"}},
                      "required": ["k"]}}})");
  const Result<std::string> lark = json_grammar({}, schema);
  ASSERT_TRUE(lark.has_value()) << lark.error().message;
  EXPECT_EQ(probe_.after(*lark, R"({"k":"a"})"), "complete");
  EXPECT_EQ(probe_.after(*lark, R"({"k":"b"})"), "complete");
  EXPECT_EQ(probe_.after(*lark, R"({"k":"c"})"), R"({"k":")");
}

TEST_F(JsonSchema, WhiteSpaceHasAnEnd) {
  const Result<std::string> lark = json_grammar({}, schema_of(R"({"type": "array"})"));
  ASSERT_TRUE(lark.has_value());
  EXPECT_EQ(probe_.after(*lark, "[ 1, 1]"), "complete");
  EXPECT_EQ(probe_.after(*lark, "[\n    1,\n    1\n]"), "complete");
  EXPECT_EQ(probe_.after(*lark, "[1,  1]"), "[1, ");
  EXPECT_EQ(probe_.after(*lark, "[1,\n\n1]"), "[1,\n");
  EXPECT_EQ(probe_.after(*lark, "[] "), "[]");
  EXPECT_EQ(probe_.after(*lark, " []"), "");
}

TEST_F(JsonSchema, NamesCannotHideInEscapes) {
  const Result<std::string> lark = json_grammar(
      {}, schema_of(R"({"type": "object", "properties": {"a": {"type": "integer"}}})"));
  ASSERT_TRUE(lark.has_value());
  EXPECT_EQ(probe_.after(*lark, R"({"b":"b"})"), "complete");
  EXPECT_EQ(probe_.after(*lark, R"({"a":"b"})"), R"({"a":)");
  EXPECT_EQ(probe_.after(*lark, R"({"\u0061":"b"})"), R"({"\)");
}

TEST_F(JsonSchema, RandomRepliesSatisfyIt) {
  std::mt19937 random(7);
  for (const std::string_view text :
       {R"({"type": "object", "properties": {"a": {"type": "string", "maxLength": 5},
            "b": {"type": "integer", "minimum": -3, "maximum": 120}}, "required": ["a"],
            "additionalProperties": false})",
        R"({"type": "array", "items": {"enum": ["a", "b", 1, null, true]}, "minItems": 2,
            "maxItems": 4})",
        R"({"type": "object", "properties": {"v": {"type": ["number", "null"]},
            "kids": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}}, "required": ["v"],
            "additionalProperties": false})",
        R"({"anyOf": [{"type": "boolean"}, {"type": "object", "properties": {"a": {"const": "b"}},
            "required": ["a"], "additionalProperties": false}]})",
        R"({"$defs": {"x": {"type": "string", "minLength": 1, "maxLength": 3}}, "type": "object",
            "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"type": "array",
            "items": {"$ref": "#/$defs/x"}}}, "required": ["b", "a"],
            "additionalProperties": false})"}) {
    const JsonObject schema = schema_of(text);
    const Result<std::string> lark = json_grammar({}, schema);
    ASSERT_TRUE(lark.has_value()) << lark.error().message;
    int complete = 0;
    for (int i = 0; i < 40; i++) {
      const auto ids = probe_.walk(*lark, random, 400);
      if (!ids) continue;
      complete++;
      const std::string reply = probe_.text_of(*ids);
      const auto value = parse_json(reply);
      ASSERT_TRUE(value.has_value()) << value.error().message << ": " << reply;
      EXPECT_TRUE(satisfies(schema, schema, *value)) << reply;
    }
    EXPECT_GE(complete, 30) << text;
  }
}

}  // namespace
}  // namespace reprise::test
