// Prompts that end inside the assistant's last message, or behind the messages: for templates of
// all kinds, ours and the published ones.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/prompt_writer.h"
#include "published_templates.h"
#include "template_tokenizer.h"

namespace reprise {
namespace {

using Chat = std::vector<ChatMessage>;

const Chat kQuestion = {{"user", "Paris or Rome?"}};

Chat with_text(std::string text, std::string reasoning = {}) {
  Chat chat = kQuestion;
  chat.push_back({"assistant", std::move(text), std::move(reasoning)});
  return chat;
}

class PromptContinueTest : public ::testing::Test {
 protected:
  PromptWriter writer(std::string_view source, std::string_view family = "") const {
    Result<ChatTemplate> compiled = ChatTemplate::compile(source);
    EXPECT_TRUE(compiled) << compiled.error().message;
    return PromptWriter(tokenizer_, std::move(*compiled),
                        {.vocabulary = static_cast<int>(tokenizer_.size()),
                         .context_length = 100'000,
                         .turn_end_ids = {*tokenizer_.find("<|im_end|>")},
                         .style = detect_reply_style(source, family)});
  }
  static std::string shown(const PromptWriter& writer, const Chat& chat,
                           PromptEnd end = PromptEnd::reply) {
    const auto text = writer.render_chat(chat, {.end = end});
    return text ? *text : "refused: " + text.error().message;
  }
  static std::string continued(const PromptWriter& writer, const Chat& chat) {
    return shown(writer, chat, PromptEnd::content);
  }
  PreparedPrompt prompt(const PromptWriter& writer, const Chat& chat, PromptEnd end) const {
    Result<PreparedPrompt> prepared = writer.prepare_chat(chat, {.end = end});
    EXPECT_TRUE(prepared) << prepared.error().message;
    return prepared ? std::move(*prepared) : PreparedPrompt();
  }
  static Position common(const PreparedPrompt& a, const PreparedPrompt& b) {
    return std::ranges::mismatch(a.ids, b.ids).in1 - a.ids.begin();
  }

