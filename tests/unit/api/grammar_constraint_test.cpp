// Grammars over a tiny vocabulary, driven as the engine drives them: what comes out is what the
// schema says, and each reply has a state of its own.
#include "api/grammar_constraint.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "bundle_fixture.h"

namespace reprise {
namespace {

class GrammarConstraintTest : public testing::BundleOnlyTest {
 protected:
  using Constraints = std::vector<std::unique_ptr<TokenConstraint>>;

  Constraints constrain(const ReplyRules& rules, std::size_t count) const {
    ApiResult<Constraints> made = constrain_replies(bundle->grammars(), rules, count);
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : Constraints(count);
  }
  static bool allows(const TokenConstraint& constraint, TokenId id) {
    const auto at = static_cast<std::size_t>(id);
    return (constraint.mask()[at / 32] >> (at % 32) & 1U) != 0;
  }
  // Takes allowed tokens, drawn by a counter, until the reply may end or nothing can follow.
  std::string write_reply(TokenConstraint& constraint, std::uint32_t seed) const {
    std::string text;
    for (int step = 0; step < 400; step++) {
      EXPECT_TRUE(constraint.compute_mask());
      if (allows(constraint, testing::kTinyEos)) return text;
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < testing::kTinyVocabulary; id++) {
        if (allows(constraint, id)) allowed.push_back(id);
      }
      EXPECT_FALSE(allowed.empty()) << "after " << text;
      if (allowed.empty()) return text;
      seed = seed * 1664525U + 1013904223U;
      const TokenId token = allowed[(seed >> 8) % allowed.size()];
      text += bundle->tokenizer().token_bytes(token);
      const Result<bool> goes_on = constraint.advance(token);
      EXPECT_TRUE(goes_on);
      if (!goes_on || !*goes_on) return text;
    }
    return "(endless) " + text;
  }
};

const JsonObject kSchema = {
    {"type", "object"},
    {"properties", JsonObject{{"kind", JsonObject{{"enum", JsonArray{"sea", "land"}}}},
                              {"wet", JsonObject{{"type", "boolean"}}}}},
    {"required", JsonArray{"kind", "wet"}},
    {"additionalProperties", false}};

TEST_F(GrammarConstraintTest, RepliesFollowTheSchema) {
  const ReplyRules rules{.format = {.tokenizer = &bundle->tokenizer()},
                         .schema = &kSchema,
                         .schema_param = "json_schema"};
  Constraints constraints = constrain(rules, 8);
  for (std::uint32_t seed = 0; seed < 8; seed++) {
    ASSERT_NE(constraints[seed], nullptr);
    const std::string text = write_reply(*constraints[seed], seed);
    const Result<JsonValue> value = parse_json(text);
    ASSERT_TRUE(value) << text;
    ASSERT_TRUE(value->is_object()) << text;
    const std::string_view kind = value->at("kind").as_string();
    EXPECT_TRUE(kind == "sea" || kind == "land") << text;
    EXPECT_TRUE(value->at("wet").is_bool()) << text;
    EXPECT_EQ(value->as_object().size(), 2u) << text;
  }
}

TEST_F(GrammarConstraintTest, StatesAreApart) {
  const ReplyRules rules{.format = {.tokenizer = &bundle->tokenizer()},
                         .schema = &kSchema,
                         .schema_param = "json_schema"};
  Constraints constraints = constrain(rules, 2);
  ASSERT_TRUE(constraints[1]->compute_mask());
  const std::vector<std::uint32_t> before(constraints[1]->mask().begin(),
                                          constraints[1]->mask().end());
  write_reply(*constraints[0], 3);
  ASSERT_TRUE(constraints[1]->compute_mask());
  EXPECT_TRUE(std::ranges::equal(constraints[1]->mask(), before));
}

TEST_F(GrammarConstraintTest, TokensOutsideTheMaskAreABug) {
  const ReplyRules rules{.format = {.tokenizer = &bundle->tokenizer()},
                         .schema = &kSchema,
                         .schema_param = "json_schema"};
  Constraints constraints = constrain(rules, 1);
  ASSERT_TRUE(constraints[0]->compute_mask());
  const TokenId letter = *bundle->tokenizer().find("z");
  ASSERT_FALSE(allows(*constraints[0], letter));
  const Result<bool> refused = constraints[0]->advance(letter);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::corrupt);
}

