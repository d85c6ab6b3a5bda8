// Objects of functions' schemas: closed where they list what there is, and open where closing them
// would leave no value.
#include "text/schema_closing.h"

#include <gtest/gtest.h>

#include "grammar_support.h"

namespace reprise::test {
namespace {

std::string closed(std::string_view schema) {
  return to_json(JsonValue(with_closed_objects(object_of(schema))));
}

TEST(SchemaClosing, ObjectsThatListPropertiesAreClosed) {
  const std::string_view kClosed = R"(,"additionalProperties":false)";
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"properties":{"a":{}}%})", kClosed},
      {R"({"type":"object","properties":{}%})", kClosed},
      {R"({"properties":{"a":{"items":{"properties":{"b":true}%}}},"additionalProperties":true})",
       kClosed},
      {R"({"$defs":{"d":{"properties":{"b":true}%}},"additionalProperties":{"$ref":"#/$defs/d"}})",
       kClosed},
      // Alternatives, and one schema that is all there is.
      {R"({"anyOf":[{"properties":{"a":{}}%},{"type":"null"}]})", kClosed},
      {R"({"allOf":[{"properties":{"a":{}}%}],"description":"d"})", kClosed},
      // What only says more about the same properties.
      {R"({"properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]%})",
       kClosed},
      {R"({"properties":{"a":{},"unevaluatedProperties":{}},"unevaluatedProperties":false%})",
       kClosed},
      {R"({"properties":{"a":{}}%,"patternProperties":null})", ""},
  };
  for (const auto& [marked, instead] : cases) {
    std::string before(marked), after(marked);
    before.erase(before.find('%'), 1);
    after.replace(after.find('%'), 1, instead);
    if (instead.empty()) after.insert(after.size() - 1, kClosed);
    EXPECT_EQ(closed(before), after);
  }
}

TEST(SchemaClosing, OthersStayOpen) {
  for (const std::string_view schema :
       {R"({})", R"({"type":"object"})", R"({"properties":{"a":{}},"additionalProperties":true})",
        R"({"properties":{"a":{}},"additionalProperties":{"type":"string"}})",
        R"({"properties":{"a":{}},"patternProperties":{"^x":{}}})",
        R"({"properties":{"a":{}},"unevaluatedProperties":true})",
        R"({"properties":{"a":{}},"required":["a","b"]})",
        R"({"properties":{"a":{}},"minProperties":2})",
        R"({"properties":{"a":{}},"allOf":[{"properties":{"b":{}}}]})",
        R"({"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]})",
        R"({"properties":{"a":{}},"oneOf":[{"required":["b"]},{"required":["c"]}]})",
        R"({"$ref":"#/$defs/d","properties":{"a":{}},"$defs":{"d":{"properties":{"b":{}}}}})",
        R"({"required":["a"],"anyOf":[{"properties":{"b":{}}}]})",
        R"({"const":{"properties":{"a":1}}})", R"({"properties":7,"items":"x","allOf":{}})"})
    EXPECT_EQ(closed(schema), schema);
}

// Alone in one place, and a part in another.
TEST(SchemaClosing, APartAnywhereIsAPart) {
  const std::string_view schema =
      R"({"properties":{"x":{"$ref":"#/$defs/d"},"y":{"allOf":[{"$ref":"#/$defs/d"},)"
      R"({"properties":{"b":{}}}]}},"$defs":{"d":{"properties":{"a":{}}}}})";
  EXPECT_EQ(closed(schema),
            std::string(schema).insert(schema.size() - 1, R"(,"additionalProperties":false)"));
}

class ClosedCalls : public testing::Test {
 protected:
  void expect(std::string_view parameters, std::string_view arguments, bool fits) {
    const ToolSpec spec{"f", object_of(parameters), false};
    const auto lark = tool_grammar({.format = ReplyFormat::hermes, .tokenizer = &tokenizer_},
                                   std::span(&spec, 1), ToolChoice::required, false);
    ASSERT_TRUE(lark.has_value()) << lark.error().message;
    const std::string reply =
        "<tool_call>\n{\"name\": \"f\", \"arguments\": " + std::string(arguments) +
        "}\n</tool_call>";
    EXPECT_EQ(probe_.after(*lark, reply) == "complete", fits) << parameters << arguments;
  }

  Tokenizer tokenizer_ = tokenizer_with_marks(false);
  GrammarProbe probe_{tokenizer_, {1, 2}, 320};
};

TEST_F(ClosedCalls, CallsHaveTheListedArgumentsOnly) {
  const std::string_view weather = R"({"properties":{"city":{"type":"string"},
      "at":{"properties":{"h":{"type":"integer"}}},"any":{"type":"object"}}})";
  expect(weather, R"({"city": "a", "at": {"h": 1}, "any": {"k": [1]}})", true);
  expect(weather, R"({"city": "a", "api_key": "k"})", false);
  expect(weather, R"({"at": {"m": 1}})", false);
  expect(R"({"properties":{"a":{}},"additionalProperties":true})", R"({"b": 1})", true);
  expect(R"({"type":"object"})", R"({"b": 1})", true);
  expect("{}", "{}", true);
  expect("{}", R"({"b": 1})", false);
  expect(R"({"type":"object","properties":{}})", R"({"b": 1})", false);
  const std::string_view either = R"({"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},
      "anyOf":[{"required":["a"]},{"required":["b"]}]})";
  expect(either, R"({"b": 1})", true);
  expect(either, R"({"a": 1, "c": 1})", false);
  expect(either, "{}", false);
  const std::string_view both =
      R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},
                   {"properties":{"b":{"type":"integer"}},"required":["b"]}]})";
  expect(both, R"({"a": 1, "b": 2})", true);
}

TEST_F(ClosedCalls, AFunctionWithoutParametersGetsNoneInAnyFormat) {
  const std::tuple<ReplyFormat, std::string_view, std::string_view> cases[] = {
      {ReplyFormat::hermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {", "}}\n</tool_call>"},
      {ReplyFormat::llama3, "{\"name\": \"f\", \"parameters\": {", "}}"},
      {ReplyFormat::llama4, "[f(", ")]"},
      {ReplyFormat::gemma4, "<|tool_call>call:f{", "}<tool_call|>"},
      {ReplyFormat::muse, " to=f<|message|><atem:function_calls>\n<atem:invoke name=\"f\">\n",
       "</atem:invoke>\n</atem:function_calls>"}};
  for (const JsonObject& none : {JsonObject{}, object_of(R"({"type":"object","properties":{}})")}) {
    for (const auto& [format, head, tail] : cases) {
      for (const bool is_strict : {false, true}) {
        const ToolSpec spec{"f", none, is_strict};
        const auto lark = tool_grammar({.format = format, .tokenizer = &tokenizer_},
                                       std::span(&spec, 1), ToolChoice::required, false);
        ASSERT_TRUE(lark.has_value()) << lark.error().message;
        const std::string whole = std::string(head) + std::string(tail);
        EXPECT_EQ(probe_.after(*lark, whole), "complete") << whole;
        for (const std::string_view more : {"\"", "a", "<atem:p"}) {
          const std::string let = probe_.after(*lark, std::string(head) + std::string(more));
          EXPECT_TRUE(let != "open" && let != "complete") << head << more;
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::test
