// Replies given back: what a model wrote (thoughts, calls, answers), sent back as OpenAI's
// messages, renders to the tokens that it wrote, wherever the template allows; else the next prompt
// agrees at least up to the boundary.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/call_messages.h"
#include "api/prompt_writer.h"
#include "published_templates.h"
#include "template_tokenizer.h"
#include "text/reply_parser.h"

namespace reprise {
namespace {

using Chat = std::vector<ChatMessage>;

JsonArray weather_tools() {
  return {JsonObject{
      {"type", "function"},
      {"function",
       JsonObject{{"name", "get_weather"},
                  {"description", "weather of a city"},
                  {"parameters",
                   JsonObject{{"type", "object"},
                              {"properties", JsonObject{{"city", JsonObject{{"type", "string"}}}}},
                              {"required", JsonArray{"city"}}}}}}}};
}

ChatMessage call_of(std::string city, std::string id, std::string reasoning = {}) {
  ChatMessage message{.role = "assistant", .reasoning = std::move(reasoning)};
  message.tool_calls.push_back({std::move(id), "get_weather", JsonObject{{"city", city}}});
  return message;
}
ChatMessage result_of(std::string id, std::string text) {
  return {.role = "tool", .content = std::move(text), .tool_call_id = std::move(id)};
}

class PromptTurnsTest : public ::testing::Test {
 protected:
  PromptWriter writer(std::string_view source, std::string_view family) const {
    Result<ChatTemplate> compiled = ChatTemplate::compile(source);
    EXPECT_TRUE(compiled) << compiled.error().message;
    std::vector<TokenId> stops;
    for (const char* text :
         {"<eos>", "<end_of_turn>", "<|eot_id|>", "<|im_end|>", "<turn|>", "<|eot|>", "</s>"}) {
      stops.push_back(*tokenizer_.find(text));
    }
    return PromptWriter(tokenizer_, std::move(*compiled),
                        {.add_bos = false,
                         .vocabulary = static_cast<int>(tokenizer_.size()),
                         .context_length = 100'000,
                         .turn_end_ids = turn_end_ids(tokenizer_, stops),
                         .style = detect_reply_style(source, family)});
  }
  PreparedPrompt prompt(const PromptWriter& writer, const Chat& chat,
                        const ChatSettings& settings) const {
    Result<PreparedPrompt> prepared = writer.prepare_chat(chat, settings);
    EXPECT_TRUE(prepared) << prepared.error().message;
    return prepared ? std::move(*prepared) : PreparedPrompt();
  }
  std::string text(const PromptWriter& writer, const PreparedPrompt& prompt) const {
    return writer.detokenize(prompt.ids).value_or("(none)");
  }
  static Position common(const PreparedPrompt& a, const PreparedPrompt& b) {
    return std::ranges::mismatch(a.ids, b.ids).in1 - a.ids.begin();
  }
  // The reply `written` to `chat`, given back as `given` and followed by `more`: the prompt and all
  // that was written must be what the next prompt begins with.
  void expect_extends(const PromptWriter& writer, Chat chat, const std::string& written,
                      const Chat& given, const ChatSettings& settings) const {
    const PreparedPrompt now = prompt(writer, chat, settings);
    chat.insert(chat.end(), given.begin(), given.end());
    const PreparedPrompt next = prompt(writer, chat, settings);
    EXPECT_EQ(common(now, next), static_cast<Position>(now.ids.size()));
    const std::string cached = text(writer, now) + written;
    EXPECT_EQ(text(writer, next).substr(0, cached.size()), cached);
  }
  void expect_boundary_holds(const PromptWriter& writer, Chat chat, const Chat& given,
                             const ChatSettings& settings) const {
    const PreparedPrompt now = prompt(writer, chat, settings);
    EXPECT_GT(now.history_boundary, 0);
    chat.insert(chat.end(), given.begin(), given.end());
    const PreparedPrompt next = prompt(writer, chat, settings);
    EXPECT_GE(common(now, next), now.history_boundary);
  }

