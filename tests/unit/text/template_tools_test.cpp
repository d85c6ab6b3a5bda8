// Tools, calls, results and thoughts in the families' chat templates: rendered as transformers
// renders them (tools/goldens/make_template_goldens.py --families), and what the templates' texts
// say about the replies.
#include <cstdlib>
#include <ctime>

#include <gtest/gtest.h>

#include "base/file.h"
#include "golden.h"
#include "support/reply_reading.h"
#include "text/chat_template.h"
#include "text/reply_parser.h"

namespace reprise::test {
namespace {

std::string text_of(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.as_object().if_contains(name);
  return value == nullptr ? std::string() : std::string(value->as_string());
}

ChatMessage message_of(const JsonValue& value) {
  ChatMessage message{.role = text_of(value, "role"),
                      .content = text_of(value, "content"),
                      .reasoning = text_of(value, "reasoning_content"),
                      .tool_call_id = text_of(value, "tool_call_id"),
                      .name = text_of(value, "name")};
  const JsonValue* calls = value.as_object().if_contains("tool_calls");
  if (calls == nullptr) return message;
  for (const JsonValue& call : calls->as_array()) {
    message.tool_calls.push_back({.id = text_of(call, "id"),
                                  .name = text_of(call.at("function"), "name"),
                                  .arguments = call.at("function").at("arguments").as_object()});
  }
  return message;
}

class TemplateTools : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("TZ", "UTC", 1), 0);
    tzset();
    folder_ = std::getenv("REPRISE_TEMPLATES");
    if (folder_ == nullptr) GTEST_SKIP() << "REPRISE_TEMPLATES names no folder of fetch_templates";
  }
  std::string source_of(const std::string& name) {
    const auto source = read_file(std::string(folder_) + "/" + name + ".jinja", 1 << 20);
    EXPECT_TRUE(source.has_value()) << name;
    return source ? *source : std::string();
  }

  const char* folder_ = nullptr;
  const JsonValue golden_ = read_golden("template_tools.json");
};

