// Replies that are cut off at any byte, as max_tokens does, and those that go on with a text: what
// is a call, what stays text, and that the beginning of a closing mark is neither.
#include <gtest/gtest.h>

#include "support/reply_reading.h"
#include "text/reply_parser.h"

namespace reprise::test {
namespace {

using reprise::testing::cut_pieces;
using reprise::testing::read_reply;
using reprise::testing::WholeReply;

ReplyParserOptions tools(bool are_constrained) {
  return {.has_tools = true, .tool_names = {"get"}, .calls_are_constrained = are_constrained};
}

// The same read at once and in small pieces.
WholeReply read(ReplyFormat format, const std::string& text, const ReplyParserOptions& options) {
  const WholeReply whole = read_reply(format, options, {{.text = text}});
  for (const std::size_t size : {1, 3}) {
    EXPECT_EQ(read_reply(format, options, cut_pieces({{.text = text}}, size)), whole) << text;
  }
  return whole;
}

struct Closing {
  ReplyFormat format;
  std::string call;   // whole as far as the call is
  std::string close;  // what may follow it
};

const WholeReply::Call kGet{"get", R"({"a": 1})"};

std::vector<Closing> closings() {
  using enum ReplyFormat;
  return {{hermes, "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": 1}}", "\n</tool_call>"},
          {hermes, "<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": 1}}", "</tool_call>\n"},
          {llama3, R"({"name": "get", "parameters": {"a": 1}})", "; \n"},
          {llama4, R"({"name": "get", "parameters": {"a": 1}})", "<|python_end|>"},
          {llama4, "<|python_start|>[get(a=1)", "]<|python_end|>"},
          {gemma4, "<|tool_call>call:get{a:1}", "<tool_call|>"},
          {muse,
           "<atem:function_calls>\n<atem:invoke name=\"get\">\n"
           "<atem:parameter name=\"a\">1</atem:parameter>\n</atem:invoke>",
           "\n</atem:function_calls>"}};
}

TEST(ReplyCuts, NothingOfAClosingMarkIsText) {
  for (const Closing& one : closings()) {
    for (const bool are_constrained : {false, true}) {
      for (std::size_t cut = 0; cut <= one.close.size(); cut++) {
        const std::string text = one.call + one.close.substr(0, cut);
        EXPECT_EQ(read(one.format, text, tools(are_constrained)), (WholeReply{.calls = {kGet}}))
            << text;
      }
    }
  }
}

TEST(ReplyCuts, NorBehindTextAndOtherCalls) {
  for (const Closing& one : closings()) {
    const bool stands_alone = one.call.front() != '<' || one.format == ReplyFormat::llama4;
    if (stands_alone) continue;
    const std::string before = "I look.\n" + one.call + one.close + "\n" + one.call;
    for (std::size_t cut = 0; cut <= one.close.size(); cut++) {
      const std::string text = before + one.close.substr(0, cut);
      EXPECT_EQ(read(one.format, text, tools(true)),
                (WholeReply{.content = "I look.", .calls = {kGet, kGet}}))
          << text;
    }
  }
}

// A call that is not whole is text, as far as it came.
TEST(ReplyCuts, WhatIsNoCallYetIsText) {
  for (const Closing& one : closings()) {
    for (std::size_t cut = 0; cut < one.call.size(); cut++) {
      const std::string text = one.call.substr(0, cut);
      EXPECT_EQ(read(one.format, text, tools(false)), (WholeReply{.content = text})) << text;
    }
  }
}

TEST(ReplyCuts, OtherMarksStayText) {
  using enum ReplyFormat;
  const std::string hermes_call = closings()[0].call, gemma_call = closings()[5].call;
  const std::string muse_call = closings()[6].call;
  struct Case {
    ReplyFormat format;
    std::string text, content;
    std::size_t calls = 1;
  };
  const std::vector<Case> cases = {
      // Opening marks, and what may be one once the call is closed.
      {hermes, hermes_call + "\n</tool_call>\n<tool_ca", "\n<tool_ca"},
      {hermes, hermes_call + "\n</tool_call>\n<", "\n<"},
      {hermes, hermes_call + "\n<tool_ca", "\n<tool_ca"},
      {gemma4, gemma_call + "<tool_call|><|tool", "<|tool"},
      {muse, muse_call + "\n</atem:function_calls><atem:inv", "<atem:inv"},
      // A closing mark that closes nothing.
      {hermes, "</tool_c", "</tool_c", 0},
      {hermes, "Look: </tool_call", "Look: </tool_call", 0},
      {hermes, hermes_call + "\n</tool_call>\nSo.</tool_", "\nSo.</tool_"},
      {hermes, hermes_call + "\n</tool_call>\n</tool_", "\n</tool_"},
      {hermes, hermes_call + " is it.</tool_call", " is it.</tool_call"},
      {gemma4, "x<tool_call", "x<tool_call", 0},
      // No mark at all.
      {hermes, hermes_call + "\n</tools", "\n</tools"},
      {muse, muse_call + "\n</atem:function_x", "\n</atem:function_x"},
  };
  for (const Case& one : cases) {
    const WholeReply reply = read(one.format, one.text, tools(false));
    EXPECT_EQ(reply.content, one.content) << one.text;
    EXPECT_EQ(reply.calls.size(), one.calls) << one.text;
  }
}

