// Calls as grammars hold them: spelled as templates render them, strict functions to all of their
// schemas, and grammars no larger than they may be.
#include "text/call_grammar.h"

#include <cstdlib>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "grammar_support.h"
#include "text/bare_text.h"
#include "text/chat_template.h"
#include "text/tool_prompt.h"

namespace reprise::test {
namespace {

constexpr std::string_view kWeather = R"({"type": "object", "properties": {
    "unit": {"enum": ["c", "f", 1]}, "city": {"type": "string", "maxLength": 20},
    "Days": {"type": "integer", "minimum": 1, "maximum": 7},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}},
    "more": {"type": "object", "properties": {"q k": {"type": "boolean"},
    "n": {"type": "null"}}, "required": ["q k"], "additionalProperties": false},
    "set": {"const": {"z": [1, "a"], "b": {}}}}, "required": ["city", "more"],
    "additionalProperties": false})";
constexpr std::string_view kNumbers = R"({"type": "object", "properties": {
    "list": {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 9},
    "n": {"anyOf": [{"type": "number"}, {"type": "null"}]}, "set": {"const": {"z": [1.0, "a"]}},
    "more": {"type": "object", "properties": {"q k": {"type": "boolean"}, "x": {"type":
    ["number", "string"], "maxLength": 3}}, "required": ["q k", "x"]}},
    "required": ["list", "n"], "additionalProperties": false})";

class CallGrammar : public testing::Test {
 protected:
  std::string lark(ReplyFormat format, const ToolSpec& spec) {
    const auto made = tool_grammar({.format = format, .tokenizer = &tokenizer_},
                                   std::span(&spec, 1), ToolChoice::required, true);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return made.value_or("");
  }
  // Replies of several calls as messages, and as the text that was generated.
  std::vector<std::pair<std::string, ChatMessage>> replies(ReplyFormat format,
                                                           std::string_view schema = kWeather) {
    const std::vector<ToolSpec> specs = {{"get_weather", object_of(schema)}};
    std::mt19937 random(5);
    std::vector<std::pair<std::string, ChatMessage>> found;
    const std::string made = lark(format, specs[0]);
    for (int i = 0; i < 12; i++) {
      const auto ids = probe_.walk(made, random, 800);
      if (!ids) continue;
      std::string text;
      ChatMessage message{.role = "assistant"};
      for (const Call& call : calls_in(format, specs, tokenizer_, *ids, true, text)) {
        const auto arguments = parse_json(call.arguments, kCallLimits);
        EXPECT_TRUE(arguments.has_value()) << call.arguments;
        if (arguments) message.tool_calls.push_back({"id", call.name, arguments->as_object()});
      }
      EXPECT_EQ(text, "");
      found.emplace_back(probe_.text_of(*ids), std::move(message));
    }
    EXPECT_GE(found.size(), 4U);
    return found;
  }
  std::string refusal(ReplyFormat format, std::string_view schema, bool is_strict = true) {
    const ToolSpec spec{"f", object_of(schema), is_strict};
    const auto made = tool_grammar({.format = format, .tokenizer = &tokenizer_},
                                   std::span(&spec, 1), ToolChoice::required, true);
    return made ? std::string() : made.error().message;
  }

  Tokenizer tokenizer_ = tokenizer_with_marks(false);
  GrammarProbe probe_{tokenizer_, {1, 2}, 320};
};

TEST_F(CallGrammar, OurWordsRenderCallsAsTheyWereGenerated) {
  for (const std::string_view schema : {kWeather, kNumbers}) {
    for (const auto& [generated, message] : replies(ReplyFormat::hermes, schema)) {
      const auto rendered = messages_with_tools_as_text({message}, {});
      ASSERT_EQ(rendered.size(), 1U);
      EXPECT_EQ(rendered[0].content, generated);
    }
  }
}

