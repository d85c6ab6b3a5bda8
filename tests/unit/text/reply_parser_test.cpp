// Reply parsers, hermes above all: thoughts, calls, what comes back as text, and streaming.
#include "text/reply_parser.h"

#include <gtest/gtest.h>

#include "support/reply_reading.h"

namespace reprise::test {
namespace {

using reprise::testing::read_reply;
using reprise::testing::WholeReply;

const ReplyParserOptions kTools = {.has_tools = true, .tool_names = {"get", "f.g"}};

WholeReply read(std::string text, const ReplyParserOptions& options = kTools,
                ReplyFormat format = ReplyFormat::hermes) {
  return read_reply(format, options, {{.text = std::move(text)}});
}

std::string call_text(std::string_view inside) {
  return "<tool_call>\n" + std::string(inside) + "\n</tool_call>";
}

// What is no call is content, character for character.
void expect_text(const std::string& text, const ReplyParserOptions& options = kTools,
                 ReplyFormat format = ReplyFormat::hermes) {
  EXPECT_EQ(read(text, options, format), (WholeReply{.content = text})) << text;
}

TEST(ReplyParser, PlainTextIsPlain) {
  for (const auto format : {ReplyFormat::plain, ReplyFormat::hermes, ReplyFormat::llama3,
                            ReplyFormat::llama4, ReplyFormat::gemma4, ReplyFormat::muse}) {
    for (const ReplyParserOptions& options : {kTools, ReplyParserOptions{}}) {
      for (const char* text :
           {"", " ", "\n\nHello  \n", "a < b << c <", "<tool", "to be", " to", "{\"a\": 1}",
            "[1, 2]", "<b>x</b>\t", "{", "[get", "[get(", "{\"name\": \"get\"", "<|python",
            "nai\xCC\x88ve \xF0\x9F\x98\x80"}) {
        expect_text(text, options, format);
      }
    }
  }
}

TEST(ReplyParser, ThoughtsComeFirst) {
  const WholeReply both{.content = "Yes. </think>", .reasoning = "So?\n\nSo."};
  EXPECT_EQ(read("<think>\nSo?\n\nSo.\n</think>\n\nYes. </think>"), both);
  EXPECT_EQ(read("\n<think>So?\n\nSo.</think>Yes. </think>", {}), both);
  EXPECT_EQ(read("\nSo?\n\nSo.\n</think>\nYes. </think>", {.in_reasoning = true}), both);
  EXPECT_EQ(read("<think>\nSo?\n\nSo.\n</think>\nYes. </think>", {.in_reasoning = true}), both);
  EXPECT_EQ(read("<think>\n\n</think>\n\nYes"), (WholeReply{.content = "Yes"}));
  EXPECT_EQ(read("<think>\ncut off\n"), (WholeReply{.reasoning = "cut off\n"}));
  EXPECT_EQ(read("<think>a <think> b <tool_call></think>"),
            (WholeReply{.reasoning = "a <think> b <tool_call>"}));
  expect_text("Then <think>x</think>");
}

TEST(ReplyParser, CallsOfKnownFunctions) {
  const WholeReply one{.calls = {{"get", R"({"a": [1, "}"]})"}}};
  EXPECT_EQ(read(call_text(R"({"name": "get", "arguments": {"a": [1, "}"]}})")), one);
  EXPECT_EQ(read(R"(<tool_call>{"arguments": {"a": [1, "}"]}, "name":"g\u0065t"} )"), one);
  EXPECT_EQ(read("\n\n" +
                 call_text(R"({"type":"function","id":"x","name":"get","parameters":)"
                           R"({"a": [1, "}"]}})") +
                 "\n"),
            one);
  EXPECT_EQ(read(call_text(R"({"name": "f.g"})")), (WholeReply{.calls = {{"f.g", "{}"}}}));
}

TEST(ReplyParser, TextStandsBesideCalls) {
  const std::string call = call_text(R"({"name": "get", "arguments": {}})");
  const WholeReply::Call get{"get", "{}"};
  EXPECT_EQ(read("Look: \n" + call), (WholeReply{.content = "Look: ", .calls = {get}}));
  EXPECT_EQ(read("Look\n\n" + call + "\n" + call + call + "\n"),
            (WholeReply{.content = "Look\n", .calls = {get, get, get}}));
  EXPECT_EQ(read("<think>\nhm\n</think>\n\n" + call),
            (WholeReply{.reasoning = "hm", .calls = {get}}));
  EXPECT_EQ(read(call + "\nafter " + call),
            (WholeReply{.content = "\nafter ", .calls = {get, get}}));
}

TEST(ReplyParser, WhatIsNoCallComesBackAsText) {
  for (const char* inside : {
           "",
           "get",
           "{}",
           "[]",
           R"({"name": "unknown", "arguments": {}})",
           R"({"name": 7, "arguments": {}})",
           R"({"name": "get", "arguments": {"a": tru}})",
           R"({"name": "get", "arguments": {"a": 01}})",
           R"({"name": "get", "arguments": {"a": 1,}})",
           R"({"name": "get", "arguments": {"a": "\ud800"}})",
           R"({"name": "get", "arguments": [1]})",
           R"({"name": "get", "arguments": {}, "more": 1})",
           R"({"name": "get", "name": "get", "arguments": {}})",
           R"({"name": "get", "arguments": {}, "parameters": {}})",
           R"({"name": "get", "arguments": {"a": "cut)",
           R"({"name": "get", "arguments": {"a": <b>}})",
       }) {
    expect_text("Well " + call_text(inside) + " then");
  }
  expect_text(call_text(R"({"name": "get", "arguments": {}})"), {});  // no tools at all
  expect_text("a </tool_call> b <tool_call>");
  // A call behind text that only looked like one.
  EXPECT_EQ(read("<tool_call>oops" + call_text(R"({"name": "get", "arguments": {}})")),
            (WholeReply{.content = "<tool_call>oops", .calls = {{"get", "{}"}}}));
  EXPECT_EQ(read("<tool_call><tool_call>{\"name\": \"get\"}"),
            (WholeReply{.content = "<tool_call>", .calls = {{"get", "{}"}}}));
}

