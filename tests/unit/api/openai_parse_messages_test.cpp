// Messages: roles, contents, calls and their answers.
#include <string>

#include <gtest/gtest.h>

#include "openai_parse_cases.h"

namespace reprise::testing {
namespace {

const std::string kUser = R"({"role":"user","content":"q"})";
const std::string kCalls = R"({"role":"assistant","content":null,"tool_calls":[
  {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\": [1, 2]}"}},
  {"id":"c2","type":"function","function":{"name":"g","arguments":""}}]})";

// A conversation whose second message is an assistant's call with these arguments, as JSON text.
std::string call_with(const std::string& arguments) {
  return message_with(kUser + R"(,{"role":"assistant","tool_calls":[{"id":"c","type":"function",
    "function":{"name":"f","arguments":)" +
                      arguments + "}}]}");
}

TEST(ParseMessages, CallsAndAnswers) {
  const ChatRequest request = chat(
      message_with(kUser + "," + kCalls + R"(,{"role":"tool","tool_call_id":"c2","content":"two"},
      {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"one"}],"name":"own"})"));
  ASSERT_EQ(request.messages.size(), 4u);
  const ChatMessage& assistant = request.messages[1];
  EXPECT_EQ(assistant.content, "");
  ASSERT_EQ(assistant.tool_calls.size(), 2u);
  EXPECT_EQ(assistant.tool_calls[0].id, "c1");
  EXPECT_EQ(assistant.tool_calls[0].name, "f");
  EXPECT_EQ(to_json(assistant.tool_calls[0].arguments), R"({"x":[1,2]})");
  EXPECT_EQ(to_json(assistant.tool_calls[1].arguments), "{}");
  EXPECT_EQ(request.messages[2].role, "tool");
  EXPECT_EQ(request.messages[2].tool_call_id, "c2");
  EXPECT_EQ(request.messages[2].name, "g");  // from the call that it answers
  EXPECT_EQ(request.messages[3].name, "own");
  EXPECT_EQ(request.messages[3].content, "one");
}

TEST(ParseMessages, AnswersBelongToTheNewestCallOfTheirId) {
  const auto call = [](const char* name) {
    return std::string(R"({"role":"assistant","tool_calls":[{"id":"call_0","type":"function",
      "function":{"name":")") +
           name + R"(","arguments":"{}"}}]})";
  };
  const std::string answer = R"({"role":"tool","tool_call_id":"call_0","content":""})";
  const ChatRequest request =
      chat(message_with(call("f") + "," + answer + "," + call("g") + "," + answer));
  EXPECT_EQ(request.messages[1].name, "f");
  EXPECT_EQ(request.messages[3].name, "g");
}

TEST(ParseMessages, Thoughts) {
  const auto of = [](const std::string& members) {
    return chat(message_with(R"({"role":"assistant",)" + members + "}")).messages[0];
  };
  EXPECT_EQ(of(R"("content":"a","reasoning_content":"t")").reasoning, "t");
  EXPECT_EQ(of(R"("content":"a","reasoning":"t")").reasoning, "t");
  EXPECT_EQ(of(R"("content":null,"reasoning_content":"cut off")").content, "");
  EXPECT_EQ(of(R"("content":"a","reasoning_content":null)").reasoning, "");
  EXPECT_EQ(of(R"("content":null,"refusal":"I will not.")").content, "I will not.");
  EXPECT_EQ(
      of(R"("content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"b"}])").content,
      "a\nb");
  EXPECT_EQ(chat(message_with(R"({"role":"user","content":"a","reasoning_content":""})"))
                .messages[0]
                .reasoning,
            "");
}