  const Tokenizer tokenizer_ = testing::template_tokenizer();
};

// ---- our own templates, with tools in words of ours
// ----------------------------------------------

TEST_F(PromptTurnsTest, ToolsInWordsForTemplatesWithoutTools) {
  for (const char* family : {"gemma3", "llama4", "afmoe"}) {
    SCOPED_TRACE(family);
    const PromptWriter own = writer(builtin_chat_template(family), family);
    const ChatSettings settings{.tools = weather_tools()};
    const Chat chat = {{"user", "Paris or Rome?"}};
    const std::string shown = own.render_chat(chat, settings).value_or("");
    EXPECT_NE(shown.find("get_weather"), std::string::npos) << shown;
    EXPECT_EQ(own.render_chat(chat).value_or("").find("get_weather"), std::string::npos);
    const std::string called =
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n"
        "</tool_call>";
    expect_extends(own, chat, called, {call_of("Paris", "a"), result_of("a", "rain")}, settings);
    // A history of calls needs no tools any more.
    const Chat history = {chat[0],
                          call_of("Paris", "a"),
                          result_of("a", "rain"),
                          {"assistant", "It rains."},
                          {"user", "And Rome?"}};
    EXPECT_NE(own.render_chat(history).value_or("").find("rain"), std::string::npos);
  }
}

TEST_F(PromptTurnsTest, ToolsOfNoWordsGetEmptyOnes) {
  constexpr const char* kStrict =
      "{% for tool in tools %}{{ tool.function.name + tool.function.description + "
      "tool.function.parameters.type }}{% endfor %}{% for m in messages %}{{ m.content }}"
      "<|im_end|>{% if m.tool_calls %}<tool_call>{% endif %}{% endfor %}";
  Result<ChatTemplate> compiled = ChatTemplate::compile(kStrict);
  ASSERT_TRUE(compiled);
  const PromptWriter strict(tokenizer_, std::move(*compiled),
                            {.vocabulary = static_cast<int>(tokenizer_.size()),
                             .context_length = 1000,
                             .turn_end_ids = {},
                             .style = {.renders_tools = true, .thinking_name = {}}});
  const JsonArray tools = {
      JsonObject{{"type", "function"}, {"function", JsonObject{{"name", "now"}}}}};
  EXPECT_EQ(strict.render_chat({{"user", "hi"}}, {.tools = tools}).value_or("(none)"),
            "nowobjecthi<|im_end|>");
}

// A template that knows one call a message is shown several as several messages.
TEST_F(PromptTurnsTest, ParallelCallsAreSplitWhereTheTemplateWantsOne) {
  constexpr const char* kSingle =
      "{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}"
      "{{ raise_exception('one') }}{% endif %}[{{ m.content }}"
      "{{ m.tool_calls[0].function.arguments.city }}]{% else %}{{ m.content }};{% endif %}"
      "{% endfor %}";
  Result<ChatTemplate> compiled = ChatTemplate::compile(kSingle);
  ASSERT_TRUE(compiled);
  const PromptWriter single(tokenizer_, std::move(*compiled),
                            {.vocabulary = static_cast<int>(tokenizer_.size()),
                             .context_length = 1000,
                             .turn_end_ids = {},
                             .style = {.renders_tools = true, .thinking_name = {}}});
  ChatMessage both = call_of("Paris", "a");
  both.content = "so ";
  both.tool_calls.push_back(call_of("Rome", "b").tool_calls[0]);
  Chat chat = {{"user", "ask"},        both,
               result_of("b", "sun"),  result_of("a", "rain"),
               result_of("?", "snow"), {"user", "more"}};
  EXPECT_EQ(single.render_chat(chat).value_or("(none)"), "ask;[so Paris]rain;[Rome]sun;snow;more;");
}

// A template that wants turns is shown what one speaker says in several messages as one; agents
// send two system messages, or their context and the question as two of the user.
TEST_F(PromptTurnsTest, MessagesOfOneSpeakerAreJoinedWhereTheTemplateWantsTurns) {
  const PromptWriter gemma = writer(builtin_chat_template("gemma3"), "gemma3");
  const Chat apart = {{"system", "a"},    {"system", "b"},    {"user", "c"}, {"user", ""},
                      {"user", "d"},      {"assistant", "e"}, {"user", "f"}, {"assistant", "g"},
                      {"assistant", "h"}, {"user", "i"}};
  const Chat joined = {{"system", "a\nb"}, {"user", "c\nd"},      {"assistant", "e"},
                       {"user", "f"},      {"assistant", "g\nh"}, {"user", "i"}};
  EXPECT_EQ(gemma.render_chat(apart).value_or("(none)"), gemma.render_chat(joined).value());
  // What the template can show stays as it is.
  const PromptWriter chatml = writer(builtin_chat_template("afmoe"), "afmoe");
  EXPECT_NE(chatml.render_chat(apart).value(), chatml.render_chat(joined).value());
  // A prompt still grows at its end.
  const Chat first(apart.begin(), apart.begin() + 5);
  expect_extends(gemma, first, "e", {apart[5], apart[6]}, {});
}

TEST_F(PromptTurnsTest, JoinedMessagesKeepTheirCallsAndThoughts) {
  Chat chat = {{"assistant", "x"},     call_of("Paris", "a", "hm"), call_of("Rome", "b", "so"),
               result_of("a", "rain"), result_of("b", "sun"),       {"user", "m"},
               {"user", "n"}};
  chat.back().name = "Bob";
  const Chat joined = join_same_speakers(chat);
  ASSERT_EQ(joined.size(), 5U);
  EXPECT_EQ(joined[0].content, "x");
  EXPECT_EQ(joined[0].reasoning, "hm\nso");
  ASSERT_EQ(joined[0].tool_calls.size(), 2U);
  EXPECT_EQ(joined[0].tool_calls[1].id, "b");
  EXPECT_EQ(joined[2].content, "sun");  // each answer is its own
  EXPECT_EQ(joined[4].content, "n");    // another speaker
}

// What no words change is refused with the template's reason.
TEST_F(PromptTurnsTest, WhatATemplateCannotShowStaysRefused) {
  const PromptWriter gemma = writer(builtin_chat_template("gemma3"), "gemma3");
  const Result<std::string> refused = gemma.render_chat({{"assistant", "a"}, {"assistant", "b"}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("alternate"), std::string::npos);
}

TEST_F(PromptTurnsTest, ReservedVariablesAreRefusedByPath) {
  const PromptWriter own = writer(builtin_chat_template("afmoe"), "afmoe");
  for (const char* name :
       {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}) {
    ChatSettings settings;
    settings.variables[name] = 1;
    const Result<PreparedPrompt> refused = own.prepare_chat({{"user", "hi"}}, settings);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Errc::invalid_argument);
    EXPECT_EQ(refused.error().field, std::string("chat_template_kwargs.") + name);
  }
}

TEST_F(PromptTurnsTest, EffortMeansThinkingAndVariablesWin) {
  const PromptWriter own = writer(builtin_chat_template("afmoe"), "afmoe");
  const auto thoughts = [&](const std::string& effort, const JsonObject& variables) {
    const ChatSettings settings{.variables = variables, .reasoning_effort = effort};
    return prompt(own, {{"user", "hi"}}, settings).thoughts;
  };
  EXPECT_EQ(thoughts("", {}), Thoughts::unopened);
  EXPECT_EQ(thoughts("none", {}), Thoughts::unopened);
  EXPECT_EQ(thoughts("low", {}), Thoughts::open);
  EXPECT_EQ(thoughts("", {{"enable_thinking", true}}), Thoughts::open);
  EXPECT_EQ(thoughts("high", {{"enable_thinking", false}}), Thoughts::unopened);
  // The user's own words open nothing.
  EXPECT_EQ(prompt(own, {{"user", "<think>"}}, {}).thoughts, Thoughts::unopened);
}

TEST_F(PromptTurnsTest, TextsAndIdsOfTheEndpoints) {
  const PromptWriter own = writer(builtin_chat_template("gemma3"), "gemma3");
  const auto ids = own.tokenize("ab<end_of_turn>", AddSpecial::no, ParseSpecial::yes);
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->back(), testing::kTinyEndOfTurn);
  EXPECT_EQ(own.detokenize(*ids), "ab<end_of_turn>");
  const auto spelt = own.tokenize("ab<end_of_turn>", AddSpecial::no, ParseSpecial::no);
  ASSERT_TRUE(spelt);
  EXPECT_GT(spelt->size(), ids->size());
  EXPECT_EQ(own.detokenize(*spelt), "ab<end_of_turn>");
  EXPECT_EQ(own.detokenize(std::vector<TokenId>{testing::kTinyFirstByte + 0xE2}), "\xEF\xBF\xBD");
  EXPECT_EQ(own.detokenize({}), "");
  const auto unknown = own.detokenize(std::vector<TokenId>{5, 100'000});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().field, "tokens[1]");
  EXPECT_NE(unknown.error().message.find("100000"), std::string::npos);
  EXPECT_FALSE(own.detokenize(std::vector<TokenId>{-1}));
  const auto large = own.tokenize(std::string(1 << 22, 'z'), AddSpecial::no, ParseSpecial::yes);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Errc::invalid_argument);
  EXPECT_EQ(large.error().field, "content");
}

// ---- the published templates
// ---------------------------------------------------------------------

using PublishedTurns = testing::PublishedTemplates<PromptTurnsTest>;

const Chat kQuestion = {{"user", "Paris or Rome?"}};

TEST_F(PublishedTurns, QwenCallsExtendThePrompt) {
  const ChatSettings settings{.tools = weather_tools()};
  const std::string call =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n"
      "</tool_call>";
  const PromptWriter qwen2 = published("qwen2.5", "qwen2");
  expect_extends(qwen2, kQuestion, call + "<|im_end|>",
                 {call_of("Paris", "a"), result_of("a", "rain")}, settings);
  const PromptWriter qwen3 = published("qwen3", "qwen3");
  expect_extends(qwen3, kQuestion, "<think>\nhm\n</think>\n\n" + call + "<|im_end|>",
                 {call_of("Paris", "a", "hm"), result_of("a", "rain")}, settings);
  // The second round of a tool loop.
  Chat loop = kQuestion;
  loop.push_back(call_of("Paris", "a", "hm"));
  loop.push_back(result_of("a", "rain"));
  expect_extends(qwen3, loop, "<think>\nhm\n</think>\n\n" + call + "<|im_end|>",
                 {call_of("Paris", "b", "hm"), result_of("b", "rain")}, settings);
}

TEST_F(PublishedTurns, OtherFamiliesCallsExtendThePrompt) {
  const ChatSettings settings{.tools = weather_tools()};
  const std::string json = "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}";
  for (const char* name : {"llama3.1", "llama3.2"}) {
    SCOPED_TRACE(name);
    expect_extends(published(name, "llama"), kQuestion, json + "<|eot_id|>",
                   {call_of("Paris", "a"), result_of("a", "rain")}, settings);
  }
  expect_extends(published("muse_glimmer", "muse_glimmer"), kQuestion,
                 " to=self<|message|>hm<|eom|><|start|>assistant to=get_weather<|message|>"
                 "<atem:function_calls>\n<atem:invoke name=\"get_weather\">\n"
                 "<atem:parameter name=\"city\">Paris</atem:parameter>\n</atem:invoke>\n"
                 "</atem:function_calls><|eot|>",
                 {call_of("Paris", "a", "hm"), result_of("a", "rain")}, settings);
  ChatSettings thinking = settings;
  thinking.reasoning_effort = "high";
  const std::string call = "<|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>}<tool_call|>";
  expect_extends(published("gemma4", "gemma4"), kQuestion,
                 "<|channel>thought\nhm\n<channel|>" + call + "<|tool_response>",
                 {call_of("Paris", "a", "hm"), result_of("a", "rain")}, thinking);
}

TEST_F(PublishedTurns, AnswersExtendWhatTheTemplateKeeps) {
  // Muse keeps thoughts in its history.
  expect_extends(published("muse_glimmer", "muse_glimmer"), kQuestion,
                 " to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>Rome<|eot|>",
                 {{"assistant", "Rome", "hm"}, {"user", "why?"}}, {});
  expect_extends(published("qwen2.5", "qwen2"), kQuestion, "Rome<|im_end|>",
                 {{"assistant", "Rome"}, {"user", "why?"}}, {});
}

// Scaffolds of the generation prompt and dropped thoughts: the next prompt leaves this one inside
// the reply, never before the boundary.
TEST_F(PublishedTurns, BoundariesHoldWithScaffoldsAndThoughts) {
  const std::map<std::string, std::string> families = {{"gemma4", "gemma4"},
                                                       {"llama3.1", "llama"},
                                                       {"llama3.2", "llama"},
                                                       {"llama4", "llama4"},
                                                       {"qwen2.5", "qwen2"},
                                                       {"qwen3", "qwen3"},
                                                       {"muse_glimmer", "muse_glimmer"}};
  for (const auto& [name, family] : families) {
    const PromptWriter of_family = published(name, family);
    for (const char* effort : {"", "none", "high"}) {
      for (const bool has_tools : {false, true}) {
        SCOPED_TRACE(name + " effort \"" + effort + (has_tools ? "\" with tools" : "\""));
        const ChatSettings settings{.tools = has_tools ? weather_tools() : JsonArray{},
                                    .reasoning_effort = effort};
        expect_boundary_holds(of_family, kQuestion, {{"assistant", "Rome", "hm"}, {"user", "why?"}},
                              settings);
        if (!has_tools) continue;
        expect_boundary_holds(of_family, kQuestion,
                              {call_of("Paris", "a", "hm"), result_of("a", "rain")}, settings);
        // A tool loop's next round.
        const Chat loop = {kQuestion[0], call_of("Paris", "a", "hm"), result_of("a", "rain")};
        expect_boundary_holds(of_family, loop, {call_of("Rome", "b", "hm"), result_of("b", "sun")},
                              settings);
      }
    }
  }
}

// A new question after a tool loop may drop its thoughts: the turns before it stay.
TEST_F(PublishedTurns, MarksBeforeDroppedThoughts) {
  const PromptWriter qwen3 = published("qwen3", "qwen3");
  const ChatSettings settings{.tools = weather_tools()};
  const Chat loop = {kQuestion[0], call_of("Paris", "a", "hm"), result_of("a", "rain")};
  const PreparedPrompt now = prompt(qwen3, loop, settings);
  Chat chat = loop;
  chat.push_back({"assistant", "Rome", "hm"});
  chat.push_back({"user", "why?"});
  const PreparedPrompt next = prompt(qwen3, chat, settings);
  const Position agreed = common(now, next);
  EXPECT_LT(agreed, now.history_boundary);
  ASSERT_GE(now.turn_ends.size(), 2u);
  EXPECT_LE(now.turn_ends[1], agreed);  // behind the question
}

TEST_F(PublishedTurns, ThoughtsAtTheEndOfThePrompt) {
  struct Case {
    const char* name;
    const char* family;
    const char* effort;
    Thoughts thoughts;
  };
  for (const Case& wanted : {Case{"qwen3", "qwen3", "", Thoughts::unopened},
                             Case{"qwen3", "qwen3", "none", Thoughts::closed},
                             Case{"qwen3", "qwen3", "medium", Thoughts::unopened},
                             Case{"gemma4", "gemma4", "", Thoughts::closed},
                             Case{"gemma4", "gemma4", "none", Thoughts::closed},
                             Case{"gemma4", "gemma4", "high", Thoughts::unopened},
                             Case{"muse_glimmer", "muse_glimmer", "low", Thoughts::unopened},
                             Case{"llama3.1", "llama", "high", Thoughts::unopened}}) {
    const PromptWriter of_family = published(wanted.name, wanted.family);
    const ChatSettings settings{.reasoning_effort = wanted.effort};
    EXPECT_EQ(prompt(of_family, kQuestion, settings).thoughts, wanted.thoughts)
        << wanted.name << " " << wanted.effort;
  }
  const PromptWriter muse = published("muse_glimmer", "muse_glimmer");
  const auto shown = [&](const char* effort) {
    return muse.render_chat(kQuestion, {.reasoning_effort = effort}).value_or("");
  };
  EXPECT_NE(shown("xhigh").find("Reasoning strength: xhigh."), std::string::npos);
  EXPECT_NE(shown("none").find("Reasoning strength: low."), std::string::npos);
}

// Every published template takes tools that have no description and no parameters, several calls in
// one message, results without a name.
TEST_F(PublishedTurns, TemplatesTakeWhatOpenAiAllows) {
  const std::map<std::string, std::string> families = {{"gemma4", "gemma4"},
                                                       {"llama3.1", "llama"},
                                                       {"llama3.2", "llama"},
                                                       {"llama4", "llama4"},
                                                       {"qwen2.5", "qwen2"},
                                                       {"qwen3", "qwen3"},
                                                       {"muse_glimmer", "muse_glimmer"}};
  ChatMessage both = call_of("Paris", "a");
  both.tool_calls.push_back(call_of("Rome", "b").tool_calls[0]);
  const Chat chat = {kQuestion[0], both, result_of("a", "rain"), result_of("b", "sun")};
  const ChatSettings settings{
      .tools = {
          JsonObject{{"type", "function"}, {"function", JsonObject{{"name", "get_weather"}}}}}};
  for (const auto& [name, family] : families) {
    SCOPED_TRACE(name);
    const PromptWriter of_family = published(name, family);
    const std::string shown = of_family.render_chat(chat, settings).value_or("(none)");
    for (const char* part : {"get_weather", "Paris", "Rome", "rain", "sun"})
      EXPECT_NE(shown.find(part), std::string::npos) << part << " in " << shown;
  }
}

}  // namespace
}  // namespace reprise
