// Properties of all reply parsers on random replies: how the text is cut does not matter, a prefix
// of a reply gives a prefix of its parts, and what was written is not lost.
#include <random>

#include <gtest/gtest.h>

#include "support/reply_reading.h"
#include "support/rounds.h"
#include "text/reply_parser.h"

namespace reprise::test {
namespace {

using reprise::testing::cut_pieces;
using reprise::testing::read_reply;
using reprise::testing::ReplyPiece;
using reprise::testing::WholeReply;

constexpr ReplyFormat kFormats[] = {ReplyFormat::plain,  ReplyFormat::hermes, ReplyFormat::llama3,
                                    ReplyFormat::llama4, ReplyFormat::gemma4, ReplyFormat::muse};

// What replies are made of, well-formed and not.
constexpr std::string_view kFragments[] = {"<think>",
                                           "</think>",
                                           "<tool_call>",
                                           "</tool_call>",
                                           "<|python_tag|>",
                                           "<|python_start|>",
                                           "<|python_end|>",
                                           "<|tool_call>",
                                           "<tool_call|>",
                                           "<|channel>",
                                           "thought\n",
                                           "<channel|>",
                                           "<|start|>",
                                           "<|message|>",
                                           "<|eom|>",
                                           "<|eot|>",
                                           "<atem:function_calls>",
                                           "<atem:invoke ",
                                           "name=\"get\">",
                                           "<atem:parameter name=\"a\">",
                                           "</atem:parameter>",
                                           "</atem:invoke>",
                                           "</atem:function_calls>",
                                           " to=self",
                                           " to=user",
                                           "assistant",
                                           "{\"name\": \"get\", ",
                                           "\"arguments\": {\"a\": 1}}",
                                           "\"parameters\": {\"b\": \"x\"}}",
                                           "{\"name\": \"no\"",
                                           "[get(",
                                           "a=1",
                                           ")]",
                                           ", ",
                                           "call:get{",
                                           "a:",
                                           "<|\"|>",
                                           "}",
                                           "1",
                                           "x",
                                           " ",
                                           "\n",
                                           "\\",
                                           "\"",
                                           "'",
                                           "<",
                                           ";",
                                           "\xC3\xA9",
                                           "Hello there."};

constexpr std::string_view kWhole[] = {
    "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": [1, {\"b\": \"c\"}]}}\n</tool_call>",
    "{\"name\": \"get\", \"parameters\": {\"a\": -1.5e3}}",
    "[get(a='x', b=[True]), get()]",
    "<|tool_call>call:get{a:<|\"|>x<|\"|>,b:[1,{c:null}]}<tool_call|>",
    "<atem:function_calls>\n<atem:invoke name=\"get\">\n<atem:parameter "
    "name=\"a\">v</atem:parameter>\n</atem:invoke>\n</atem:function_calls>",
    "<think>\nthoughts\n</think>\n\n",
    "<|channel>thought\nthoughts\n<channel|>",
    " to=self<|message|>thoughts<|eom|><|start|>assistant to=user<|message|>"};

class ReplyProperties : public ::testing::Test {
 protected:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }

  std::vector<ReplyPiece> random_reply() {
    std::vector<ReplyPiece> pieces;
    const std::size_t count = 1 + below(12);
    for (std::size_t index = 0; index < count; ++index) {
      const bool is_whole = below(4) == 0;
      const std::string_view fragment =
          is_whole ? kWhole[below(std::size(kWhole))] : kFragments[below(std::size(kFragments))];
      const bool is_special = !is_whole && fragment.starts_with('<') && below(3) == 0;
      pieces.push_back({.text = std::string(fragment), .is_special = is_special});
    }
    return pieces;
  }

  ReplyParserOptions random_options() {
    return {.has_tools = below(4) != 0,
            .in_reasoning = below(5) == 0,
            .tool_names = {"get"},
            .calls_are_constrained = below(3) == 0,
            .has_only_calls = below(5) == 0};
  }

  static std::string show(const std::vector<ReplyPiece>& pieces) {
    std::string text;
    for (const ReplyPiece& piece : pieces) text += (piece.is_special ? "|S:" : "|") + piece.text;
    return text;
  }

  std::mt19937_64 random_{7};
};

// Neighbouring texts become one.
std::vector<ReplyPiece> joined(const std::vector<ReplyPiece>& pieces) {
  std::vector<ReplyPiece> result;
  for (const ReplyPiece& piece : pieces) {
    const bool joins = !result.empty() && !piece.is_special && !result.back().is_special;
    if (joins) {
      result.back().text += piece.text;
    } else {
      result.push_back(piece);
    }
  }
  return result;
}

TEST_F(ReplyProperties, CutsDoNotMatter) {
  std::size_t calls = 0, thoughts = 0;
  const int replies = rounds(20'000);
  for (int round = 0; round < replies; ++round) {
    const ReplyFormat format = kFormats[below(std::size(kFormats))];
    const ReplyParserOptions options = random_options();
    const std::vector<ReplyPiece> reply = joined(random_reply());
    const WholeReply whole = read_reply(format, options, reply);
    for (const std::size_t size : {1, 2, 3, 7}) {
      ASSERT_EQ(read_reply(format, options, cut_pieces(reply, size)), whole) << show(reply);
    }
    calls += whole.calls.size();
    thoughts += whole.reasoning.empty() ? 0 : 1;
  }
  EXPECT_GT(calls, static_cast<std::size_t>(replies / 40));
  EXPECT_GT(thoughts, static_cast<std::size_t>(replies / 40));
}

// The parts that are out when a reply has come so far are a prefix of those of the whole reply:
// nothing is taken back.
TEST_F(ReplyProperties, NothingIsTakenBack) {
  for (int round = 0; round < 3'000; ++round) {
    const ReplyFormat format = kFormats[below(std::size(kFormats))];
    const ReplyParserOptions options = random_options();
    const std::vector<ReplyPiece> reply = cut_pieces(joined(random_reply()), 1 + below(3));
    const WholeReply whole = read_reply(format, options, reply);
    const auto parser = make_reply_parser(format, options);
    WholeReply so_far;
    for (const ReplyPiece& piece : reply) {
      std::vector<ReplyPart> parts;
      if (piece.is_special) {
        parser->push_special(piece.text, parts);
      } else {
        parser->push(piece.text, parts);
      }
      so_far.add(parts);
      ASSERT_TRUE(whole.content.starts_with(so_far.content)) << show(reply);
      ASSERT_TRUE(whole.reasoning.starts_with(so_far.reasoning)) << show(reply);
      ASSERT_LE(so_far.calls.size(), whole.calls.size()) << show(reply);
      for (std::size_t index = 0; index < so_far.calls.size(); ++index) {
        ASSERT_EQ(so_far.calls[index].name, whole.calls[index].name);
        ASSERT_TRUE(whole.calls[index].arguments.starts_with(so_far.calls[index].arguments));
      }
    }
  }
}

// Arguments of calls that are not held to a grammar are always whole JSON objects.
TEST_F(ReplyProperties, CallsAreWellFormed) {
  const int replies = rounds(20'000);
  for (int round = 0; round < replies; ++round) {
    const ReplyFormat format = kFormats[below(std::size(kFormats))];
    ReplyParserOptions options = random_options();
    options.calls_are_constrained = false;
    const std::vector<ReplyPiece> reply = random_reply();
    for (const WholeReply::Call& call : read_reply(format, options, reply).calls) {
      ASSERT_TRUE(options.has_tools);
      ASSERT_EQ(call.name, "get");
      const auto arguments = parse_json(call.arguments);
      ASSERT_TRUE(arguments && arguments->is_object()) << call.arguments << "\n" << show(reply);
    }
  }
}

// Without thoughts and calls the content is the text; for hermes, where no marker vanishes alone.
TEST_F(ReplyProperties, TextIsNotLost) {
  int compared = 0;
  const int replies = rounds(20'000);
  for (int round = 0; round < replies; ++round) {
    const ReplyFormat format =
        below(2) == 0 ? ReplyFormat::hermes : kFormats[below(3)];  // plain, hermes, llama3
    std::string text;
    for (const ReplyPiece& piece : random_reply()) text += piece.text;
    ReplyParserOptions options = random_options();
    options.in_reasoning = false;
    options.has_only_calls = false;
    const WholeReply reply = read_reply(format, options, {{.text = text}});
    if (!reply.calls.empty() || text.find("<think>") != std::string::npos) continue;
    ASSERT_EQ(reply.content, text);
    ++compared;
  }
  EXPECT_GT(compared, replies / 4);
}

}  // namespace
}  // namespace reprise::test