TEST(ParseMessages, NoPartsAreNoText) {
  const ChatRequest request = chat(message_with(
      kUser + R"(,{"role":"assistant","content":[],"tool_calls":[{"id":"c","type":"function",
      "function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[]},
      {"role":"assistant","content":[],"refusal":"no"})"));
  EXPECT_EQ(request.messages[1].content, "");
  EXPECT_EQ(request.messages[2].content, "");
  EXPECT_EQ(request.messages[3].content, "no");
  expect_chat_refused({
      {message_with(R"({"role":"assistant","content":[]})"), kMissing, "messages[0].content"},
      {message_with(R"({"role":"system","content":[]})"), kValue, "messages[0].content"},
  });
}

// DeepSeek's and Mistral's word.
TEST(ParseMessages, APrefixIsGoneOnWith) {
  const auto begun = [](const std::string& members) {
    return message_with(kUser + R"(,{"role":"assistant","content":"Once",)" + members + "}");
  };
  EXPECT_TRUE(chat(begun(R"("prefix":true)")).continues);
  EXPECT_FALSE(chat(begun(R"("prefix":false)")).continues);
  EXPECT_FALSE(chat(begun(R"("prefix":null)")).continues);
  EXPECT_TRUE(parse_tokenize_request(begun(R"("prefix":true)"))->chat->continues);
  const std::string user_first = R"({"role":"user","content":"q","prefix":true})";
  expect_chat_refused({
      {message_with(user_first), kValue, "messages[0].prefix"},
      {message_with(R"({"role":"assistant","content":"a","prefix":true},)" + kUser), kValue,
       "messages[0].prefix"},
      {message_with(kUser + R"(,{"role":"assistant","content":" ","prefix":true})"), kValue,
       "messages[1].prefix"},
      {begun(R"("prefix":1)"), kType, "messages[1].prefix"},
      {R"({"add_generation_prompt":true,)" + begun(R"("prefix":true)").substr(1), kValue,
       "add_generation_prompt"},
  });
}

TEST(ParseMessages, RefusesBadMessages) {
  expect_chat_refused({
      {R"({"model":3,"messages":[]})", kType, "model"},
      {R"({"model":"m"})", kMissing, "messages"},
      {R"({"model":"m","messages":null})", kMissing, "messages"},
      {R"({"model":"m","messages":"hi"})", kType, "messages"},
      {R"({"model":"m","messages":{}})", kType, "messages"},
      {R"({"model":"m","messages":[]})", kValue, "messages"},
      {message_with("\"hi\""), kType, "messages[0]"},
      {message_with("null"), kType, "messages[0]"},
      {message_with("{}"), kMissing, "messages[0].role"},
      {message_with(R"({"content":"hi"})"), kMissing, "messages[0].role"},
      {message_with(R"({"role":3,"content":"hi"})"), kType, "messages[0].role"},
      {message_with(R"({"role":"robot","content":"hi"})"), kValue, "messages[0].role"},
      {message_with(R"({"role":"r\n\u0007","content":"hi"})"), kValue, "messages[0].role"},
      {message_with(R"({"role":"User","content":"hi"})"), kValue, "messages[0].role"},
      {message_with(R"({"role":"function","name":"f","content":"hi"})"), kUnsupported,
       "messages[0].role"},
      {message_with(R"({"role":"user"})"), kMissing, "messages[0].content"},
      {message_with(R"({"role":"user","content":null})"), kMissing, "messages[0].content"},
      {message_with(R"({"role":"system","content":null})"), kMissing, "messages[0].content"},
      {message_with(R"({"role":"assistant"})"), kMissing, "messages[0].content"},
      {message_with(R"({"role":"assistant","content":null,"tool_calls":[]})"), kMissing,
       "messages[0].content"},
      {message_with(R"({"role":"user","content":5})"), kType, "messages[0].content"},
      {message_with(R"({"role":"user","content":{}})"), kType, "messages[0].content"},
      {message_with(R"({"role":"user","content":[]})"), kValue, "messages[0].content"},
      {message_with(R"({"role":"user","content":["hi"]})"), kType, "messages[0].content[0]"},
      {message_with(R"({"role":"user","content":[{}]})"), kMissing, "messages[0].content[0].type"},
      {message_with(R"({"role":"user","content":[{"type":1}]})"), kType,
       "messages[0].content[0].type"},
      {message_with(R"({"role":"user","content":[{"type":"text"}]})"), kMissing,
       "messages[0].content[0].text"},
      {message_with(R"({"role":"user","content":[{"type":"text","text":1}]})"), kType,
       "messages[0].content[0].text"},
      {message_with(R"({"role":"user","content":[{"type":"text","text":"a"},
                       {"type":"image_url","image_url":{"url":"x"}}]})"),
       kUnsupported, "messages[0].content[1].type"},
      {message_with(R"({"role":"user","content":[{"type":"refusal","refusal":"a"}]})"),
       kUnsupported, "messages[0].content[0].type"},
      {message_with(R"({"role":"user","content":"a","name":1})"), kType, "messages[0].name"},
      {message_with(R"({"role":"user","content":"a","reasoning_content":"t"})"), kValue,
       "messages[0].reasoning_content"},
      {message_with(R"({"role":"assistant","content":"a","reasoning_content":1})"), kType,
       "messages[0].reasoning_content"},
      {message_with(R"({"role":"user","content":"a","audio":{"id":"x"}})"), kUnsupported,
       "messages[0].audio"},
      {message_with(R"({"role":"assistant","content":"a","function_call":{"name":"f"}})"),
       kUnsupported, "messages[0].function_call"},
  });
}

