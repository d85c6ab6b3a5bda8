// Where prompts agree with the next turn's and where their messages end, for templates of all
// kinds: plain ones, and those that rewrite what they rendered before.
#include "api/prompt_writer.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/limits.h"
#include "base/file.h"
#include "template_tokenizer.h"

namespace reprise {
namespace {

using Chat = std::vector<ChatMessage>;

// A user's first `turns` messages and the replies between them, which reason first.
Chat chat_of(int turns, bool has_system) {
  Chat chat;
  if (has_system) chat.push_back({"system", "be terse"});
  for (int turn = 0; turn < turns; turn++) {
    if (turn > 0) {
      chat.push_back({"assistant", "<think>\nhm " +
                                       std::string(static_cast<std::size_t>(turn), 'e') +
                                       "\n</think>\n\nanswer " + std::to_string(turn)});
    }
    chat.push_back({"user", "question " + std::to_string(turn)});
  }
  return chat;
}

class PromptWriterTest : public ::testing::Test {
 protected:
  PromptWriter writer(std::string_view source) const {
    Result<ChatTemplate> compiled = ChatTemplate::compile(source);
    EXPECT_TRUE(compiled) << compiled.error().message;
    std::vector<TokenId> stops;
    for (const char* text :
         {"<eos>", "<end_of_turn>", "<|eot_id|>", "<|im_end|>", "<turn|>", "<|eot|>", "</s>"}) {
      stops.push_back(*tokenizer_.find(text));
    }
    return PromptWriter(tokenizer_, std::move(*compiled),
                        {.add_bos = true,
                         .vocabulary = static_cast<int>(tokenizer_.size()),
                         .context_length = 100'000,
                         .turn_end_ids = turn_end_ids(tokenizer_, stops)});
  }
  PreparedPrompt prompt(const PromptWriter& writer, const Chat& chat) const {
    Result<PreparedPrompt> prepared = writer.prepare_chat(chat);
    EXPECT_TRUE(prepared) << prepared.error().message;
    return prepared ? std::move(*prepared) : PreparedPrompt();
  }
  static Position common(const PreparedPrompt& a, const PreparedPrompt& b) {
    return std::ranges::mismatch(a.ids, b.ids).in1 - a.ids.begin();
  }
  std::string_view spelling_before(const PreparedPrompt& prompt, Position position) const {
    return tokenizer_.token_bytes(prompt.ids[static_cast<std::size_t>(position - 1)]);
  }
  // Every mark is behind a token `end`, none such token is missed, and they ascend.
  void expect_turn_ends(const PreparedPrompt& prompt, const std::vector<std::string>& ends) const {
    std::vector<Position> wanted;
    for (std::size_t index = 0; index < prompt.ids.size(); index++) {
      const std::string text(tokenizer_.token_bytes(prompt.ids[index]));
      const bool is_end =
          tokenizer_.is_special(prompt.ids[index]) && std::ranges::find(ends, text) != ends.end();
      if (is_end) wanted.push_back(static_cast<Position>(index + 1));
    }
    EXPECT_EQ(prompt.turn_ends, wanted);
  }

