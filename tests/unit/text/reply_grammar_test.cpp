// Grammars of whole replies: what each format's lets through, and that the format's parser reads
// it.
#include "text/reply_grammar.h"

#include <gtest/gtest.h>

#include "golden.h"
#include "grammar_support.h"
#include "schema_validity.h"

namespace reprise::test {
namespace {

std::vector<ToolSpec> tools() {
  std::vector<ToolSpec> specs(4);
  specs[0] = {"get_weather", object_of(R"({"type": "object", "properties": {
      "city": {"type": "string", "maxLength": 8},
      "days": {"type": "integer", "minimum": 1, "maximum": 7},
      "unit": {"enum": ["c", "f"]}, "tags": {"type": "array", "items": {"type": "string"}},
      "more": {"type": "object", "properties": {"deep": {"type": "boolean"},
      "n": {"type": ["number", "null"]}}, "required": ["deep"], "additionalProperties": false}},
      "required": ["city"], "additionalProperties": false})")};
  specs[1] = {"ping", {}};
  specs[2] = {"plant", object_of(R"({"$defs": {"node": {"type": "object", "properties": {
      "v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"},
      "maxItems": 2}}, "required": ["v"], "additionalProperties": false}}, "type": "object",
      "properties": {"root": {"$ref": "#/$defs/node"}}, "required": ["root"],
      "additionalProperties": false})")};
  specs[3] = {"free", object_of(R"({"type": "object"})")};
  return specs;
}

class ReplyGrammar : public testing::TestWithParam<bool> {
 protected:
  // `prepared` gives the options but for the tokenizer.
  std::string lark(ReplyGrammarOptions options, ToolChoice choice, bool parallel) {
    options.tokenizer = &tokenizer_;
    const auto made = tool_grammar(options, tools_, choice, parallel);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return made.value_or("");
  }
  void expect(std::string_view lark, std::string_view text, std::string_view verdict) {
    EXPECT_EQ(probe_.after(lark, text), verdict) << text;
  }

  std::vector<ToolSpec> tools_ = tools();
  Tokenizer tokenizer_ = tokenizer_with_marks(GetParam());
  GrammarProbe probe_{tokenizer_, {1, 2}, 320};
};

TEST_P(ReplyGrammar, Hermes) {
  const std::string required = lark({.format = ReplyFormat::hermes}, ToolChoice::required, true);
  const std::string call = "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>";
  expect(required, call, "complete");
  expect(required, call + "\n" + call, "complete");
  expect(required, "<tool_call>{\"name\"", "<tool_call>");
  expect(required, "<tool_call>\n{\"name\":\"ping\"", "<tool_call>\n{\"name\":");
  expect(required, "Hello", "");
  expect(required, "<tool_call>\n{\"name\": \"pong", "<tool_call>\n{\"name\": \"p");
  expect(required,
         "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"\", \"days\": 9",
         "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"\", \"days\": ");
  const std::string one = lark({.format = ReplyFormat::hermes}, ToolChoice::required, false);
  expect(one, call, "complete");
  expect(one, call + "<tool_call>", call);
}

TEST_P(ReplyGrammar, HermesWithTextAndThoughts) {
  const std::string call = "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>";
  const std::string plain = lark({.format = ReplyFormat::hermes}, ToolChoice::automatic, true);
  expect(plain, "Hello <tool", "complete");
  expect(plain, "", "complete");
  expect(plain, "Hello\n" + call + "\nand " + call + " b", "complete");
  expect(plain, "Hello <tool_call>no", "Hello <tool_call>");
  const std::string may =
      lark({.format = ReplyFormat::hermes, .has_reasoning = true}, ToolChoice::automatic, true);
  expect(may, "<think>a <tool_call>x</think>\n\nHello", "complete");
  expect(may, "<think>a</think>" + call, "complete");
  expect(may, "<think>a", "open");
  expect(may, "Hello <think>" + call, "complete");
  const std::string opened =
      lark({.format = ReplyFormat::hermes, .has_reasoning = true, .in_reasoning = true},
           ToolChoice::required, true);
  expect(opened, "a <tool_call></think>\n\n" + call, "complete");
  expect(opened, "a", "open");
}

TEST_P(ReplyGrammar, Llama3) {
  const std::string automatic = lark({.format = ReplyFormat::llama3}, ToolChoice::automatic, true);
  const std::string call = "{\"name\": \"ping\", \"parameters\": {}}";
  expect(automatic, call, "complete");
  expect(automatic, call + "; " + call, "complete");
  expect(automatic, "{\"type\": \"function\", \"name\": \"ping\"", "{\"type\"");
  expect(automatic, "{\"a\": 1} is text", "complete");
  expect(automatic, "Hello {\"name\": \"pong\"", "complete");
  expect(automatic, "{\"name\": \"pong\"", "{\"name\": \"p");
  if (GetParam()) expect(automatic, "<|python_tag|>" + call, "complete");
  const std::string required = lark({.format = ReplyFormat::llama3}, ToolChoice::required, false);
  expect(required, call, "complete");
  expect(required, call + ";", call);
  expect(required, "a", "");
}

