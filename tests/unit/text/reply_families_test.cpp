// Replies of Llama 3 and 4, Gemma 4 and Muse Glimmer, as text and with special tokens.
#include <gtest/gtest.h>

#include "support/reply_reading.h"
#include "text/reply_parser.h"

namespace reprise::test {
namespace {

using reprise::testing::read_reply;
using reprise::testing::WholeReply;
using reprise::testing::with_specials;

const ReplyParserOptions kTools = {.has_tools = true, .tool_names = {"get", "f.g"}};

const std::vector<std::string_view> kSpecials = {
    "<|python_tag|>", "<|python_start|>", "<|python_end|>", "<|eot_id|>", "<|tool_call>",
    "<tool_call|>",   "<|\"|>",           "<|channel>",     "<channel|>", "<|start|>",
    "<|message|>",    "<|eom|>",          "<|eot|>",        "<|turn>",    "<turn|>"};

// As text and with special tokens the same.
void expect_read(ReplyFormat format, std::string_view text, const WholeReply& expected,
                 const ReplyParserOptions& options = kTools) {
  EXPECT_EQ(read_reply(format, options, {{.text = std::string(text)}}), expected) << text;
  EXPECT_EQ(read_reply(format, options, with_specials(text, kSpecials)), expected) << text;
}

void expect_text(ReplyFormat format, const std::string& text) {
  EXPECT_EQ(read_reply(format, kTools, {{.text = text}}), (WholeReply{.content = text})) << text;
}

TEST(ReplyFamilies, Llama3) {
  using enum ReplyFormat;
  const WholeReply one{.calls = {{"get", R"({"a": 1})"}}};
  expect_read(llama3, R"({"name": "get", "parameters": {"a": 1}})", one);
  expect_read(llama3,
              "\n<|python_tag|>"
              R"({"type": "function", "name": "get", "parameters": {"a": 1}})",
              one);
  expect_read(llama3,
              R"({"name": "get", "parameters": {"a": 1}}; {"name": "f.g", "parameters": {}})",
              {.calls = {{"get", R"({"a": 1})"}, {"f.g", "{}"}}});
  expect_read(llama3, R"({"name": "get", "parameters": {"a": 1}} it is)",
              {.content = " it is", .calls = one.calls});
  expect_read(llama3, R"({"name": "get", "parameters": {"a": 1}}; it is)",
              {.content = "; it is", .calls = one.calls});
  expect_text(llama3, R"({"name": "get"})");  // an answer in JSON
  expect_text(llama3, R"({"name": "Ann", "parameters": {}})");
  expect_text(llama3, R"(Call {"name": "get", "parameters": {}})");
  expect_text(llama3, R"(<|python_tag|>get.call(a="1"))");
  expect_text(llama3, R"({"name": "x"} {"name": "get", "parameters": {}})");
  EXPECT_EQ(read_reply(llama3, kTools,
                       {{.text = "<|python_tag|>", .is_special = true}, {.text = "print(1)"}}),
            (WholeReply{.content = "print(1)"}));
}

TEST(ReplyFamilies, Llama4) {
  using enum ReplyFormat;
  expect_read(
      llama4, "[get(a=1, b='x\"\\n', c=[True, None, {'k': -2.5e3}], d={})]",
      {.calls = {{"get", R"({"a": 1, "b": "x\"\n", "c": [true, null, {"k": -2.5e3}], "d": {}})"}}});
  expect_read(llama4,
              "<|python_start|>[get(), f.g(x=\"\\u00e9\\x41\\U0001F600\\q\")]<|python_end|>",
              {.calls = {{"get", "{}"}, {"f.g", R"({"x": "\u00e9\u0041\ud83d\ude00\\q"})"}}});
  // What templates write; the markers are special tokens there.
  EXPECT_EQ(read_reply(
                llama4, kTools,
                with_specials(
                    "<|python_start|>I look.<|python_end|>"
                    R"({"name": "get", "parameters": {"a": "b"}}{"name": "get", "parameters": {}})",
                    kSpecials)),
            (WholeReply{.content = "I look.", .calls = {{"get", R"({"a": "b"})"}, {"get", "{}"}}}));
  expect_read(llama4, "[get(a=1)] done", {.content = " done", .calls = {{"get", R"({"a": 1})"}}});
  expect_read(llama4, "[get(a=1), no(b=2)]",
              {.content = ", no(b=2)]", .calls = {{"get", R"({"a": 1})"}}});
  for (const char* text :
       {"[get(a=)]", "[get(1)]", "[get(a=1 b=2)]", "[get(a=x)]", "[no()]", "[get(a='\\xZZ')]",
        "[get(a={1: 2})]", "[get(a=1", "[get(a=(1, 2))]", "x [get()]", "[get(a=[1})]"}) {
    expect_text(llama4, text);
  }
  EXPECT_TRUE(
      read_reply(llama4, kTools, {{.text = "[get(a=" + std::string(100'000, '[')}}).calls.empty());
}

TEST(ReplyFamilies, Gemma4) {
  using enum ReplyFormat;
  const std::string call =
      R"(<|tool_call>call:get{city:<|"|>K "x" \<|<|"|>,n:-3.5,ok:true,no:None,)"
      R"(l:[1,{a:<|"|><|"|>}],<|"|>q k<|"|>:"j\"s"}<tool_call|>)";
  const WholeReply::Call get{"get",
                             R"({"city": "K \"x\" \\<|", "n": -3.5, "ok": true, "no": null, )"
                             R"("l": [1, {"a": ""}], "q k": "j\"s"})"};
  expect_read(gemma4, call, {.calls = {get}});
  expect_read(gemma4, call + "<|tool_call>call:f.g{}<tool_call|>", {.calls = {get, {"f.g", "{}"}}});
  expect_read(gemma4, "<|channel>thought\nhm\n<channel|>Yes\n" + call,
              {.content = "Yes", .reasoning = "hm", .calls = {get}});
  expect_read(gemma4, "<|channel>thought\n<channel|>Yes", {.content = "Yes"});
  expect_read(gemma4, "hm\n<channel|>Yes", {.content = "Yes", .reasoning = "hm"},
              {.in_reasoning = true});
  for (const char* text :
       {"<|tool_call>call:no{}<tool_call|>", "<|tool_call>call:get{a:b}<tool_call|>",
        "<|tool_call>get{}", "<|tool_call>call:get{a:<|\"|>cut", "<|tool_call>call:get{a:[1}}",
        "<|tool_call>call:get{,}", "<|channel>final\nx"}) {
    expect_text(gemma4, text);
  }
  // Special tokens that mean nothing here are nothing.
  EXPECT_EQ(read_reply(gemma4, {},
                       with_specials("a<|tool_call>call:get{}<tool_call|><turn|>", kSpecials)),
            (WholeReply{.content = "acall:get{}"}));
  EXPECT_EQ(
      read_reply(gemma4, kTools,
                 with_specials("<|tool_call>call:get{a:<|\"|>x<|tool_call>call:get{}<tool_call|>",
                               kSpecials)),
      (WholeReply{.content = "<|tool_call>call:get{a:<|\"|>x", .calls = {{"get", "{}"}}}));
  const std::string misplaced = "<|tool_call>call:get{a<|\"|>b<|\"|>}<tool_call|>";
  EXPECT_EQ(read_reply(gemma4, kTools, with_specials(misplaced, kSpecials)),
            (WholeReply{.content = "<|tool_call>call:get{a<|\"|>b}"}));
}

TEST(ReplyFamilies, Muse) {
  using enum ReplyFormat;
  const std::string call =
      "<atem:function_calls>\n<atem:invoke name=\"get\">\n"
      "<atem:parameter name=\"city\">K <b>\"\n</atem:parameter>\n"
      "<atem:parameter name=\"n\">5</atem:parameter>\n"
      "</atem:invoke>\n</atem:function_calls>";
  const WholeReply::Call get{"get", R"({"city": "K <b>\"\n", "n": 5})"};
  expect_read(muse, " to=user<|message|>Hi <x>\n<|eot|>", {.content = "Hi <x>\n"});
  expect_read(muse, " to=self<|message|>hm\n<|eom|><|start|>assistant to=user<|message|>Yes",
              {.content = "Yes", .reasoning = "hm\n"});
  expect_read(muse,
              " to=self<|message|>hm<|eom|><|start|>assistant to=get<|message|>" + call +
                  "<|eom|><|start|>assistant to=get<|message|>" + call + "<|eot|>",
              {.reasoning = "hm", .calls = {get, get}});
  expect_read(muse,
              " to=get<|message|><atem:function_calls><atem:invoke name=\"f.g\"></atem:invoke>"
              "<atem:invoke name=\"get\"></atem:invoke></atem:function_calls>",
              {.calls = {{"f.g", "{}"}, {"get", "{}"}}});
  expect_read(muse, "hm<|eom|><|start|>assistant to=user<|message|>Yes",
              {.content = "Yes", .reasoning = "hm"}, {.in_reasoning = true});
  expect_read(muse, " to=us", {});  // cut off
  expect_read(muse, " to=self<|message|>a<|eom|><|start|>assi", {.reasoning = "a"});
  expect_text(muse, " to be <|message|> or <|start|> to.");
  expect_text(muse, "<atem:function_calls><atem:invoke name=\"no\"></atem:invoke>");
  expect_text(muse, "<atem:invoke name=\"get\"><atem:parameter name=\"a\">cut");
  expect_text(muse, "<atem:invoke name=\"get\">x</atem:invoke></atem:function_calls>");
}

TEST(ReplyFamilies, ArgumentsMayRepeatAName) {
  using enum ReplyFormat;
  const WholeReply call{.calls = {{"get", R"({"a": 1, "a": 2})"}}};
  expect_read(llama4, "[get(a=1, a=2)]", call);
  expect_read(gemma4, "<|tool_call>call:get{a:1,a:2}<tool_call|>", call);
}

TEST(ReplyFamilies, MuseTakesTypesFromTheSchema) {
  const auto schema = parse_json(R"({"properties": {
      "text": {"type": "string"}, "count": {"type": "integer"}, "ratio": {"type": "number"},
      "any": {}, "choice": {"enum": ["1", "2"]}, "level": {"enum": [1, 2]},
      "maybe": {"type": ["string", "null"]},
      "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
      "list": {"type": "array"}, "flag": {"type": "boolean"},
      "id": {"$ref": "#/$defs/Id"}, "both": {"allOf": [{"$ref": "#/$defs/Id"}, {}]},
      "loop": {"$ref": "#/$defs/Loop"}, "some": {"anyOf": [{"enum": ["1"]}, {"type": "integer"}]}},
      "additionalProperties": {"type": ["string", "integer"]},
      "$defs": {"Id": {"type": "string"}, "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"},
      {"$ref": "#/$defs/Loop"}]}}})");
  ASSERT_TRUE(schema.has_value());
  ReplyParserOptions options = kTools;
  options.tool_parameters = {schema->as_object(), {}};
  const auto typed = [&](std::string_view name, std::string_view value) {
    const std::string text = "<atem:invoke name=\"get\"><atem:parameter name=\"" +
                             std::string(name) + "\">" + std::string(value) +
                             "</atem:parameter></atem:invoke>";
    const WholeReply reply = read_reply(ReplyFormat::muse, options, {{.text = text}});
    return reply.calls.size() == 1 ? reply.calls[0].arguments : reply.content;
  };
  EXPECT_EQ(typed("text", "5"), R"({"text": "5"})");
  EXPECT_EQ(typed("text", "true"), R"({"text": "true"})");
  EXPECT_EQ(typed("text", "\"x\""), R"({"text": "\"x\""})");
  EXPECT_EQ(typed("text", ""), R"({"text": ""})");
  EXPECT_EQ(typed("count", "5"), R"({"count": 5})");
  EXPECT_EQ(typed("count", "five"), R"({"count": "five"})");
  EXPECT_EQ(typed("ratio", "5"), R"({"ratio": 5})");
  EXPECT_EQ(typed("any", "5"), R"({"any": 5})");
  EXPECT_EQ(typed("any", "[1, 2]"), R"({"any": [1, 2]})");
  EXPECT_EQ(typed("any", "[1, 2"), R"({"any": "[1, 2"})");
  EXPECT_EQ(typed("choice", "1"), R"({"choice": "1"})");
  EXPECT_EQ(typed("level", "1"), R"({"level": 1})");
  EXPECT_EQ(typed("maybe", "null"), R"({"maybe": null})");
  EXPECT_EQ(typed("maybe", "1"), R"({"maybe": "1"})");
  EXPECT_EQ(typed("either", "1"), R"({"either": "1"})");
  EXPECT_EQ(typed("list", "[{\"a\": []}]"), R"({"list": [{"a": []}]})");
  EXPECT_EQ(typed("id", "123"), R"({"id": "123"})");
  EXPECT_EQ(typed("both", "123"), R"({"both": "123"})");
  EXPECT_EQ(typed("loop", "123"), R"({"loop": 123})");
  EXPECT_EQ(typed("some", "1"), R"({"some": "1"})");
  EXPECT_EQ(typed("some", "2"), R"({"some": 2})");
  EXPECT_EQ(typed("other", "true"), R"({"other": "true"})");
  EXPECT_EQ(typed("flag", "false"), R"({"flag": false})");
}

}  // namespace
}  // namespace reprise::test