TEST_F(TemplateTools, PublishedOnesEqualTransformers) {
  std::size_t compared = 0;
  for (const JsonValue& named : golden_.at("templates").as_array()) {
    const std::string name = text_of(named, "template");
    const auto compiled = ChatTemplate::compile(source_of(name));
    ASSERT_TRUE(compiled.has_value()) << name;
    const JsonArray& chats = golden_.at("chats").as_array();
    for (std::size_t index = 0; index < chats.size(); ++index) {
      std::vector<ChatMessage> messages;
      for (const JsonValue& message : chats[index].at("messages").as_array()) {
        messages.push_back(message_of(message));
      }
      ChatTemplate::Options options;
      options.add_generation_prompt = index != 1;
      options.bos_token = "<bos>";
      options.eos_token = "</s>";
      options.now = golden_.at("now").as_int64();
      const JsonValue* tools = chats[index].as_object().if_contains("tools");
      if (tools != nullptr) options.tools = tools->as_array();
      const auto text = compiled->render(messages, options);
      const JsonValue& expected = named.at("texts").as_array().at(index);
      EXPECT_EQ(text.has_value(), expected.is_string()) << name << " " << index;
      const std::string wanted(expected.is_string() ? expected.as_string()
                                                    : expected.at("error").as_string());
      EXPECT_EQ(text ? *text : text.error().message, wanted) << name << " " << index;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 35U);
}

TEST_F(TemplateTools, StylesOfPublishedOnes) {
  const std::tuple<std::string, ReplyFormat, bool, std::string_view> cases[] = {
      {"gemma4", ReplyFormat::gemma4, true, "enable_thinking"},
      {"llama3.1", ReplyFormat::llama3, false, ""},
      {"llama3.2", ReplyFormat::llama3, false, ""},
      {"llama4", ReplyFormat::llama4, false, ""},
      {"muse_glimmer", ReplyFormat::muse, true, ""},
      {"qwen2.5", ReplyFormat::hermes, false, ""},
      {"qwen3", ReplyFormat::hermes, true, "enable_thinking"},
  };
  for (const auto& [name, format, has_reasoning, thinking_name] : cases) {
    const std::string source = source_of(name);
    const ReplyStyle style = detect_reply_style(source, "any");
    EXPECT_EQ(style.format, format) << name;
    EXPECT_TRUE(style.renders_tools) << name;
    EXPECT_EQ(style.has_reasoning, has_reasoning) << name;
    EXPECT_EQ(style.thinking_name, thinking_name) << name;
  }
}

// What the templates write for an assistant's calls, read as a reply, gives the calls again.
TEST_F(TemplateTools, CallsInTheHistoryAreCallsToTheParsers) {
  const ToolCall call{
      .id = "c",
      .name = "get",
      .arguments = {{"a", "x \"y\"\n<b>"}, {"n", -2}, {"l", JsonArray{1, "z", nullptr}}}};
  const std::vector<ChatMessage> question{{.role = "user", .content = "q"}};
  std::vector<ChatMessage> answered = question;
  answered.push_back({.role = "assistant", .tool_calls = {call}});
  for (const JsonValue& named : golden_.at("templates").as_array()) {
    const std::string name = text_of(named, "template");
    const std::string source = source_of(name);
    const auto compiled = ChatTemplate::compile(source);
    ASSERT_TRUE(compiled.has_value());
    ChatTemplate::Options options;
    options.now = 0;
    options.variables = {{"enable_thinking", true}};
    const auto prompt = compiled->render(question, options);
    options.add_generation_prompt = false;
    const auto whole = compiled->render(answered, options);
    ASSERT_TRUE(prompt.has_value() && whole.has_value()) << name;
    ASSERT_TRUE(whole->starts_with(*prompt)) << name << "\n" << *prompt << "\n" << *whole;
    // Without what ends the turn, which the model's stop token is.
    std::string reply = whole->substr(prompt->size());
    for (const std::string_view end :
         {"\n", "<|im_end|>", "<|eot_id|>", "<|eot|>", "<|tool_response>"}) {
      if (reply.ends_with(end)) reply.resize(reply.size() - end.size());
    }
    const auto read =
        reprise::testing::read_reply(detect_reply_style(source, "").format,
                                     {.has_tools = true, .tool_names = {"get"}}, {{.text = reply}});
    EXPECT_EQ(read.content, "") << name << "\n" << reply;
    ASSERT_EQ(read.calls.size(), 1U) << name << "\n" << reply;
    EXPECT_EQ(read.calls[0].name, "get");
    const auto arguments = parse_json(read.calls[0].arguments);
    ASSERT_TRUE(arguments.has_value());
    EXPECT_TRUE(arguments->as_object() == call.arguments) << name << read.calls[0].arguments;
  }
}

TEST(ReplyStyle, TemplatesThatRenderNoTools) {
  for (const char* family : {"gemma3", "llama4", "afmoe"}) {
    const ReplyStyle style = detect_reply_style("", family);
    EXPECT_EQ(style.format, ReplyFormat::hermes) << family;
    EXPECT_FALSE(style.renders_tools) << family;
    EXPECT_EQ(style.has_reasoning, family == std::string_view("afmoe"));
    EXPECT_EQ(style.thinking_name, family == std::string_view("afmoe") ? "enable_thinking" : "");
  }
  EXPECT_EQ(detect_reply_style("", "llama").format, ReplyFormat::plain);
  const ReplyStyle plain =
      detect_reply_style("{% for m in messages %}{{ m.content }}{% endfor %}", "llama");
  EXPECT_EQ(plain.format, ReplyFormat::hermes);
  EXPECT_FALSE(plain.renders_tools || plain.has_reasoning);
  // Calls in a syntax that we do not read.
  const ReplyStyle xml = detect_reply_style(
      "{% if tools %}<tool_call>\n<function=x>{{ arguments }}{% endif %}<think></think>",
      "step3p5");
  EXPECT_EQ(xml.format, ReplyFormat::hermes);
  EXPECT_FALSE(xml.renders_tools);
  EXPECT_TRUE(xml.has_reasoning);
}

TEST(TemplateMessages, MembersAreThereWhenTheySaySomething) {
  const auto compiled = ChatTemplate::compile(
      "{% for m in messages %}{{ m | tojson }}{% endfor %}{{ tools | tojson }}");
  ASSERT_TRUE(compiled.has_value());
  ChatTemplate::Options options;
  const ToolCall call{.id = "i", .name = "n", .arguments = {{"b", 1}, {"a", "é"}}};
  const ChatMessage bare{.role = "user", .content = "x"};
  const ChatMessage full{.role = "assistant",
                         .content = "",
                         .reasoning = "r",
                         .tool_calls = {call},
                         .tool_call_id = "t",
                         .name = "w"};
  EXPECT_EQ(compiled->render({bare}, options), R"({"role": "user", "content": "x"}null)");
  options.tools = {1};
  options.variables = {{"tools", 5}};
  EXPECT_EQ(
      compiled->render({full}, options),
      R"({"role": "assistant", "content": "", "reasoning_content": "r", "tool_calls": [{"type": )"
      R"("function", "id": "i", "function": {"name": "n", "arguments": {"b": 1, "a": "é"}}}], )"
      R"("tool_call_id": "t", "name": "w"}[1])");
}

TEST(TemplateMessages, EveryTextIsChecked) {
  const auto compiled = ChatTemplate::compile("x");
  ASSERT_TRUE(compiled.has_value());
  const std::string bad = "\xC3";
  const ChatMessage messages[] = {
      {.role = bad},
      {.role = "user", .content = bad},
      {.role = "user", .reasoning = bad},
      {.role = "user", .tool_call_id = bad},
      {.role = "user", .name = bad},
      {.role = "user", .tool_calls = {{.id = bad}}},
      {.role = "user", .tool_calls = {{.name = bad}}},
      {.role = "user", .tool_calls = {{.arguments = {{bad, 1}}}}},
      {.role = "user", .tool_calls = {{.arguments = {{"a", JsonArray{JsonObject{{"b", bad}}}}}}}},
  };
  for (const ChatMessage& message : messages) {
    const auto text = compiled->render({{.role = "user"}, message}, {});
    ASSERT_FALSE(text.has_value());
    EXPECT_EQ(text.error().message, "message 1 is not UTF-8");
  }
  ChatTemplate::Options options;
  options.tools = {"fine", JsonObject{{"a", bad}}};
  const auto text = compiled->render({}, options);
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().message, "tool 1 is not UTF-8");
}

}  // namespace
}  // namespace reprise::test