TEST_F(CallGrammar, PublishedTemplatesRenderCallsAsTheyWereGenerated) {
  const char* folder = std::getenv("REPRISE_TEMPLATES");
  if (folder == nullptr) GTEST_SKIP() << "REPRISE_TEMPLATES names no folder of fetch_templates";
  const std::tuple<std::string, ReplyFormat, std::string> cases[] = {
      {"qwen2.5", ReplyFormat::hermes, "<|im_end|>\n"},
      {"qwen3", ReplyFormat::hermes, "<|im_end|>\n"},
      {"llama3.1", ReplyFormat::llama3, "<|eot_id|>"},
      {"gemma4", ReplyFormat::gemma4, "<|tool_response>"},
      {"muse_glimmer", ReplyFormat::muse, "<|eot|>"}};
  for (const auto& [name, format, end] : cases) {
    const auto source = read_file(std::string(folder) + "/" + name + ".jinja", 1 << 20);
    ASSERT_TRUE(source.has_value()) << name;
    const auto compiled = ChatTemplate::compile(*source);
    ASSERT_TRUE(compiled.has_value()) << name;
    int compared = 0;
    std::vector<std::pair<std::string, ChatMessage>> all = replies(format);
    if (format != ReplyFormat::muse)
      std::ranges::copy(replies(format, kNumbers), back_inserter(all));
    for (const auto& [generated, message] : all) {
      if (name == "llama3.1" && message.tool_calls.size() > 1) continue;  // it renders one only
      const auto whole = compiled->render({{.role = "user", .content = "q"}, message},
                                          {.add_generation_prompt = false, .now = 0});
      ASSERT_TRUE(whole.has_value()) << name << whole.error().message;
      EXPECT_TRUE(whole->ends_with(generated + end)) << name << "\n" << *whole << "\n" << generated;
      ++compared;
    }
    EXPECT_GE(compared, 2) << name;
  }
}

// 1.50 would come back as 1.5, and the text that the model wrote would not be in the prompt.
TEST_F(CallGrammar, NumbersHaveOneSpelling) {
  const ToolSpec spec{"f", object_of(R"({"properties": {"a": {"type": "number"}},
      "additionalProperties": true})")};
  const std::string json = lark(ReplyFormat::hermes, spec);
  const std::string gemma = lark(ReplyFormat::gemma4, spec);
  const std::string_view json_head = R"(<tool_call>
{"name": "f", "arguments": {"a": )";
  const std::string_view gemma_head = "<|tool_call>call:f{a:";
  for (const std::string_view number :
       {"0", "7", "-12", "0.0", "1.0", "-2.5", "0.0001", "0.000123", "120.01", "1e-05", "1.5e+16",
        "-3e+22", "12345678.1234567", "99999999999999.5"}) {
    EXPECT_EQ(probe_.after(json, fmt::format("{}{}}}", json_head, number)), "open") << number;
    EXPECT_EQ(probe_.after(gemma, fmt::format("{}{}}}", gemma_head, number)), "open") << number;
  }
  const std::pair<std::string_view, std::string_view> others[] = {
      {"1.50}", "1.50"},
      {"1e0", "1e"},
      {"-0}", "-0"},
      {"0.00001}", "0.0000"},
      {"1.00}", "1.00"},
      {"1e+15", "1e+1"},
      {"1e+30", "1e+"},
      {"007", "0"},
      {"1.123456789012345}", "1.12345678901234"},
      {"1E5", "1"}};
  for (const auto& [number, passed] : others) {
    const std::string let = probe_.after(json, std::string(json_head) + std::string(number));
    EXPECT_TRUE(let != "open" && let.size() <= json_head.size() + passed.size()) << let;
    const std::string other = probe_.after(gemma, std::string(gemma_head) + std::string(number));
    EXPECT_TRUE(other != "open" && other.size() <= gemma_head.size() + passed.size()) << other;
  }
  // Others than the listed ones may come as before, but none of them twice.
  EXPECT_EQ(probe_.after(json, std::string(json_head) + R"(1.5, "b": [2.5, {"c": null}]})"),
            "open");
  EXPECT_EQ(probe_.after(json, std::string(json_head) + R"(1.5, "a": )"),
            std::string(json_head) + R"(1.5, "a)");
}

TEST_F(CallGrammar, StrictFunctionsAreHeldToTheirSchemas) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"properties":{"a":{"type":"string","pattern":"b"}}})", "properties.a: pattern"},
      {R"({"properties":{"a":{"type":"string","format":"email"}}})", "properties.a: format"},
      {R"({"properties":{"a":{"type":"string","anyOf":[{"pattern":"^b$"}]}}})", "properties.a: "},
      {R"({"allOf":[{"properties":{"a":{}}}]})", "schema: allOf"},
      {R"({"anyOf":[{"properties":{"a":{}}}]})", "schema: anyOf"},
      {R"({"properties":{"a":{}},"required":["b"],"additionalProperties":false})",
       "schema: required"},
      {R"({"patternProperties":{"^a$":{}}})", "schema: patternProperties"},
      {R"({"properties":{"a":{},"b":{}},"minProperties":1})", "schema: minProperties"},
      {R"({"properties":{"a":{}},"additionalProperties":true,"maxProperties":1})",
       "schema: maxProperties"},
      {R"({"$ref":"#/$defs/d","$defs":{"d":{"type":"string"}}})", "#/$defs/d: type"},
      {R"({"properties":{"a":{"$ref":"#/$defs/d","maxLength":3}},"$defs":{"d":{"type":"string"}}})",
       "properties.a: "},
  };
  for (const ReplyFormat format : {ReplyFormat::gemma4, ReplyFormat::muse}) {
    for (const auto& [schema, place] : cases) {
      const std::string message = refusal(format, schema);
      EXPECT_TRUE(message.starts_with("function f: " + std::string(place))) << schema << message;
      EXPECT_EQ(refusal(format, schema, false), "") << schema;
    }
  }
  // Muse writes these as JSON, which llguidance holds.
  for (const std::string_view value :
       {R"({"type":"array","prefixItems":[{"type":"null"}]})",
        R"({"type":"object","properties":{"b":{}},"anyOf":[{"required":["b"]}]})",
        R"({"type":"object","minProperties":1,"additionalProperties":{"type":"null"}})"}) {
    const std::string schema = fmt::format(R"({{"properties":{{"a":{}}}}})", value);
    EXPECT_TRUE(refusal(ReplyFormat::gemma4, schema).starts_with("function f: properties.a: "));
    EXPECT_EQ(refusal(ReplyFormat::gemma4, schema, false), "");
    EXPECT_EQ(refusal(ReplyFormat::muse, schema), "");
    // And Llama 4 then has no Python, but JSON.
    const ToolSpec spec{"f", object_of(schema)};
    EXPECT_EQ(probe_.after(lark(ReplyFormat::llama4, spec), "[f("), "") << schema;
  }
}

