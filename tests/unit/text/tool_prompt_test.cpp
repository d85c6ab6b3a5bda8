// Tools as text: for templates that know nothing of them, and what the parser makes of the same
// text again.
#include "text/tool_prompt.h"

#include <gtest/gtest.h>

#include "support/reply_reading.h"

namespace reprise::test {
namespace {

JsonValue json(std::string_view text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value.has_value()) << text;
  return value ? *value : JsonValue();
}

ToolCall call(std::string_view name, std::string_view arguments) {
  return {.id = "id", .name = std::string(name), .arguments = json(arguments).as_object()};
}

TEST(ToolPrompt, JsonIsSpelledAsPythonSpellsIt) {
  EXPECT_EQ(spaced_json(json(R"({"a":[1,-2,18446744073709551615],"é\u0007\b\f\"\\/":{},"n":null,)"
                             R"("t":[true,false],"e":[]})")),
            "{\"a\": [1, -2, 18446744073709551615], \"é\\u0007\\b\\f\\\"\\\\/\": {}, \"n\": null, "
            "\"t\": [true, false], \"e\": []}");
  EXPECT_EQ(spaced_json(json("[1.0, 200000.0, 1e16, 1e-4, 1e-5, -0.5, 0.0, 1.5e300, "
                             "1234567890123456.7]")),
            "[1.0, 200000.0, 1e+16, 0.0001, 1e-05, -0.5, 0.0, 1.5e+300, 1234567890123456.8]");
  EXPECT_EQ(spaced_json(json(R"("\\u0008")")), R"("\\u0008")");
}

TEST(ToolPrompt, ToolsAreDescribedInTheSystemMessage) {
  const JsonArray tools{json(R"({"type":"function","function":{"name":"get"}})")};
  const std::string description =
      "# Tools\n\nYou can call these functions, each described by one JSON object:\n<tools>\n"
      "{\"type\": \"function\", \"function\": {\"name\": \"get\"}}\n</tools>\n\nTo call a "
      "function, write its name and arguments as one JSON object, like this:\n<tool_call>\n"
      "{\"name\": \"function_name\", \"arguments\": {\"argument\": \"value\"}}\n</tool_call>\n"
      "The result will follow within <tool_response></tool_response>. When no function is "
      "needed, answer without one.";
  auto messages = messages_with_tools_as_text({{.role = "user", .content = "Hi"}}, tools);
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, description);
  EXPECT_EQ(messages[1].content, "Hi");
  messages = messages_with_tools_as_text({{.role = "system", .content = "Be brief."}}, tools);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].content, "Be brief.\n\n" + description);
  messages = messages_with_tools_as_text({{.role = "system", .content = "Be brief."}}, {});
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].content, "Be brief.");
}

TEST(ToolPrompt, CallsAndResultsBecomeTurns) {
  const auto messages = messages_with_tools_as_text(
      {{.role = "user", .content = "a", .name = "Ann"},
       {.role = "assistant", .reasoning = "hm", .tool_calls = {call("f", "{}"), call("g", "{}")}},
       {.role = "tool", .content = "1", .tool_call_id = "x", .name = "f"},
       {.role = "tool", .content = "2"},
       {.role = "assistant", .content = "b", .tool_calls = {call("f", "{}")}},
       {.role = "tool", .content = "3"},
       {.role = "user", .content = "c"},
       {.role = "user", .content = "d"}},
      {});
  ASSERT_EQ(messages.size(), 6U);
  const std::pair<std::string, std::string> expected[] = {
      {"user", "a"},
      {"assistant",
       "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n"
       "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"},
      {"user", "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>"},
      {"assistant", "b\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"},
      {"user", "<tool_response>\n3\n</tool_response>\nc"},
      {"user", "d"}};
  for (std::size_t index = 0; index < messages.size(); ++index) {
    EXPECT_EQ(messages[index].role, expected[index].first) << index;
    EXPECT_EQ(messages[index].content, expected[index].second) << index;
    EXPECT_TRUE(messages[index].tool_calls.empty() && messages[index].tool_call_id.empty());
  }
  EXPECT_EQ(messages[0].name, "Ann");
  EXPECT_EQ(messages[1].reasoning, "hm");
}

// What the model writes in the canonical spelling comes back byte for byte: text -> parser ->
// OpenAI's message -> text.
TEST(ToolPrompt, CanonicalRepliesRenderToThemselves) {
  const std::string replies[] = {
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, \"ü\\n\"], \"b\": {}}}\n"
      "</tool_call>",
      "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
      "{\"name\": \"g\", \"arguments\": {\"x\": null}}\n</tool_call>",
      "Two\n\nlines\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
      "No call."};
  for (const std::string& reply : replies) {
    const auto read = reprise::testing::read_reply(
        ReplyFormat::hermes, {.has_tools = true, .tool_names = {"f", "g"}}, {{.text = reply}});
    ChatMessage message{.role = "assistant", .content = read.content};
    for (const auto& one : read.calls) message.tool_calls.push_back(call(one.name, one.arguments));
    const auto messages = messages_with_tools_as_text({message}, {});
    ASSERT_EQ(messages.size(), 1U);
    EXPECT_EQ(messages[0].content, reply);
  }
}

}  // namespace
}  // namespace reprise::test