TEST(ReplyParser, ConstrainedArgumentsGoOutAsTheyArrive) {
  ReplyParserOptions options = kTools;
  options.calls_are_constrained = true;
  const auto parser = make_reply_parser(ReplyFormat::hermes, options);
  std::vector<ReplyPart> parts;
  parser->push(R"(<tool_call> {"name": "get", "arguments": )", parts);
  EXPECT_TRUE(parts.empty());
  parser->push(R"({"a": "x)", parts);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].kind, ReplyPart::Kind::tool_name);
  EXPECT_EQ(parts[0].text, "get");
  EXPECT_EQ(parts[1].text, R"({"a": "x)");
  parts.clear();
  parser->push("yz", parts);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].kind, ReplyPart::Kind::tool_arguments);
  EXPECT_EQ(parts[0].text, "yz");

  // What breaks such a call off ends it where it stands.
  EXPECT_EQ(read(R"(<tool_call>{"name": "get", "arguments": {"a": 1)", options),
            (WholeReply{.calls = {{"get", R"({"a": 1)"}}}));
  EXPECT_EQ(read(R"(<tool_call>{"name": "get", "arguments": {"a": x} end)", options),
            (WholeReply{.content = "x} end", .calls = {{"get", R"({"a": )"}}}));
  EXPECT_EQ(read(call_text(R"({"name": "other", "arguments": {"a": 1}})"), options),
            (WholeReply{.content = call_text(R"({"name": "other", "arguments": {"a": 1}})")}));
}

TEST(ReplyParser, SpecialTokensAreMarkersOrNothing) {
  const auto special = [](std::string text) {
    return reprise::testing::ReplyPiece{.text = std::move(text), .is_special = true};
  };
  EXPECT_EQ(read_reply(ReplyFormat::hermes, kTools,
                       {special("<think>"),
                        {.text = "hm"},
                        special("</think>"),
                        {.text = "Yes"},
                        special("<|im_sep|>"),
                        special("</think>"),
                        special("<tool_call>"),
                        {.text = R"({"name": "get", "arguments": {}})"},
                        special("</tool_call>"),
                        special("<|im_end|>")}),
            (WholeReply{.content = "Yes", .reasoning = "hm", .calls = {{"get", "{}"}}}));
  EXPECT_EQ(read_reply(ReplyFormat::hermes, kTools,
                       {special("<tool_call>"),
                        {.text = R"({"name": ")"},
                        special("<tool_call>"),
                        {.text = R"({"name": "get"})"}}),
            (WholeReply{.content = R"(<tool_call>{"name": ")", .calls = {{"get", "{}"}}}));
  EXPECT_EQ(read_reply(ReplyFormat::plain, {}, {special("<x>"), {.text = "<y>"}}),
            (WholeReply{.content = "<y>"}));
}

TEST(ReplyParser, HostileNestingIsTextInLinearTime) {
  const std::string deep(100'000, '[');
  for (const bool constrained : {false, true}) {
    ReplyParserOptions options = kTools;
    options.calls_are_constrained = constrained;
    const std::string start = R"(<tool_call>{"name": "get", "arguments": {"a": )";
    const WholeReply reply = read(start + deep, options);
    EXPECT_EQ(reply.calls.size(), constrained ? 1U : 0U);
    std::string all = constrained ? R"(<tool_call>{"name": "get", "arguments": )" : "";
    if (constrained) all += reply.calls[0].arguments;
    EXPECT_EQ(all + reply.content, start + deep);
  }
  std::string markers;
  for (int count = 0; count < 100'000; ++count) markers += "<tool_call>{\"name\": \"get\", \"argum";
  expect_text(markers);
  expect_text(std::string(1'000'000, '<'));
  expect_text(std::string(1'000'000, '\n') + "x");
}

TEST(ReplyParser, ThePromptsEndMayOpenThoughts) {
  EXPECT_TRUE(opens_reasoning(ReplyFormat::hermes, "<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(opens_reasoning(ReplyFormat::hermes, "assistant\n<think>\n\n</think>\n\n"));
  EXPECT_TRUE(opens_reasoning(ReplyFormat::gemma4, "<|turn>model\n<|channel>thought\n"));
  EXPECT_FALSE(opens_reasoning(ReplyFormat::gemma4, "model\n<|channel>thought\n<channel|>"));
  EXPECT_TRUE(opens_reasoning(ReplyFormat::muse, "<|start|>assistant to=self<|message|>"));
  EXPECT_FALSE(opens_reasoning(ReplyFormat::muse, "<|start|>assistant"));
  EXPECT_FALSE(opens_reasoning(ReplyFormat::plain, "<think>"));
  EXPECT_FALSE(opens_reasoning(ReplyFormat::llama3, ""));
}

}  // namespace
}  // namespace reprise::test