TEST_P(ReplyGrammar, Llama4) {
  const std::string automatic = lark({.format = ReplyFormat::llama4}, ToolChoice::automatic, true);
  expect(automatic, "[ping()]", "complete");
  expect(automatic,
         "[get_weather(city=\"a\", days=3, more={\"deep\": True, \"n\": None}), free(a=[1, 2.5])]",
         "complete");
  expect(automatic, "{\"name\": \"ping\", \"parameters\": {}}", "complete");
  expect(automatic, "[1, 2]", "complete");
  expect(automatic, "[pong()", "[pong");
  expect(automatic, "[get_weather(days", "[get_weather(");
  expect(automatic, "Hello [ping(", "complete");
  if (GetParam()) {
    expect(automatic, "<|python_start|>[ping()]<|python_end|>", "complete");
    expect(automatic, "<|python_start|>Hi<|python_end|>[ping()]", "complete");
  }
  const std::string required = lark({.format = ReplyFormat::llama4}, ToolChoice::required, false);
  expect(required, "[ping()]", "complete");
  expect(required, "[ping(), ", "[ping()");
  expect(required, "[1", "[");
}

TEST_P(ReplyGrammar, Gemma4) {
  const std::string call =
      "<|tool_call>call:get_weather{city:<|\"|>a \"b\"<|\"|>,days:3,more:{deep:true,n:1500.5},"
      "tags:[<|\"|>a<|\"|>,<|\"|><|\"|>],unit:<|\"|>c<|\"|>}<tool_call|>";
  const std::string required = lark({.format = ReplyFormat::gemma4}, ToolChoice::required, true);
  expect(required, call, "complete");
  expect(required, call + "<|tool_call>call:ping{}<tool_call|>", "complete");
  expect(required, "<|tool_call>call:plant{root:{kids:[{v:2}],v:1}}<tool_call|>", "complete");
  expect(required, "<|tool_call>call:get_weather{days", "<|tool_call>call:get_weather{");
  const std::string automatic =
      lark({.format = ReplyFormat::gemma4, .has_reasoning = true}, ToolChoice::automatic, true);
  expect(automatic, "<|channel>thought\na<channel|>Hello " + call + "b", "complete");
  expect(automatic, "Hello", "complete");
  expect(automatic, "Hello <|tool_call>call:pong", "Hello <|tool_call>call:p");
}

TEST_P(ReplyGrammar, Muse) {
  const std::string call =
      " to=get_weather<|message|><atem:function_calls>\n<atem:invoke name=\"get_weather\">\n"
      "<atem:parameter name=\"city\">a \"b\" <</atem:parameter>\n"
      "<atem:parameter name=\"days\">3</atem:parameter>\n"
      "<atem:parameter name=\"unit\">c</atem:parameter>\n"
      "<atem:parameter name=\"tags\">[\"a\", \"b\"]</atem:parameter>\n"
      "</atem:invoke>\n</atem:function_calls>";
  const std::string thoughts = " to=self<|message|>a<|eom|><|start|>assistant";
  const std::string automatic =
      lark({.format = ReplyFormat::muse, .has_reasoning = true}, ToolChoice::automatic, true);
  expect(automatic, call, "complete");
  expect(automatic, thoughts + call, "complete");
  expect(automatic, thoughts + " to=user<|message|>Hello", "complete");
  expect(automatic, " to=user<|message|>Hi<|eom|><|start|>assistant" + call, "complete");
  expect(automatic, call + "<|eom|><|start|>assistant" + call, "complete");
  expect(automatic, " to=nobody", " to=");
  expect(automatic, " to=user<|message|><atem:function_calls",
         " to=user<|message|><atem:function_call");
  const std::string further = lark({.format = ReplyFormat::muse, .in_content = true},
                                   ToolChoice::automatic, true);  // a text goes on
  expect(further, "lo to=user", "complete");
  expect(further, "lo<|eom|><|start|>assistant" + call, "complete");
  expect(further, "<atem:invoke ", "<atem:invoke");
  const std::string required = lark({.format = ReplyFormat::muse}, ToolChoice::required, false);
  expect(required, call, "complete");
  expect(required, call + "<|eom|>", call);
  expect(required, " to=user", " to=");
}