TEST_F(GrammarConstraintTest, RequiredToolsAreCalled) {
  Tools tools;
  tools.choice = ToolChoice::required;
  tools.parallel = false;
  tools.specs = {{"look", kSchema}};
  tools.definitions = {JsonObject{
      {"type", "function"}, {"function", JsonObject{{"name", "look"}, {"parameters", kSchema}}}}};
  const ReplyStyle& style = bundle->reply_style();
  const ReplyRules rules{.format = {.format = style.format, .tokenizer = &bundle->tokenizer()},
                         .tools = &tools};
  Constraints constraints = constrain(rules, 3);
  for (std::uint32_t seed = 0; seed < 3; seed++) {
    const std::string text = write_reply(*constraints[seed], seed + 100);
    const std::unique_ptr<ReplyParser> parser = make_reply_parser(
        style.format, {.has_tools = true, .tool_names = {"look"}, .tool_parameters = {kSchema}});
    std::vector<ReplyPart> parts;
    parser->push(text, parts);
    parser->finish(parts);
    std::string name, arguments, content;
    for (const ReplyPart& part : parts) {
      if (part.kind == ReplyPart::Kind::tool_name) name += part.text;
      if (part.kind == ReplyPart::Kind::tool_arguments) arguments += part.text;
      if (part.kind == ReplyPart::Kind::content) content += part.text;
    }
    EXPECT_EQ(name, "look") << text;
    EXPECT_EQ(content, "") << text;
    const Result<JsonValue> value = parse_json(arguments);
    ASSERT_TRUE(value) << text;
    EXPECT_TRUE(value->at("wet").is_bool()) << text;
  }
}

// With tools and a schema the reply calls, or answers by the schema.
TEST_F(GrammarConstraintTest, CallsOrAnAnswerByTheSchema) {
  Tools tools;
  tools.choice = ToolChoice::automatic;
  tools.specs = {{"look", kSchema}};
  const ReplyRules rules{
      .format = {.format = ReplyFormat::hermes, .tokenizer = &bundle->tokenizer()},
      .tools = &tools,
      .schema = &kSchema,
      .schema_param = "response_format.json_schema.schema"};
  Constraints constraints = constrain(rules, 2);
  const auto begin = [&](TokenConstraint& constraint, std::string_view text) {
    const auto ids = bundle->tokenizer().encode(text, AddSpecial::no, ParseSpecial::no);
    EXPECT_TRUE(ids);
    for (const TokenId id : *ids) {
      if (bundle->tokenizer().token_bytes(id) == " ") continue;  // what the tokenizer puts in front
      EXPECT_TRUE(constraint.compute_mask());
      if (!allows(constraint, id)) return false;
      EXPECT_TRUE(constraint.advance(id));
    }
    return true;
  };
  EXPECT_TRUE(begin(*constraints[0], "<tool_call>"));
  EXPECT_TRUE(begin(*constraints[1], "{"));
  EXPECT_FALSE(begin(*constrain(rules, 1)[0], "I"));
  Tools alone = tools;
  const ReplyRules calls{.format = rules.format, .tools = &alone};
  EXPECT_TRUE(begin(*constrain(calls, 1)[0], "I"));
  // Both are checked, and the one at fault is named.
  const JsonObject bad = {{"type", "nothing"}};
  ReplyRules wrong = rules;
  wrong.schema = &bad;
  const auto refused = constrain_replies(bundle->grammars(), wrong, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "response_format.json_schema.schema");
}

