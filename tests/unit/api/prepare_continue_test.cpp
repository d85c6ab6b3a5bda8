// continue_final_message and add_generation_prompt: what requests may say, and how their replies
// are read.
#include <string>

#include <gtest/gtest.h>

#include "api/prepare.h"
#include "bundle_fixture.h"
#include "openai_parse_cases.h"

namespace reprise {
namespace {

using testing::BadRequest;
using testing::chat;
using testing::expect_refused;
using testing::kType;
using testing::kUnsupported;
using testing::kValue;

const std::string kUser = R"({"role":"user","content":"tell me of the sea"})";
const std::string kBegun = R"({"role":"assistant","content":"the sea "})";
const std::string kTool = R"("tools":[{"type":"function","function":{"name":"get"}}])";

std::string body(const std::string& last, const std::string& members) {
  return R"({"messages":[)" + kUser + "," + last + "]," + members + "}";
}
std::string continued(const std::string& last, const std::string& members = "") {
  return body(last, R"("continue_final_message":true)" + (members.empty() ? "" : "," + members));
}

TEST(PrepareContinue, WhatRequestsMaySay) {
  EXPECT_EQ(chat(body(kBegun, R"("seed":1)")).continues, false);
  EXPECT_EQ(chat(body(kBegun, R"("continue_final_message":false)")).continues, false);
  for (const char* members :
       {"", R"("add_generation_prompt":false)", R"("add_generation_prompt":null)",
        R"("response_format":{"type":"text"})", R"("tool_choice":"none")"}) {
    const ChatRequest request = chat(continued(kBegun, members));
    EXPECT_TRUE(request.continues);
    EXPECT_FALSE(request.adds_generation_prompt.value_or(false));
  }
  EXPECT_EQ(chat(continued(kBegun, kTool)).tools.choice, ToolChoice::automatic);
  // Its text may be thoughts' or a refusal's answer.
  EXPECT_TRUE(
      chat(continued(R"({"role":"assistant","content":"a","reasoning_content":"b"})")).continues);
  EXPECT_TRUE(chat(continued(R"({"role":"assistant","refusal":"no"})")).continues);
  for (const char* value : {"true", "false"}) {
    const std::string member = R"("add_generation_prompt":)" + std::string(value);
    EXPECT_EQ(chat(body(kBegun, member)).adds_generation_prompt, std::string(value) == "true");
    EXPECT_FALSE(chat(body(kUser, member)).continues);
  }
}

TEST(PrepareContinue, WhatIsRefused) {
  const std::string calls = R"({"role":"assistant","content":"a","tool_calls":[{"id":"c",)"
                            R"("type":"function","function":{"name":"f","arguments":"{}"}}]})";
  const char* const kField = "continue_final_message";
  for (const BadRequest& bad : std::vector<BadRequest>{
           {body(kBegun, R"("continue_final_message":"yes")"), kType, kField},
           {body(kBegun, R"("continue_final_message":1)"), kType, kField},
           {body(kBegun, R"("add_generation_prompt":0)"), kType, "add_generation_prompt"},
           {continued(kBegun, R"("add_generation_prompt":true)"), kValue, "add_generation_prompt"},
           {continued(kUser), kValue, kField},
           {continued(R"({"role":"system","content":"a"})"), kValue, kField},
           {continued(calls), kValue, kField},
           {continued(R"({"role":"assistant","content":""})"), kValue, kField},
           {continued(R"({"role":"assistant","content":" \n"})"), kValue, kField},
           {continued(R"({"role":"assistant","content":"","reasoning_content":"hm"})"), kValue,
            kField},
           {continued(kBegun, kTool + R"(,"tool_choice":"required")"), kValue, "tool_choice"},
           {continued(kBegun, kTool + R"(,"tool_choice":{"type":"function",)"
                                      R"("function":{"name":"get"}})"),
            kValue, "tool_choice"},
           {continued(kBegun, R"("response_format":{"type":"json_object"})"), kValue,
            "response_format"}}) {
    const ApiResult<ChatRequest> request = parse_chat_request(bad.body);
    ASSERT_FALSE(request) << bad.body;
    expect_refused(request.error(), bad);
    if (bad.body.find("response_format") != std::string::npos) continue;
    // /tokenize says the same; a reply's format is none of its fields.
    const ApiResult<TokenizeRequest> tokenize = parse_tokenize_request(bad.body);
    ASSERT_FALSE(tokenize) << bad.body;
    EXPECT_EQ(tokenize.error().message, request.error().message);
  }
  for (const char* member :
       {R"("continue_final_message":true)", R"("add_generation_prompt":false)"}) {
    const auto request = parse_completion_request(testing::completion_with(member));
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().code, kUnsupported);
  }
}

class PrepareContinued : public testing::BundleOnlyTest {
 protected:
  PreparedGeneration prepare(const std::string& text) const {
    const PrepareContext context{.bundle = bundle.get(),
                                 .model_alias = "tiny",
                                 .tenant = {},
                                 .context_length = 600,
                                 .fitting_length = 500,
                                 .limits = {}};
    ApiResult<PreparedGeneration> prepared = prepare_chat(context, chat(text));
    EXPECT_TRUE(prepared) << prepared.error().message;
    return prepared ? std::move(*prepared) : PreparedGeneration();
  }
  std::string shown(const PreparedGeneration& prepared) const {
    return bundle->prompts().detokenize(prepared.generations[0].prompt).value_or("(none)");
  }
};

TEST_F(PrepareContinued, TheReplyIsReadAsTheRest) {
  const PreparedGeneration fresh = prepare(R"({"messages":[)" + kUser + "]}");
  EXPECT_FALSE(fresh.reading.parser.in_content);
  const PreparedGeneration rest = prepare(continued(kBegun));
  EXPECT_TRUE(rest.reading.parser.in_content);
  EXPECT_FALSE(rest.reading.parser.in_reasoning);
  EXPECT_EQ(rest.generations[0].constraint, nullptr);
  EXPECT_EQ(shown(rest), shown(fresh) + "the sea ");
  EXPECT_GT(rest.generations[0].history_boundary, 0);
  const PreparedGeneration behind = prepare(body(kBegun, R"("add_generation_prompt":false)"));
  EXPECT_FALSE(behind.reading.parser.in_content);
  EXPECT_EQ(shown(behind), shown(fresh) + "the sea<end_of_turn>\n");
}

TEST_F(PrepareContinued, CallsMayFollow) {
  const PreparedGeneration rest = prepare(continued(kBegun, kTool));
  EXPECT_TRUE(rest.reading.parser.in_content && rest.reading.parser.has_tools);
  ASSERT_NE(rest.generations[0].constraint, nullptr);
  EXPECT_TRUE(rest.generations[0].constraint->compute_mask());
  const PreparedGeneration none = prepare(continued(kBegun, kTool + R"(,"tool_choice":"none")"));
  EXPECT_FALSE(none.reading.parser.has_tools);
  EXPECT_EQ(none.generations[0].prompt, rest.generations[0].prompt);
}

}  // namespace
}  // namespace reprise