TEST_P(ReplyGrammar, JsonAnswers) {
  const auto json = [&](ReplyGrammarOptions options) {
    options.tokenizer = &tokenizer_;
    return json_grammar(options, {{"type", "boolean"}}).value_or("");
  };
  expect(json({}), "true", "complete");
  expect(json({}), "a", "");
  expect(json({.format = ReplyFormat::hermes}), "false", "complete");
  expect(json({.format = ReplyFormat::hermes, .has_reasoning = true}), "<think>a</think>\n\ntrue",
         "complete");
  expect(json({.format = ReplyFormat::hermes, .has_reasoning = true, .in_reasoning = true}),
         "a</think>true", "complete");
  expect(json({.format = ReplyFormat::gemma4, .has_reasoning = true}),
         "<|channel>thought\na<channel|>true", "complete");
  expect(json({.format = ReplyFormat::muse, .has_reasoning = true}),
         " to=self<|message|>a<|eom|><|start|>assistant to=user<|message|>true", "complete");
  expect(json({.format = ReplyFormat::muse}), " to=user<|message|>true", "complete");
}

TEST_P(ReplyGrammar, AnAnswerMayHaveASchemaBesideTools) {
  const JsonObject schema{{"type", "boolean"}};
  for (const ReplyFormat format : {ReplyFormat::hermes, ReplyFormat::llama3, ReplyFormat::llama4,
                                   ReplyFormat::gemma4, ReplyFormat::muse}) {
    const ReplyGrammarOptions options{.format = format, .tokenizer = &tokenizer_};
    const auto made = tool_grammar(options, tools_, ToolChoice::automatic, true, &schema);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    const std::string before = format == ReplyFormat::muse ? " to=user<|message|>" : "";
    expect(*made, before + "true", "complete");
    expect(*made, before + "a", before);
  }
}

TEST_P(ReplyGrammar, ParsersReadWhatGrammarsAllow) {
  std::mt19937 random(11);
  for (const ReplyFormat format : {ReplyFormat::hermes, ReplyFormat::llama3, ReplyFormat::llama4,
                                   ReplyFormat::gemma4, ReplyFormat::muse}) {
    int complete = 0;
    for (const ToolSpec& spec : tools_) {
      const std::vector<ToolSpec> own = {spec};
      const ReplyGrammarOptions options{.format = format, .tokenizer = &tokenizer_};
      const auto made = tool_grammar(options, own, ToolChoice::required, true);
      ASSERT_TRUE(made.has_value()) << made.error().message;
      for (int i = 0; i < 12; i++) {
        const auto ids = probe_.walk(*made, random, 600);
        if (!ids) continue;
        complete++;
        const std::string reply = probe_.text_of(*ids);
        for (const bool are_constrained : {false, true}) {
          std::string text;
          const auto calls = calls_in(format, own, tokenizer_, *ids, are_constrained, text);
          EXPECT_FALSE(calls.empty()) << reply;
          EXPECT_EQ(text, "") << reply;
          for (const Call& call : calls) {
            EXPECT_EQ(call.name, spec.name) << reply;
            const auto value = parse_json(call.arguments, kCallLimits);
            ASSERT_TRUE(value.has_value()) << value.error().message << ": " << reply;
            EXPECT_TRUE(satisfies(spec.parameters, spec.parameters, *value)) << reply;
          }
        }
      }
    }
    EXPECT_GE(complete, 24) << static_cast<int>(format);
  }
}

TEST_P(ReplyGrammar, RefusesByFunction) {
  const auto refused = [&](ReplyFormat format, ToolSpec spec) {
    const auto made =
        tool_grammar({.format = format}, std::span(&spec, 1), ToolChoice::automatic, true);
    return made ? std::string("no error") : made.error().message;
  };
  EXPECT_NE(refused(ReplyFormat::hermes, {"a b", {}}).find("function name a b"), std::string::npos)
      << refused(ReplyFormat::hermes, {"a b", {}});
  EXPECT_NE(refused(ReplyFormat::muse, {"a", {{"type", "string"}}}).find("function a: type"),
            std::string::npos);
  const JsonObject unknown{{"properties", {{"b", {{"uniqueItems", true}}}}}};
  EXPECT_EQ(refused(ReplyFormat::gemma4, {"a", unknown}),
            "function a: properties.b: keyword \"uniqueItems\" is not supported");
  EXPECT_EQ(refused(ReplyFormat::gemma4, {"a", unknown, false}), "no error");
  EXPECT_NE(refused(ReplyFormat::plain, {"a", {}}), "no error");
}

INSTANTIATE_TEST_SUITE_P(Marks, ReplyGrammar, testing::Bool(), [](const auto& special) {
  return special.param ? std::string("special") : std::string("text");
});

}  // namespace
}  // namespace reprise::test