// A function that the client names is called once, as often as the model would repeat it.
TEST_F(GrammarConstraintTest, ANamedFunctionIsCalledOnce) {
  Tools tools;
  tools.choice = ToolChoice::required;
  tools.specs = {{"look", kSchema}};
  const ReplyRules rules{
      .format = {.format = ReplyFormat::hermes, .tokenizer = &bundle->tokenizer()},
      .tools = &tools};
  for (const bool is_named : {false, true}) {
    tools.is_named = is_named;
    const Constraints constraints = constrain(rules, 1);
    ASSERT_NE(constraints[0], nullptr);
    EXPECT_NE(write_reply(*constraints[0], 5).find("look"), std::string::npos);
    ASSERT_TRUE(constraints[0]->compute_mask());
    int others = 0;
    for (TokenId id = 0; id < testing::kTinyVocabulary; id++) {
      const bool ends = std::ranges::find(bundle->stop_ids(), id) != bundle->stop_ids().end();
      others += !ends && allows(*constraints[0], id) ? 1 : 0;
    }
    EXPECT_EQ(others == 0, is_named) << others;
  }
}

// A function that is not strict is never at fault: it is held to less, and the others to all.
TEST_F(GrammarConstraintTest, HintsAreNoReasonToRefuse) {
  const auto schema = [](std::string_view property) {
    const Result<JsonValue> value = parse_json(
        fmt::format(R"({{"type":"object","properties":{{"n":{{"type":"integer"}},"a":{}}},)"
                    R"("required":["n"]}})",
                    property));
    EXPECT_TRUE(value) << property;
    return value ? value->as_object() : JsonObject();
  };
  for (const std::string_view property :
       {R"({"type":"string","pattern":"a^b"})", R"({"type":"string","pattern":"/^abc$/i"})",
        R"({"type":"string","pattern":"a(b"})", R"({"type":"array","minItems":5,"maxItems":2})",
        R"({"type":"object","patternProperties":{"^a":{},"b$":{}}})", R"({"$ref":"#/nowhere"})",
        R"({"type":"integer","minimum":5,"maximum":1})", R"({"enum":[]})", R"({"allOf":[
        {"type":"object","properties":{"x":{}},"minProperties":1},{"maxProperties":2}]})",
        R"({"allOf":[{"type":"string"},{"type":"integer"}]})", R"({"$ref":"#/properties/a"})"}) {
    for (const ReplyFormat format : {ReplyFormat::hermes, ReplyFormat::llama3, ReplyFormat::llama4,
                                     ReplyFormat::gemma4, ReplyFormat::muse}) {
      Tools tools;
      tools.choice = ToolChoice::required;
      tools.parallel = false;
      tools.specs = {{"good", kSchema, true}, {"hint", schema(property), false}};
      const ReplyRules rules{.format = {.format = format, .tokenizer = &bundle->tokenizer()},
                             .tools = &tools};
      const auto made = constrain_replies(bundle->grammars(), rules, 1);
      EXPECT_TRUE(made) << property << static_cast<int>(format) << made.error().message;
    }
  }
  // The one at fault is among many, and what it says beside is held to.
  Tools tools;
  tools.choice = ToolChoice::required;
  for (int i = 0; i < 20; i++)
    tools.specs.push_back({fmt::format("f{}", i), schema(R"({"type":"null"})"), false});
  tools.specs[13].parameters = schema(R"({"type":"string","pattern":"a^b"})");
  const ReplyRules rules{
      .format = {.format = ReplyFormat::hermes, .tokenizer = &bundle->tokenizer()},
      .tools = &tools};
  const Constraints all = constrain(rules, 1);
  ASSERT_NE(all[0], nullptr);
  tools.is_named = true;
  tools.specs = {tools.specs[13]};
  const std::string reply = write_reply(*constrain(rules, 1)[0], 9);
  EXPECT_NE(reply.find(R"({"name": "f13", "arguments": {"n": )"), std::string::npos) << reply;
  // A strict one is refused, with its place.
  tools.specs[0].is_strict = true;
  tools.places = {"tools[0].function"};
  tools.definitions = {JsonObject{{"type", "function"}, {"function", JsonObject{{"name", "f13"}}}}};
  const auto refused = constrain_replies(bundle->grammars(), rules, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "tools[0].function.parameters");
}

