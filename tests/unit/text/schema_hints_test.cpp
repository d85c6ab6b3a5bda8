// Schemas of functions that are not strict: whatever is wrong with them, there is a schema that
// calls are held to, and what is right in them stays.
#include "text/schema_hints.h"

#include <gtest/gtest.h>

#include "grammar_support.h"
#include "text/json_schema.h"

namespace reprise::test {
namespace {

// The schema without its keywords at fault and without ours; behind a bar what was dropped first.
std::string hints(std::string_view schema) {
  std::string dropped;
  Result<JsonObject> checked = checked_hints(object_of(schema), dropped);
  if (!checked) return checked.error().message;
  checked->erase("x-guidance");
  return to_json(JsonValue(std::move(*checked))) + " | " + dropped;
}

TEST(SchemaHints, TheKeywordAtFaultIsDropped) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"type":"array","minItems":3,"maxItems":2,"items":{"type":"null"}})",
       R"({"type":"array","items":{"type":"null"}} | schema: minItems 3 is more than maxItems 2)"},
      {R"({"properties":{"a":{"type":"string","pattern":"^[a-z]{,5}$","maxLength":5}}})",
       R"({"properties":{"a":{"type":"string","maxLength":5}}} | properties.a: pattern: "{" )"
       "without counts like {2} or {1,3} at byte 6"},
      {R"({"properties":{"a":{},"b":{}},"maxProperties":1})",
       R"({"properties":{"a":{},"b":{}}} | schema: counts of properties beside optional ones are )"
       "not supported"},
      {R"({"maxLength":100001,"type":"string"})",
       R"({"type":"string"} | schema: maxLength 100001, expected at most 100000)"},
      {R"({"minimum":1e20,"type":"integer"})",
       R"({"type":"integer"} | schema: a bound beyond 64 bits is not supported)"},
      {R"({"type":"integer","enum":[18446744073709551615,1]})",
       R"({"type":"integer"} | schema: enum with a number beyond 2^53 - 1 is not supported)"},
      {R"({"properties":{"a":{"$ref":"https://x/y","title":"t"}}})",
       R"({"properties":{"a":{"title":"t"}}} | properties.a: $ref "https://x/y" names nothing )"
       "in this schema"},
      {R"({"type":"string","enum":[]})",
       R"({"type":"string"} | schema: enum must be an array with a value in it)"},
      {R"({"properties":null,"required":null,"enum":null,"items":null,"default":null})",
       R"({"default":null} | schema: properties is null)"},
      {R"({"const":null})", R"({"const":null} | )"},
      {R"({"properties":{"a":{"required":true,"type":"any"},"b":"string"}})",
       R"({"properties":{"a":{},"b":true}} | properties.a: required must be an array of names)"},
      {R"x({"patternProperties":{"(?=a)":{}},"additionalProperties":false,"type":"object"})x",
       R"({"type":"object"} | schema: pattern: look-around is not supported, at byte 0)"},
      // References keep their targets, also over a second pass.
      {R"({"enum":[],"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"null"}}})",
       R"({"$ref":"#/$target_1","$defs":{"a/b":{"type":"null"}},"$target_1":{"type":"null"}} | )"
       "schema: enum must be an array with a value in it"},
  };
  for (const auto& [schema, expected] : cases) EXPECT_EQ(hints(schema), expected) << schema;
}

TEST(SchemaHints, ThereIsAlwaysAnObject) {
  JsonValue deep = JsonObject{{"type", "null"}};
  for (int i = 0; i < 70; i++) deep = JsonObject{{"items", deep}};
  const JsonObject schema = schema_of_hints("f", {{"properties", {{"a", deep}}}});
  EXPECT_EQ(schema.at("type"), "object");
  EXPECT_TRUE(schema.contains("x-guidance"));
}

TEST(SchemaHints, LooserSchemasSayLess) {
  const JsonObject schema = object_of(
      R"({"type":"object","properties":{"pattern":{"type":"string","pattern":"a","maxLength":3},)"
      R"("n":{"anyOf":[{"minimum":1,"multipleOf":2}]}},"required":["n"],"minProperties":1,)"
      R"("patternProperties":{"b":{}},"additionalProperties":false,"enum":[{"pattern":1}]})");
  const auto loosened = [&](Looseness looseness) {
    return to_json(JsonValue(loosened_schema(schema, looseness)));
  };
  EXPECT_EQ(
      loosened(Looseness::patterns),
      R"({"type":"object","properties":{"pattern":{"type":"string","maxLength":3},)"
      R"("n":{"anyOf":[{"minimum":1,"multipleOf":2}]}},"required":["n"],"enum":[{"pattern":1}],)"
      R"("additionalProperties":true})");
  EXPECT_EQ(loosened(Looseness::sizes),
            R"({"type":"object","properties":{"pattern":{"type":"string"},"n":{"anyOf":[{}]}},)"
            R"("required":["n"],"enum":[{"pattern":1}],"additionalProperties":true})");
  EXPECT_EQ(loosened(Looseness::object), R"({"type":"object"})");
}

}  // namespace
}  // namespace reprise::test