  const Tokenizer tokenizer_ = testing::template_tokenizer();
};

constexpr const char* kPlain =
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
// Reasoning of all replies but those after the newest question is dropped.
constexpr const char* kStripsReasoning =
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}"
    "{% else %}{{ m.content }}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
constexpr const char* kScaffold =
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n"
    "{% endif %}";
// The system's words stand in the newest question: every turn rewrites the one before.
constexpr const char* kMovesSystem =
    "{{ bos_token }}{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
    "{% for m in messages %}{% if m.role == 'user' %}[INST]"
    "{% if loop.last and system %}{{ system }}\n\n{% endif %}{{ m.content }}[/INST]"
    "{% elif m.role == 'assistant' %}{{ m.content }}</s>{% endif %}{% endfor %}";
constexpr const char* kNoSpecials =
    "{% for m in messages %}### {{ m.role }}:\n{{ m.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}### assistant:\n{% endif %}";
constexpr const char* kNeedsGeneration =
    "{% if not add_generation_prompt %}{{ raise_exception('no') }}{% endif %}"
    "{{ bos_token }}"
    "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}<|im_start|>";

TEST_F(PromptWriterTest, PlainTemplates) {
  const PromptWriter plain = writer(kPlain);
  for (int turns = 1; turns <= 6; turns++) {
    const PreparedPrompt now = prompt(plain, chat_of(turns, true));
    const PreparedPrompt next = prompt(plain, chat_of(turns + 1, true));
    EXPECT_EQ(now.turn_ends.size(), static_cast<std::size_t>(2 * turns));
    expect_turn_ends(now, {"<|im_end|>"});
    EXPECT_EQ(now.history_boundary, now.turn_ends.back());
    EXPECT_GT(common(now, next), now.history_boundary);
  }
}

TEST_F(PromptWriterTest, StrippedReasoning) {
  const PromptWriter strips = writer(kStripsReasoning);
  for (int turns = 1; turns <= 6; turns++) {
    const PreparedPrompt now = prompt(strips, chat_of(turns, false));
    const PreparedPrompt next = prompt(strips, chat_of(turns + 1, false));
    expect_turn_ends(now, {"<|im_end|>"});
    EXPECT_EQ(now.turn_ends.size(), static_cast<std::size_t>(2 * turns - 1));
    EXPECT_EQ(now.history_boundary, now.turn_ends.back());
    EXPECT_GE(common(now, next), now.history_boundary);
  }
}

TEST_F(PromptWriterTest, ScaffoldsOfTheGenerationPrompt) {
  const PromptWriter scaffold = writer(kScaffold);
  for (int turns = 1; turns <= 4; turns++) {
    const PreparedPrompt now = prompt(scaffold, chat_of(turns, false));
    Chat chat = chat_of(turns, false);
    chat.push_back({"assistant", "short"});
    chat.push_back({"user", "more"});
    const PreparedPrompt next = prompt(scaffold, chat);
    // The next turn leaves the prompt inside the scaffold, behind the boundary.
    EXPECT_LT(common(now, next), static_cast<Position>(now.ids.size()));
    EXPECT_GE(common(now, next), now.history_boundary);
    EXPECT_EQ(now.history_boundary, now.turn_ends.back());
    EXPECT_EQ(spelling_before(now, now.history_boundary), "<|im_end|>");
  }
}

// Here the newest question is not where the next turn agrees; the end of the reply before it is.
TEST_F(PromptWriterTest, RewrittenTurns) {
  const PromptWriter moves = writer(kMovesSystem);
  for (int turns = 1; turns <= 6; turns++) {
    const PreparedPrompt now = prompt(moves, chat_of(turns, true));
    const PreparedPrompt next = prompt(moves, chat_of(turns + 1, true));
    expect_turn_ends(now, {"</s>"});
    EXPECT_EQ(now.turn_ends.size(), static_cast<std::size_t>(turns - 1));
    EXPECT_EQ(spelling_before(now, now.history_boundary), "[/INST]");
    const Position agreed = common(now, next);
    EXPECT_LT(agreed, now.history_boundary);
    if (turns > 1) {
      EXPECT_LE(now.turn_ends.back(), agreed);
      EXPECT_LE(agreed - now.turn_ends.back(), 2);  // [INST], then they differ
    }
  }
}

TEST_F(PromptWriterTest, WithoutSpecialTokens) {
  const PromptWriter plain = writer(kNoSpecials);
  const PreparedPrompt now = prompt(plain, chat_of(3, true));
  const PreparedPrompt next = prompt(plain, chat_of(4, true));
  EXPECT_TRUE(now.turn_ends.empty());
  EXPECT_GT(now.history_boundary, 8);
  EXPECT_LT(now.history_boundary, static_cast<Position>(now.ids.size()));
  EXPECT_GE(common(now, next), now.history_boundary);
}

TEST_F(PromptWriterTest, AHistoryThatCannotBeRendered) {
  const PreparedPrompt now = prompt(writer(kNeedsGeneration), chat_of(2, false));
  EXPECT_EQ(now.history_boundary, 0);
  EXPECT_EQ(now.turn_ends.size(), 3U);
  expect_turn_ends(now, {"<|im_end|>"});
}

TEST_F(PromptWriterTest, OnlyTheNewestTurnEnds) {
  const PromptWriter plain = writer(kPlain);
  const PreparedPrompt now = prompt(plain, chat_of(60, false));
  ASSERT_EQ(now.turn_ends.size(), kTurnEndsMax);
  EXPECT_TRUE(std::ranges::is_sorted(now.turn_ends));
  EXPECT_EQ(now.turn_ends.back(), now.history_boundary);
  const auto ends = std::ranges::count(now.ids, *tokenizer_.find("<|im_end|>"));
  EXPECT_EQ(ends, 119);
}

TEST_F(PromptWriterTest, TextsAndIdsHaveTurnEndsToo) {
  const PromptWriter plain = writer(kPlain);
  const Result<PreparedPrompt> text = plain.prepare_text("one<|im_end|>two<|eom_id|>three");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->history_boundary, 0);
  ASSERT_EQ(text->turn_ends.size(), 2U);
  expect_turn_ends(*text, {"<|im_end|>", "<|eom_id|>"});
  EXPECT_EQ(plain.turn_ends(text->ids), text->turn_ends);
  // In front such a token is a bos, as some families use it.
  const TokenId end = *tokenizer_.find("<|im_end|>");
  EXPECT_EQ(plain.turn_ends(std::vector<TokenId>{end, 9, end}), (std::vector<Position>{3}));
  EXPECT_TRUE(plain.turn_ends({}).empty());
}