  const Tokenizer tokenizer_ = testing::template_tokenizer();
};

constexpr const char* kPlain =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST_F(PromptContinueTest, ThePromptEndsBehindTheText) {
  const PromptWriter plain = writer(kPlain);
  const std::string begun = shown(plain, kQuestion);
  // Also what stands in the end of turn, what looks like one, and what is asked for elsewhere.
  for (const std::string text : {"The city is", "e", "im", "<|im_end|>", "Paris or Rome?", "a\n\n",
                                 " a ", "CONTINUE-FINAL-MESSAGE", "\xC3\xA9", "{{ x }}"}) {
    EXPECT_EQ(continued(plain, with_text(text)), begun + text);
  }
}

// A template may trim; what was written last stays, so that the tokens are those of the reply.
TEST_F(PromptContinueTest, WhitespaceAtTheEndStays) {
  const PromptWriter gemma = writer(builtin_chat_template("gemma3"), "gemma3");
  const std::string begun = shown(gemma, kQuestion);
  for (const char* text : {"So", "So ", "So\n\n", "So \t\r\n"})
    EXPECT_EQ(continued(gemma, with_text(text)), begun + text);
  EXPECT_EQ(continued(gemma, with_text("\n So\n")), begun + "So\n");
}

TEST_F(PromptContinueTest, MessagesOfOneSpeakerAreJoinedFirst) {
  const PromptWriter gemma = writer(builtin_chat_template("gemma3"), "gemma3");
  Chat chat = with_text("So");
  chat.push_back({"assistant", "it is"});
  EXPECT_EQ(continued(gemma, chat), shown(gemma, kQuestion) + "So\nit is");
}

TEST_F(PromptContinueTest, WhatTheTemplateChangesIsRefused) {
  const PromptWriter strips =
      writer("{% for m in messages %}{{ m.content.split('</think>')[-1] }}<|im_end|>{% endfor %}");
  EXPECT_EQ(continued(strips, with_text("so")), "Paris or Rome?<|im_end|>so");
  const PromptWriter forgets = writer(
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}");
  const PromptWriter shouts =
      writer("{% for m in messages %}{{ m.content | upper }}<|im_end|>{% endfor %}");
  for (const auto& [own, text] : {std::pair{&strips, "<think>hm</think>so"},
                                  std::pair{&forgets, "so"}, std::pair{&shouts, "so"}}) {
    const auto refused = own->prepare_chat(with_text(text), {.end = PromptEnd::content});
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Errc::invalid_argument);
    EXPECT_EQ(refused.error().field, "continue_final_message");
  }
  const PromptWriter raises = writer("{{ raise_exception('never') }}");
  EXPECT_NE(continued(raises, with_text("so")).find("never"), std::string::npos);
}

TEST_F(PromptContinueTest, BoundariesHold) {
  const PromptWriter writers[] = {
      writer(kPlain), writer(builtin_chat_template("gemma3"), "gemma3"),
      writer("{% for m in messages %}### {{ m.role }}:\n{{ m.content }}\n\n{% endfor %}"
             "{% if add_generation_prompt %}### assistant:\n{% endif %}")};
  for (const PromptWriter& own : writers) {
    const Chat chat = with_text("The city is");
    const PreparedPrompt now = prompt(own, chat, PromptEnd::content);
    EXPECT_EQ(now.thoughts, Thoughts::closed);
    EXPECT_GT(now.history_boundary, 0);
    // More of the text, then the next question.
    Chat longer = with_text("The city is Rome.");
    const PreparedPrompt more = prompt(own, longer, PromptEnd::content);
    EXPECT_GE(common(now, more), now.history_boundary);
    longer.push_back({"user", "why?"});
    const PreparedPrompt next = prompt(own, longer, PromptEnd::reply);
    EXPECT_GE(common(now, next), now.history_boundary);
    EXPECT_GE(common(more, next), more.history_boundary);
  }
}

TEST_F(PromptContinueTest, BehindTheMessages) {
  const PromptWriter plain = writer(kPlain);
  const std::string begun = shown(plain, kQuestion);
  EXPECT_EQ(shown(plain, kQuestion, PromptEnd::messages) + "<|im_start|>assistant\n", begun);
  const Chat chat = with_text("Rome");
  EXPECT_EQ(shown(plain, chat, PromptEnd::messages), begun + "Rome<|im_end|>\n");
  const PreparedPrompt prepared = prompt(plain, chat, PromptEnd::messages);
  EXPECT_EQ(prepared.thoughts, Thoughts::unopened);
  EXPECT_EQ(prepared.history_boundary, prepared.turn_ends.back());
  EXPECT_EQ(plain.detokenize(prepared.ids), shown(plain, chat, PromptEnd::messages));
}

// ---- the published templates
// ---------------------------------------------------------------------

using PublishedContinue = testing::PublishedTemplates<PromptContinueTest>;

// What the model wrote behind the generation prompt is what the prompt ends with.
TEST_F(PublishedContinue, ThePromptIsTheOneBeforeAndTheReply) {
  for (const auto& [name, family] : std::map<std::string, std::string>{{"llama3.1", "llama"},
                                                                       {"llama3.2", "llama"},
                                                                       {"llama4", "llama4"},
                                                                       {"qwen2.5", "qwen2"}}) {
    SCOPED_TRACE(name);
    const PromptWriter own = published(name, family);
    const std::string begun = shown(own, kQuestion);
    EXPECT_EQ(continued(own, with_text("The city is\n")), begun + "The city is\n");
    // Thoughts that a template does not show change nothing.
    EXPECT_EQ(continued(own, with_text("The", "hm")), begun + "The");
  }
  const PromptWriter qwen3 = published("qwen3", "qwen3");
  EXPECT_EQ(continued(qwen3, with_text("The", "hm")),
            shown(qwen3, kQuestion) + "<think>\nhm\n</think>\n\nThe");
  EXPECT_EQ(continued(qwen3, with_text("The")),
            shown(qwen3, kQuestion) + "<think>\n\n</think>\n\nThe");
  const PromptWriter muse = published("muse_glimmer", "muse_glimmer");
  EXPECT_EQ(continued(muse, with_text("The", "hm")),
            shown(muse, kQuestion) +
                " to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>The");
  const PromptWriter gemma4 = published("gemma4", "gemma4");
  const std::string before = shown(gemma4, kQuestion, PromptEnd::messages);
  EXPECT_EQ(continued(gemma4, with_text("The")), before + "<|turn>model\nThe");
}

}  // namespace
}  // namespace reprise