// Whether a number needs rules of our own or not: nothing comes that the schema does not count.
TEST_F(CallGrammar, AtMostSoManyPropertiesInJson) {
  for (const std::string_view type : {"number", "boolean"}) {
    const std::string value = type == "number" ? "1.5" : "true";
    const std::string schema =
        fmt::format(R"({{"properties":{{"n":{{"type":"{}"}}}},"required":["n"],"maxProperties":2,)"
                    R"("additionalProperties":true}})",
                    type);
    const std::string json = lark(ReplyFormat::hermes, {"f", object_of(schema)});
    const std::string head = R"(<tool_call>
{"name": "f", "arguments": {"n": )" +
                             value;
    EXPECT_EQ(probe_.after(json, head + "}}\n</tool_call>"), "complete") << schema;
    EXPECT_EQ(probe_.after(json, head + R"(, "a": 1}})" + "\n</tool_call>"), "complete") << schema;
    const std::string passed = probe_.after(json, head + R"(, "a": 1, "b": 2}})");
    EXPECT_TRUE(passed != "open" && passed.size() <= head.size() + 10) << passed;
  }
}

TEST_F(CallGrammar, BareStringsHavePatterns) {
  const ToolSpec spec{"f", object_of(R"({"properties": {
      "a": {"type": "string", "pattern": "^[a-c]{2}\\d?$", "maxLength": 2},
      "b": {"type": "string", "format": "date"},
      "c": {"anyOf": [{"type": "string", "pattern": "^x+$"}, {"type": "null"}]},
      "d": {"const": "only"}}, "required": ["a", "b", "z"]})")};
  const std::string gemma = lark(ReplyFormat::gemma4, spec);
  const std::string quote = "<|\"|>", head = "<|tool_call>call:f{a:" + quote;
  const std::string date = ",b:" + quote + "2024-02-29" + quote;
  const auto verdict = [&](const std::string& text) { return probe_.after(gemma, text); };
  const std::string good = head + "ab" + quote + date + ",c:" + quote + "xx" + quote +
                           ",d:" + quote + "only" + quote + ",z:1}<tool_call|>";
  EXPECT_EQ(verdict(good), "complete");
  EXPECT_EQ(verdict(head + "d"), head);
  EXPECT_EQ(verdict(head + "ab1"), head + "ab");
  EXPECT_EQ(verdict(head + "ab" + quote + ",b:" + quote + "2024-02-31"),
            head + "ab" + quote + ",b:" + quote + "2024-02-");
  EXPECT_EQ(verdict(head + "ab" + quote + date + ",c:None,z:1}<tool_call|>"), "complete");
  EXPECT_EQ(verdict(head + "ab" + quote + date + "}"), head + "ab" + quote + date);
  const std::string muse = lark(ReplyFormat::muse, spec);
  const std::string end = "</atem:parameter>\n";
  const std::string start =
      " to=f<|message|><atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter "
      "name=\"a\">";
  const std::string rest = "ab" + end + "<atem:parameter name=\"b\">2024-02-29" + end;
  const std::string last =
      "<atem:parameter name=\"z\">any\n thing" + end + "</atem:invoke>\n</atem:function_calls>";
  EXPECT_EQ(probe_.after(muse, start + rest + last), "complete");
  EXPECT_EQ(probe_.after(muse, start + rest + "<atem:parameter name=\"c\">null" + end + last),
            "complete");
  EXPECT_EQ(probe_.after(muse, start + rest + "<atem:parameter name=\"c\">y"),
            start + rest + "<atem:parameter name=\"c\">");
  EXPECT_EQ(probe_.after(muse, start + "abc"), start + "ab");
}

