// Random schemas, random replies that their grammars let through, and a validator that judges both.
#include <algorithm>
#include <array>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "golden.h"
#include "grammar_support.h"
#include "schema_validity.h"
#include "support/rounds.h"
#include "text/reply_grammar.h"

namespace reprise::test {
namespace {

const int kSchemas = rounds(300);

class RandomSchema {
 public:
  explicit RandomSchema(unsigned seed) : random_(seed) {}

  std::mt19937& random() { return random_; }

  JsonObject document() {
    JsonObject made = schema(3);
    made["$defs"] = {{"plain", schema(1)}, {"a/b", schema(1)}, {"50%~", schema(1)}};
    return made;
  }

  JsonObject bounded(std::string_view type) {
    JsonObject made = {{"type", type}};
    const double first = bound(), second = bound();
    if (draw(4) > 0) made[draw(2) == 0 ? "minimum" : "exclusiveMinimum"] = std::min(first, second);
    if (draw(4) > 0) made[draw(2) == 0 ? "maximum" : "exclusiveMaximum"] = std::max(first, second);
    if (draw(4) == 0) made["multipleOf"] = multiple();
    return made;
  }

  JsonObject schema(int depth) {
    switch (draw(depth > 0 ? 18 : 7)) {
      case 0:
        return bounded("integer");
      case 1:
        return bounded("number");
      case 2:
        return text();
      case 3:
        return {{"type", draw(2) == 0 ? "boolean" : "null"}};
      case 4:
        return {{"enum", {1, 1.5, "a", nullptr, true, JsonArray{1, 2}, JsonObject{{"k", 1}}}}};
      case 5:
        return {{"const", constant()}};
      case 6:
        return {{"$ref", std::array{"#/$defs/plain", "#/$defs/a~1b", "#/$defs/50%25~0"}[draw(3)]}};
      case 7:
        return list(depth);
      case 8:
        return {{"anyOf", JsonArray{schema(depth - 1), schema(depth - 1)}}};
      case 9:
        return {{"oneOf", JsonArray{schema(depth - 1), schema(depth - 1)}}};
      case 10:
        return {{"allOf", JsonArray{bounded("number"), bounded(draw(2) == 0 ? "integer" : "number"),
                                    JsonObject{{"multipleOf", multiple()}}}}};
      case 11:
        return {{"type", {"integer", "string"}}, {"minimum", bound()}, {"maxLength", draw(5)}};
      case 12:
        return {{"allOf", JsonArray{text(), text(), JsonObject{{"maxLength", draw(9)}}}}};
      case 13:
        return {{"allOf", JsonArray{object(depth), object(depth - 1)}}};
      case 14:
        return with(schema(0), "$ref", "#/$defs/plain");
      case 15:
        return with(bounded("number"), "anyOf", JsonArray{schema(0), schema(0), true});
      default:
        return object(depth);
    }
  }

 private:
  std::size_t draw(std::size_t end) { return random_() % end; }

  double bound() {
    constexpr std::array<double, 20> kBounds = {0,     1,   -1,   5,         9.5,    -0.5,  0.001,
                                                0.002, 100, 99.9, 2.9,       1e15,   -3.25, 1e-7,
                                                -1e-7, 10,  -10,  12345.678, -1e-12, 2.25};
    return kBounds[draw(kBounds.size())];
  }

  double multiple() {
    constexpr std::array<double, 12> kMultiples = {0.5, 2.0,  0.01, 3.0, 0.25, 0.3,
                                                   0.1, 0.07, 7.0,  100, 9973, 86400};
    return kMultiples[draw(kMultiples.size())];
  }

  static JsonObject with(JsonObject schema, std::string_view key, const JsonValue& value) {
    schema[key] = value;
    return schema;
  }

  JsonObject text() {
    JsonObject made = counted("string", "Length", 6);
    constexpr std::string_view kPatterns[] = {"^a+$", "b", R"(^[^"]*$)", R"(^[^\\]*1$)", "^.{2}$"};
    if (draw(2) == 0) made["pattern"] = kPatterns[draw(std::size(kPatterns))];
    return made;
  }