// ---- replies that may be calls only

TEST(ReplyCuts, WhereOnlyCallsMayComeNothingIsText) {
  using enum ReplyFormat;
  struct Case {
    ReplyFormat format;
    std::string reply;  // two calls, spelled as the grammars let them through
    std::string thoughts = {};
  };
  const std::string hermes_call =
      "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  const std::string muse_call = " to=get<|message|>" + closings()[6].call + closings()[6].close;
  const std::string next = "<|eom|><|start|>assistant";
  const std::vector<Case> cases = {
      {hermes, hermes_call + "\n" + hermes_call},
      {hermes, "<think>\nhm\n</think>\n\n" + hermes_call + "\n" + hermes_call, "hm"},
      {llama3, closings()[2].call + "; " + closings()[2].call},
      {llama3, "<|python_tag|>" + closings()[2].call + "; " + closings()[2].call},
      {llama4, closings()[3].call + closings()[3].call},
      {llama4, "[get(a=1), get(a=1)]"},
      {llama4, "<|python_start|>[get(a=1), get(a=1)]<|python_end|>"},
      {gemma4, closings()[5].call + "<tool_call|>" + closings()[5].call + "<tool_call|>"},
      {muse, muse_call + next + muse_call},
      {muse, " to=self<|message|>hm" + next + muse_call + next + muse_call, "hm"},
  };
  for (const Case& one : cases) {
    ReplyParserOptions options = tools(true);
    options.has_only_calls = true;
    EXPECT_EQ(read(one.format, one.reply, options),
              (WholeReply{.reasoning = one.thoughts, .calls = {kGet, kGet}}))
        << one.reply;
    for (std::size_t cut = 0; cut < one.reply.size(); cut++) {
      const std::string text = one.reply.substr(0, cut);
      const WholeReply reply = read(one.format, text, options);
      EXPECT_EQ(reply.content, "") << text;
      for (const WholeReply::Call& call : reply.calls) {
        EXPECT_EQ(call.name, "get") << text;
        EXPECT_TRUE(kGet.arguments.starts_with(call.arguments)) << text;
      }
      // The marks that are special tokens come as such, or not at all.
      const std::vector<std::string_view> marks = {
          "<tool_call>",    "</tool_call>", "<|python_tag|>", "<|python_start|>",
          "<|python_end|>", "<|tool_call>", "<tool_call|>",   "<|message|>",
          "<|eom|>",        "<|start|>",    "<think>",        "</think>"};
      const auto pieces = reprise::testing::with_specials(text, marks);
      EXPECT_EQ(read_reply(one.format, options, pieces).content, "") << text;
    }
  }
}

// ---- replies that go on with a text

TEST(ReplyCuts, InsideATextEverythingIsText) {
  for (const auto format : {ReplyFormat::plain, ReplyFormat::hermes, ReplyFormat::llama3,
                            ReplyFormat::llama4, ReplyFormat::gemma4, ReplyFormat::muse}) {
    for (const char* text : {"", " ", "\n\nlo there.\n", "\n", " to=self<|message|>x", " to=us",
                             "{\"name\": \"get\", \"parameters\": {\"a\": 1}}", "[get(a=1)]"}) {
      EXPECT_EQ(read(format, text, {.in_content = true}), (WholeReply{.content = text})) << text;
    }
  }
  const std::string thoughts = "<think>\nhm\n</think>\n\nYes";
  EXPECT_EQ(read(ReplyFormat::hermes, thoughts, {.in_content = true}),
            (WholeReply{.content = thoughts}));
}

TEST(ReplyCuts, CallsFollowTheText) {
  for (const Closing& one : closings()) {
    if (!calls_follow_text(one.format)) continue;
    ReplyParserOptions options = tools(true);
    options.in_content = true;
    EXPECT_EQ(read(one.format, "ok:\n" + one.call + one.close, options),
              (WholeReply{.content = "ok:", .calls = {kGet}}));
    EXPECT_EQ(read(one.format, one.call + one.close, options), (WholeReply{.calls = {kGet}}));
  }
  ReplyParserOptions options = tools(true);
  options.in_content = true;
  EXPECT_EQ(read(ReplyFormat::muse,
                 "lo.<|eom|><|start|>assistant to=get<|message|>" + closings()[6].call, options),
            (WholeReply{.content = "lo.", .calls = {kGet}}));
}

}  // namespace
}  // namespace reprise::test