TEST(BareText, PatternsOfWholeTexts) {
  EXPECT_EQ(whole_pattern("^a/\\d[^/]$"), "a\\/[0-9][^\\/]");
  EXPECT_EQ(whole_pattern("^(a|b)\\.$"), "(a|b)\\.");
  EXPECT_EQ(whole_pattern("^(?:a)[)(]$"), "(?:a)[)(]");
  for (const std::string_view pattern :
       {"a", "^a", "a$", "^a|b$", "^a\\$", "^(?=a)b$", "^a\\b$", "^[\\d]$", "^a$b$", "^[a$", "^(a$",
        "^[]a]$", "^\\u0041$", "^(?i)a$"}) {
    EXPECT_EQ(whole_pattern(pattern), "") << pattern;
  }
}

// Shared definitions are written where they are needed, without descriptions; what is larger than
// a grammar may be is refused before it is made.
TEST_F(CallGrammar, SizesAreBounded) {
  const auto tool = [](int index, std::string_view items) {
    std::string schema = fmt::format(
        R"({{"$defs":{{"A":{{"type":"array","items":{},"description":"{}"}}}},"properties":{{)",
        items, std::string(100'000, 'x'));
    for (int i = 0; i < 900; i++) {
      schema += fmt::format(R"({}"p{}":{{"type":"array","items":{{"$ref":"#/$defs/A"}},)"
                            R"("maxItems":{},"title":"{}"}})",
                            i == 0 ? "" : ",", i, i + 1, i);
    }
    return ToolSpec{fmt::format("f{}", index), object_of(schema + "}}")};
  };
  const std::string small = lark(ReplyFormat::muse, tool(0, "{}"));
  EXPECT_LT(small.size(), 500'000U);
  std::string wide = R"({"enum":["w")";
  for (int i = 0; i < 6000; i++) wide += fmt::format(",{}", i);
  std::vector<ToolSpec> many;
  for (int i = 0; i < 60; i++) many.push_back(tool(i, fmt::format("{},\"{}\"]}}", wide, i)));
  for (const ReplyFormat format : {ReplyFormat::hermes, ReplyFormat::llama3, ReplyFormat::llama4,
                                   ReplyFormat::gemma4, ReplyFormat::muse}) {
    const auto made = tool_grammar({.format = format}, many, ToolChoice::required, true);
    ASSERT_FALSE(made.has_value()) << static_cast<int>(format) << " " << made->size();
    EXPECT_EQ(made.error().code, Errc::exhausted) << made.error().message;
  }
}

}  // namespace
}  // namespace reprise::test