  JsonValue constant() {
    const JsonArray values = {1,     1.0,         "a", -0.5,    nullptr,
                              false, JsonArray{}, 12,  "é\"\n", JsonObject{{"k", {1, nullptr}}},
                              1e-7,  1e15};
    return values[draw(values.size())];
  }

  JsonObject counted(std::string_view type, std::string_view of, std::size_t end) {
    JsonObject made = {{"type", type}};
    const std::size_t least = draw(end);
    if (draw(2) == 0) made[fmt::format("min{}", of)] = least;
    if (draw(3) > 0) made[fmt::format("max{}", of)] = least + draw(3);
    return made;
  }

  JsonObject list(int depth) {
    JsonObject made = counted("array", "Items", 4);
    made["items"] = schema(depth - 1);
    if (draw(3) == 0) made["prefixItems"] = {schema(depth - 1), schema(0)};
    return made;
  }

  JsonObject object(int depth) {
    JsonObject made =
        draw(3) == 0 ? counted("object", "Properties", 4) : JsonObject{{"type", "object"}};
    JsonObject properties;
    JsonArray required;
    for (const std::string_view name : {"a", "b", "key", "$ref", "é\"", ""}) {
      if (draw(2) == 0) continue;
      properties[name] = schema(depth - 1);
      if (draw(2) == 0) required.push_back(JsonValue(name));
    }
    if (draw(8) == 0) required.push_back("kk");
    if (draw(8) == 0) made["patternProperties"] = {{draw(2) == 0 ? "^k" : "b", schema(0)}};
    made["properties"] = properties;
    made["required"] = required;
    if (const std::size_t choice = draw(4); choice < 2) {
      made["additionalProperties"] = false;
    } else if (choice == 2) {
      made["additionalProperties"] = schema(0);
    }
    return made;
  }

  std::mt19937 random_;
};

class SchemaRandom : public testing::Test {
 protected:
  // How many replies were judged; -1: the schema is refused.
  int judge(const JsonObject& schema, std::mt19937& random, int walks) {
    const Result<std::string> lark = json_grammar({}, schema);
    if (!lark || !probe_.compiler().compile(*lark)) return -1;
    int judged = 0;
    for (int i = 0; i < walks; i++) {
      const auto ids = probe_.walk(*lark, random, 160);
      if (!ids) continue;
      const std::string reply = probe_.text_of(*ids);
      const auto value = parse_json(reply);
      if (!value) {  // an open object may have a name twice
        EXPECT_NE(value.error().message.find("twice in one object"), std::string::npos)
            << value.error().message << ": " << reply;
        continue;
      }
      judged++;
      EXPECT_TRUE(satisfies(schema, schema, *value)) << to_json(schema) << "\n" << reply;
    }
    return judged;
  }

  Tokenizer tokenizer_ = tokenizer_of(scores_vocabulary(
      {"▁", "{", "}", "[", "]", "\"", ":", ",", "{\"", "\":", "a", "b", "1", "0", "0.0", "key"}));
  GrammarProbe probe_{tokenizer_, {1, 2}, 300};
};

TEST_F(SchemaRandom, RepliesSatisfyRandomSchemas) {
  RandomSchema schemas(11);
  int judged = 0, accepted = 0;
  for (int i = 0; i < kSchemas && !HasFailure(); i++) {
    const int count = judge(schemas.document(), schemas.random(), 4);
    accepted += count >= 0 ? 1 : 0;
    judged += std::max(count, 0);
  }
  EXPECT_GE(accepted, kSchemas / 3);
  EXPECT_GE(judged, kSchemas / 2);
}

TEST_F(SchemaRandom, NumbersStayWithinRandomBounds) {
  RandomSchema schemas(12);
  int judged = 0;
  for (int i = 0; i < kSchemas && !HasFailure(); i++) {
    const JsonObject schema = schemas.bounded(i % 3 == 0 ? "integer" : "number");
    judged += std::max(judge(schema, schemas.random(), 6), 0);
  }
  EXPECT_GE(judged, kSchemas * 2);
}

}  // namespace
}  // namespace reprise::test