TEST(ParseMessages, RefusesBadCalls) {
  const auto calls = [](const std::string& list) {
    return message_with(kUser + R"(,{"role":"assistant","content":"","tool_calls":)" + list + "}");
  };
  const std::string at = "messages[1].tool_calls";
  expect_chat_refused({
      {calls("{}"), kType, at},
      {calls("[3]"), kType, at + "[0]"},
      {calls(R"([{"type":"function","function":{"name":"f","arguments":"{}"}}])"), kMissing,
       at + "[0].id"},
      {calls(R"([{"id":1,"type":"function","function":{"name":"f","arguments":"{}"}}])"), kType,
       at + "[0].id"},
      {calls(R"([{"id":"","type":"function","function":{"name":"f","arguments":"{}"}}])"), kValue,
       at + "[0].id"},
      {calls(R"([{"id":"1","type":"custom","function":{"name":"f","arguments":"{}"}}])"),
       kUnsupported, at + "[0].type"},
      {calls(R"([{"id":"1","type":"function"}])"), kMissing, at + "[0].function"},
      {calls(R"([{"id":"1","type":"function","function":"f"}])"), kType, at + "[0].function"},
      {calls(R"([{"id":"1","type":"function","function":{"arguments":"{}"}}])"), kMissing,
       at + "[0].function.name"},
      {calls(R"([{"id":"1","type":"function","function":{"name":3,"arguments":"{}"}}])"), kType,
       at + "[0].function.name"},
      {calls(R"([{"id":"1","type":"function","function":{"name":"f"}}])"), kMissing,
       at + "[0].function.arguments"},
      {message_with(R"({"role":"user","content":"a","tool_calls":[{"id":"1","type":"function",
        "function":{"name":"f","arguments":"{}"}}]})"),
       kValue, "messages[0].tool_calls"},
  });
}

TEST(ParseMessages, RefusesBadArguments) {
  const std::string at = "messages[1].tool_calls[0].function.arguments";
  expect_chat_refused({
      {call_with("{}"), kType, at},
      {call_with("5"), kType, at},
  });
}

// Agents send a call that max_tokens cut off back, with what went wrong as its result.
TEST(ParseMessages, TakesArgumentsThatAreNoObjectAsOneText) {
  const std::vector<std::string> texts = {"{",
                                          R"({"a": [1, 2)",
                                          "[]",
                                          "null",
                                          "text",
                                          "{} x",
                                          R"({"a":"\ud800"})",
                                          std::string(100'000, '[')};
  for (const std::string& text : texts) {
    SCOPED_TRACE(text.substr(0, 20));
    std::string quoted;
    append_json_text(quoted, text);
    const auto request = parse_chat_request(call_with(quoted));
    ASSERT_TRUE(request.has_value()) << request.error().message;
    const JsonObject expected{{"malformed_arguments", boost::json::string(text)}};
    EXPECT_EQ(request->messages[1].tool_calls[0].arguments, expected);
  }
}

// Models write such; the last of a name counts.
TEST(ParseMessages, TakesArgumentsThatRepeatAName) {
  const auto request = parse_chat_request(call_with(R"("{\"a\":1,\"a\":\"\\u0000\"}")"));
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(to_json(request->messages[1].tool_calls[0].arguments), R"({"a":"\u0000"})");
}

TEST(ParseMessages, RefusesAnswersToNothing) {
  expect_chat_refused({
      {message_with(R"({"role":"tool","tool_call_id":"c1","content":"x"})"), kValue,
       "messages[0].tool_call_id"},
      {message_with(kUser + "," + kCalls + R"(,{"role":"tool","tool_call_id":"c3","content":"x"})"),
       kValue, "messages[2].tool_call_id"},
      {message_with(kUser + "," + kCalls + R"(,{"role":"tool","content":"x"})"), kMissing,
       "messages[2].tool_call_id"},
      {message_with(kUser + "," + kCalls + R"(,{"role":"tool","tool_call_id":7,"content":"x"})"),
       kType, "messages[2].tool_call_id"},
      {message_with(kUser + "," + kCalls + R"(,{"role":"tool","tool_call_id":"c1"})"), kMissing,
       "messages[2].content"},
      {message_with(R"({"role":"user","content":"a","tool_call_id":"c1"})"), kValue,
       "messages[0].tool_call_id"},
      // The call comes after its answer.
      {message_with(R"({"role":"tool","tool_call_id":"c1","content":"x"},)" + kCalls), kValue,
       "messages[0].tool_call_id"},
  });
}

TEST(ParseMessages, UnknownMembersHaveOneNameWhateverTheirIndex) {
  const ChatRequest request = chat(message_with(
      R"({"role":"user","content":"a","wink":1},{"role":"user","content":"b","wink":2},
         {"role":"assistant","tool_calls":[{"id":"1","type":"function","index":0,
          "function":{"name":"f","arguments":"{}","note":1}}]},
         {"role":"user","content":[{"type":"text","text":"c","cache_control":{}}]})"));
  EXPECT_EQ(request.fields.unknown,
            (std::vector<std::string>{"messages[].wink", "messages[].tool_calls[].function.note",
                                      "messages[].tool_calls[].index",
                                      "messages[].content[].cache_control"}));
}

}  // namespace
}  // namespace reprise::testing