// ---- the families' templates, ours and the published ones ---------------------------------------

struct FamilyCase {
  std::string source;
  std::vector<std::string> ends;
  int messages_before_first = 0;  // ends that every prompt has before the first question's
};

class FamilyTemplates : public PromptWriterTest {
 protected:
  void expect_marks(const std::string& name, const FamilyCase& family, bool has_system) const {
    SCOPED_TRACE(name + (has_system ? " with system" : ""));
    const PromptWriter of_family = writer(family.source);
    PreparedPrompt now = prompt(of_family, chat_of(1, has_system));
    for (int turns = 1; turns <= 5; turns++) {
      const PreparedPrompt next = prompt(of_family, chat_of(turns + 1, has_system));
      expect_turn_ends(now, family.ends);
      ASSERT_FALSE(now.turn_ends.empty());
      // One more question and one more answer: two more ends.
      EXPECT_EQ(next.turn_ends.size(), now.turn_ends.size() + 2);
      EXPECT_EQ(now.history_boundary, now.turn_ends.back()) << turns;
      EXPECT_LT(now.history_boundary, static_cast<Position>(now.ids.size()));
      EXPECT_GE(common(now, next), now.history_boundary) << turns;
      now = next;
    }
  }
};

TEST_F(FamilyTemplates, Ours) {
  const std::map<std::string, std::vector<std::string>> ends = {
      {"gemma3", {"<end_of_turn>"}}, {"llama4", {"<|eot|>"}}, {"afmoe", {"<|im_end|>"}}};
  for (const auto& [family, spellings] : ends) {
    for (const bool has_system : {false, true}) {
      expect_marks(family, {std::string(builtin_chat_template(family)), spellings}, has_system);
    }
  }
}

TEST_F(FamilyTemplates, Published) {
  const char* folder = std::getenv("REPRISE_TEMPLATES");
  if (folder == nullptr) GTEST_SKIP() << "REPRISE_TEMPLATES names no folder of fetch_templates";
  const std::map<std::string, std::vector<std::string>> ends = {
      {"gemma4", {"<turn|>"}},      {"llama3.1", {"<|eot_id|>"}}, {"llama3.2", {"<|eot_id|>"}},
      {"llama4", {"<|eot|>"}},      {"qwen2.5", {"<|im_end|>"}},  {"qwen3", {"<|im_end|>"}},
      {"muse_glimmer", {"<|eot|>"}}};
  for (const auto& [name, spellings] : ends) {
    const auto source = read_file(std::string(folder) + "/" + name + ".jinja", 1 << 20);
    ASSERT_TRUE(source) << source.error().message;
    for (const bool has_system : {false, true}) {
      expect_marks(name, {std::string(*source), spellings}, has_system);
    }
  }
}

}  // namespace
}  // namespace reprise
