// Tools, the choice among them, formats of the reply and the template's variables.
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "openai_parse_cases.h"

namespace reprise::testing {
namespace {

const std::string kTwoTools = R"("tools":[
  {"type":"function","function":{"name":"get_weather","description":"Weather \"now\" {in} 𝔘",
   "parameters":{"type":"object","properties":{"city":{"type":"string"}}},"strict":true}},
  {"type":"function","function":{"name":"stop-it"}}])";

// A request with one tool whose function has this member.
std::string tool_with(const std::string& members) {
  return chat_with(R"("tools":[{"type":"function","function":{)" + members + "}}]");
}

TEST(ParseTools, Definitions) {
  const Tools tools = chat(chat_with(kTwoTools)).tools;
  ASSERT_EQ(tools.specs.size(), 2u);
  EXPECT_EQ(tools.specs[0].name, "get_weather");
  EXPECT_EQ(to_json(tools.specs[0].parameters),
            R"({"type":"object","properties":{"city":{"type":"string"}}})");
  EXPECT_EQ(tools.specs[1].name, "stop-it");
  EXPECT_TRUE(tools.specs[1].parameters.empty());
  ASSERT_EQ(tools.definitions.size(), 2u);
  EXPECT_EQ(to_json(tools.definitions[1]), R"({"type":"function","function":{"name":"stop-it"}})");
  EXPECT_EQ(tools.choice, ToolChoice::automatic);
  EXPECT_TRUE(tools.parallel);
}

TEST(ParseTools, Choice) {
  const auto with = [](const std::string& choice) {
    return chat(chat_with(kTwoTools + ",\"tool_choice\":" + choice)).tools;
  };
  EXPECT_EQ(with("\"auto\"").choice, ToolChoice::automatic);
  EXPECT_EQ(with("\"required\"").choice, ToolChoice::required);
  EXPECT_EQ(with("\"required\"").specs.size(), 2u);
  EXPECT_EQ(with("null").choice, ToolChoice::automatic);
  const Tools none = with("\"none\"");
  EXPECT_EQ(none.choice, ToolChoice::none);
  EXPECT_TRUE(none.specs.empty());
  EXPECT_EQ(none.definitions.size(), 2u);  // the prompt, and so the cache, stays the same
  const Tools named = with(R"({"type":"function","function":{"name":"stop-it"}})");
  EXPECT_EQ(named.choice, ToolChoice::required);
  ASSERT_EQ(named.specs.size(), 1u);
  EXPECT_EQ(named.specs[0].name, "stop-it");
  EXPECT_EQ(named.definitions.size(), 2u);
  EXPECT_EQ(chat(chat_with(R"("tool_choice":"auto")")).tools.choice, ToolChoice::none);
  EXPECT_EQ(chat(chat_with(R"("tools":[])")).tools.choice, ToolChoice::none);
  EXPECT_FALSE(chat(chat_with(kTwoTools + R"(,"parallel_tool_calls":false)")).tools.parallel);
  // The order of the members does not matter.
  EXPECT_EQ(chat(chat_with(R"("tool_choice":"required",)" + kTwoTools)).tools.choice,
            ToolChoice::required);
}

TEST(ParseTools, RefusesBadTools) {
  const std::string function = "tools[0].function";
  expect_chat_refused({
      {chat_with(R"("tools":"all")"), kType, "tools"},
      {chat_with(R"("tools":{})"), kType, "tools"},
      {chat_with(R"("tools":[5])"), kType, "tools[0]"},
      {chat_with(R"("tools":[null])"), kType, "tools[0]"},
      {chat_with(R"("tools":[{}])"), kMissing, "tools[0].type"},
      {chat_with(R"("tools":[{"type":3}])"), kType, "tools[0].type"},
      {chat_with(R"("tools":[{"type":"web_search"}])"), kUnsupported, "tools[0].type"},
      {chat_with(R"("tools":[{"type":"function"}])"), kMissing, function},
      {chat_with(R"("tools":[{"type":"function","function":"f"}])"), kType, function},
      {tool_with(""), kMissing, function + ".name"},
      {tool_with(R"("name":3)"), kType, function + ".name"},
      {tool_with(R"("name":"")"), kValue, function + ".name"},
      {tool_with(R"("name":"a b")"), kValue, function + ".name"},
      {tool_with(R"("name":"a\u001b[31m")"), kValue, function + ".name"},
      {tool_with(R"("name":"grüße")"), kValue, function + ".name"},
      {tool_with("\"name\":\"" + std::string(65, 'n') + "\""), kValue, function + ".name"},
      {tool_with(R"("name":"f","description":3)"), kType, function + ".description"},
      {tool_with(R"("name":"f","parameters":"x")"), kType, function + ".parameters"},
      {tool_with(R"("name":"f","parameters":[])"), kType, function + ".parameters"},
      {tool_with(R"("name":"f","parameters":{"type":"array"})"), kValue,
       function + ".parameters.type"},
      {tool_with(R"("name":"f","parameters":{"type":["object"]})"), kValue,
       function + ".parameters.type"},
      {tool_with(R"("name":"f","strict":"yes")"), kType, function + ".strict"},
      {chat_with(R"("tools":[{"type":"function","function":{"name":"f"}},
                             {"type":"function","function":{"name":"f"}}])"),
       kValue, "tools[1].function.name"},
      {chat_with(R"("parallel_tool_calls":1)"), kType, "parallel_tool_calls"},
  });
  std::string many = R"("tools":[)";
  for (int i = 0; i < 129; i++) {
    many += fmt::format(R"({}{{"type":"function","function":{{"name":"f{}"}}}})", i ? "," : "", i);
  }
  EXPECT_EQ(parse_chat_request(chat_with(many + "]")).error().message,
            "tools: got 129 tools, expected at most 128");
}