// `alternatives` objects of so many properties, each of its own name.
JsonObject many_properties(int alternatives, int properties, const char* type) {
  JsonArray objects;
  for (int i = 0; i < alternatives; i++) {
    JsonObject names;
    for (int j = 0; j < properties; j++) {
      names["p" + std::to_string(i) + "_" + std::to_string(j)] = JsonObject{{"type", type}};
    }
    objects.push_back(
        JsonObject{{"type", "object"}, {"properties", names}, {"additionalProperties", false}});
  }
  return alternatives == 1 ? objects[0].get_object() : JsonObject{{"anyOf", objects}};
}

// Large, but what clients have: nothing of it may end in the middle of a reply.
TEST_F(GrammarConstraintTest, LargeSchemasAreHeld) {
  for (const JsonObject& schema :
       {many_properties(1, 900, "string"), many_properties(1, 1000, "string"),
        many_properties(30, 30, "integer")}) {
    const ReplyRules rules{.format = {.tokenizer = &bundle->tokenizer()},
                           .schema = &schema,
                           .schema_param = "json_schema"};
    const Constraints constraints = constrain(rules, 1);
    ASSERT_NE(constraints[0], nullptr);
    for (const char* text : {"{", "\"", "p"}) {
      ASSERT_TRUE(constraints[0]->compute_mask());
      std::optional<TokenId> id;
      for (TokenId each = 0; each < testing::kTinyVocabulary; each++) {
        const bool is_it = bundle->tokenizer().token_bytes(each) == text;
        if (is_it && allows(*constraints[0], each)) id = each;
      }
      ASSERT_TRUE(id) << text;
      ASSERT_TRUE(constraints[0]->advance(*id));
    }
    EXPECT_TRUE(constraints[0]->compute_mask());
  }
}

// Too large for the matcher at its first steps: found before anything runs.
TEST_F(GrammarConstraintTest, TooLargeSchemasAreRefusedAtOnce) {
  const JsonObject schema = many_properties(240, 100, "integer");
  const ReplyRules rules{.format = {.tokenizer = &bundle->tokenizer()},
                         .schema = &schema,
                         .schema_param = "json_schema"};
  const auto refused = constrain_replies(bundle->grammars(), rules, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 400);
  EXPECT_EQ(refused.error().code, "invalid_value");
  EXPECT_EQ(refused.error().param, "json_schema");
}

TEST_F(GrammarConstraintTest, NothingToHold) {
  Tools none;
  const Constraints constraints = constrain({.format = {}, .tools = &none}, 2);
  ASSERT_EQ(constraints.size(), 2u);
  EXPECT_EQ(constraints[0], nullptr);
}

TEST_F(GrammarConstraintTest, TheFunctionAtFaultIsNamedByItsPlaceInTheRequest) {
  Tools tools;
  tools.choice = ToolChoice::required;
  const JsonObject bad = {{"type", "nothing"}};
  // A named choice leaves one spec of several definitions.
  tools.specs = {{"second", bad}};
  tools.places = {"tools[0].function", "tools[1].function"};
  for (const char* name : {"first", "second"}) {
    tools.definitions.push_back(JsonObject{
        {"type", "function"}, {"function", JsonObject{{"name", name}, {"parameters", bad}}}});
  }
  const ReplyRules rules{.format = {.format = ReplyFormat::hermes}, .tools = &tools};
  const auto refused = constrain_replies(bundle->grammars(), rules, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "tools[1].function.parameters");
  EXPECT_EQ(refused.error().code, "invalid_value");
  EXPECT_EQ(refused.error().status, 400);
}

}  // namespace
}  // namespace reprise