TEST(ParseTools, RefusesBadChoices) {
  const auto with = [](const std::string& choice) {
    return chat_with(kTwoTools + ",\"tool_choice\":" + choice);
  };
  expect_chat_refused({
      {with("5"), kType, "tool_choice"},
      {with("[]"), kType, "tool_choice"},
      {with("\"any\""), kValue, "tool_choice"},
      {with("{}"), kMissing, "tool_choice.type"},
      {with(R"({"type":"custom"})"), kUnsupported, "tool_choice.type"},
      {with(R"({"type":"function"})"), kMissing, "tool_choice.function"},
      {with(R"({"type":"function","function":"f"})"), kType, "tool_choice.function"},
      {with(R"({"type":"function","function":{}})"), kMissing, "tool_choice.function.name"},
      {with(R"({"type":"function","function":{"name":3}})"), kType, "tool_choice.function.name"},
      {with(R"({"type":"function","function":{"name":"other"}})"), kValue,
       "tool_choice.function.name"},
      {chat_with(R"("tool_choice":"required")"), kValue, "tool_choice"},
      {chat_with(R"("tools":[],"tool_choice":"required")"), kValue, "tool_choice"},
      {chat_with(R"("tool_choice":{"type":"function","function":{"name":"f"}})"), kValue,
       "tool_choice"},
  });
}

// What the schema's member is called in what is found wrong with it later.
TEST(ParseFormat, TheSchemasPlaceIsKnown) {
  const auto name_of = [](const std::string& format) {
    return chat(chat_with("\"response_format\":" + format)).names.schema;
  };
  EXPECT_EQ(name_of(R"({"type":"json_object","schema":{"a":1}})"), "response_format.schema");
  EXPECT_EQ(name_of(R"({"type":"json_schema","json_schema":{"name":"n","schema":{}}})"),
            "response_format.json_schema.schema");
}

TEST(ParseFormat, Schemas) {
  const auto schema_of = [](const std::string& format) {
    const auto schema = chat(chat_with("\"response_format\":" + format)).schema;
    return schema ? to_json(*schema) : "none";
  };
  EXPECT_EQ(schema_of(R"({"type":"text"})"), "none");
  EXPECT_EQ(schema_of("null"), "none");
  EXPECT_EQ(schema_of(R"({"type":"json_object"})"), R"({"type":"object"})");
  EXPECT_EQ(schema_of(R"({"type":"json_object","schema":{"a":1}})"), R"({"a":1})");
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"}}})";
  for (const char* strict : {"true", "false", "null"}) {
    EXPECT_EQ(schema_of(R"({"type":"json_schema","json_schema":{"name":"n","strict":)" +
                        std::string(strict) + R"(,"description":"d","schema":)" + schema + "}}"),
              schema);
  }
}

TEST(ParseFormat, RefusesBadFormats) {
  const auto with = [](const std::string& format) {
    return chat_with("\"response_format\":" + format);
  };
  const auto nested = [&](const std::string& members) {
    return with(R"({"type":"json_schema","json_schema":{)" + members + "}}");
  };
  const std::string at = "response_format.json_schema";
  expect_chat_refused({
      {with("\"json\""), kType, "response_format"},
      {with("{}"), kMissing, "response_format.type"},
      {with(R"({"type":1})"), kType, "response_format.type"},
      {with(R"({"type":"xml"})"), kValue, "response_format.type"},
      {with(R"({"type":"json_object","schema":"x"})"), kType, "response_format.schema"},
      {with(R"({"type":"json_schema"})"), kMissing, at},
      {with(R"({"type":"json_schema","json_schema":[]})"), kType, at},
      {nested(R"("schema":{})"), kMissing, at + ".name"},
      {nested(R"("name":"a b","schema":{})"), kValue, at + ".name"},
      {nested(R"("name":"n")"), kMissing, at + ".schema"},
      {nested(R"("name":"n","schema":true)"), kType, at + ".schema"},
      {nested(R"("name":"n","schema":{},"strict":"yes")"), kType, at + ".strict"},
      {nested(R"("name":"n","schema":{},"description":[])"), kType, at + ".description"},
      {nested(R"("name":"n","schema":{"enum":[")" + std::string(300'000, 'x') + R"("]})"), kValue,
       at + ".schema"},
  });
}

TEST(ParseFormat, ReasoningAndTemplateVariables) {
  const ChatRequest request = chat(chat_with(
      R"("reasoning_effort":"xhigh","chat_template_kwargs":{"enable_thinking":false,"n":[1]})"));
  EXPECT_EQ(request.reasoning_effort, "xhigh");
  EXPECT_EQ(to_json(request.template_variables), R"({"enable_thinking":false,"n":[1]})");
  for (const std::string_view word : kReasoningEfforts) {
    EXPECT_EQ(chat(chat_with(fmt::format(R"("reasoning_effort":"{}")", word))).reasoning_effort,
              word);
  }
  expect_chat_refused({
      {chat_with(R"("reasoning_effort":"most")"), kValue, "reasoning_effort"},
      {chat_with(R"("reasoning_effort":3)"), kType, "reasoning_effort"},
      {chat_with(R"("chat_template_kwargs":[])"), kType, "chat_template_kwargs"},
      {chat_with(R"("chat_template_kwargs":{"x":")" + std::string(70'000, 'x') + "\"}"), kValue,
       "chat_template_kwargs"},
  });
}

}  // namespace
}  // namespace reprise::testing
