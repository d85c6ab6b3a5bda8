// Requests to /v1/responses with what is kept: references, the previous response, and the names of
// fields in what is found wrong later.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "api/responses.h"
#include "bundle_fixture.h"

namespace reprise {
namespace {

constexpr std::size_t kStoreBytes = std::size_t{64} << 10;  // a quarter for a conversation

class ResponsesConversationTest : public testing::BundleOnlyTest {
 protected:
  static Limits store_limits() {
    Limits limits;
    limits.stored_response_bytes_max = kStoreBytes;
    limits.waiting_conversation_bytes_max = 25'000;
    return limits;
  }
  PrepareContext context() const {
    return {.bundle = bundle.get(),
            .model_alias = "tiny",
            .tenant = "a",
            .context_length = 600,
            .fitting_length = 500,
            .limits = limits};
  }
  // A kept response whose reply is one message.
  void keep(const std::string& digits, std::string text) {
    ResponseItem question{.id = "q_" + digits, .role = "user", .texts = {"ask"}};
    ResponseItem reply{.id = "msg_" + digits, .role = "assistant", .texts = {std::move(text)}};
    StoredResponse response{"resp_" + digits, "{}", {}, 1};
    response.items.push_back(std::move(question));
    response.items.push_back(std::move(reply));
    store.put("a", std::move(response));
  }
  ApiResult<PreparedResponse> prepare(const std::string& members) {
    return prepare_response(context(), "{" + members + "}", store);
  }
  ApiError refused(const std::string& members) {
    const ApiResult<PreparedResponse> prepared = prepare(members);
    EXPECT_FALSE(prepared) << members;
    return prepared ? ApiError() : prepared.error();
  }
  std::vector<TokenId> prompt_of(const std::string& members) {
    const ApiResult<PreparedResponse> prepared = prepare(members);
    EXPECT_TRUE(prepared) << prepared.error().message;
    return prepared ? prepared->generation.generations.front().prompt : std::vector<TokenId>();
  }

  Limits limits;
  ResponsesStore store{store_limits()};
};

// The i-th stands at input[2 * i + 1], behind a question.
std::string references(const std::vector<std::string>& ids) {
  constexpr std::string_view kQuestion = R"({"role":"user","content":"ask"})";
  std::string list;
  for (const std::string& id : ids) {
    list += fmt::format(R"({},{{"type":"item_reference","id":"{}"}},)", kQuestion, id);
  }
  return fmt::format(R"("input":[{}{}])", list, kQuestion);
}

bool says(const ApiError& error, std::string_view words) {
  return error.message.find(words) != std::string::npos;
}

TEST_F(ResponsesConversationTest, AReferenceIsItsItem) {
  keep("1", "the sea");
  EXPECT_EQ(prompt_of(references({"msg_1"})),
            prompt_of(R"("input":[{"role":"user","content":"ask"},)"
                      R"({"role":"assistant","content":"the sea"},)"
                      R"({"role":"user","content":"ask"}])"));
  const ApiError unknown = refused(references({"msg_2"}));
  EXPECT_EQ(unknown.code, "item_not_found");
  EXPECT_EQ(unknown.param, "input[1].id");
}

// A small body must not make the server copy without end, whether the response is kept or not.
TEST_F(ResponsesConversationTest, ReferencesAreCountedBeforeTheyAreCopied) {
  for (const char* digits : {"1", "2", "3"}) keep(digits, std::string(6000, 'x'));
  for (const char* more : {"", R"("store":false,)"}) {
    const ApiError large = refused(more + references({"msg_1", "msg_2", "msg_3"}));
    EXPECT_EQ(large.code, "invalid_value");
    EXPECT_EQ(large.param, "input[5].id");
    EXPECT_TRUE(says(large, "expected at most 16384")) << large.message;
    EXPECT_TRUE(says(large, "takes 20")) << large.message;
  }
}

TEST_F(ResponsesConversationTest, TooMuchInputIsRefusedKeptOrNot) {
  const std::string text(kStoreBytes / 4, 'x');
  for (const char* more : {"", R"("store":false,)"}) {
    const ApiError large =
        refused(fmt::format(R"({}"input":[{{"role":"user","content":"{}"}}])", more, text));
    EXPECT_EQ(large.param, "input[0]");
    EXPECT_TRUE(says(large, "expected at most 16384")) << large.message;
  }
  keep("1", std::string(20'000, 'x'));
  EXPECT_EQ(refused(R"("previous_response_id":"resp_1","input":"x")").param,
            "previous_response_id");
}

TEST_F(ResponsesConversationTest, ReferencesAreOfABoundedNumber) {
  limits.item_references_max = 2;
  for (const char* digits : {"1", "2", "3"}) keep(digits, "x");
  EXPECT_TRUE(prepare(references({"msg_1", "msg_2"})));
  const ApiError many = refused(references({"msg_1", "msg_2", "msg_3"}));
  EXPECT_EQ(many.param, "input");
  EXPECT_TRUE(says(many, "got 3 item_references, expected at most 2")) << many.message;
}

// Input items are paged by their ids: one that came twice would lead back to its first place.
TEST_F(ResponsesConversationTest, NoItemComesTwice) {
  keep("1", "x");
  const std::string twice =
      R"("input":[{"role":"user","id":"m","content":"a"},{"role":"user","id":"m","content":"b"}])";
  const std::vector<std::pair<std::string, std::string>> requests = {
      {twice, "input[1].id"},
      {references({"msg_1", "msg_1"}), "input[3].id"},
      {R"("previous_response_id":"resp_1",)" + references({"msg_1"}), "input[1].id"},
      {R"("previous_response_id":"resp_1","input":[{"role":"user","content":"a"},)"
       R"({"role":"user","id":"q_1","content":"b"}])",
       "input[1].id"},
  };
  for (const auto& [members, param] : requests) {
    const ApiError duplicate = refused(members);
    EXPECT_EQ(duplicate.status, 400);
    EXPECT_EQ(duplicate.param, param);
    EXPECT_TRUE(says(duplicate, "duplicate item")) << duplicate.message;
  }
  EXPECT_TRUE(prepare(R"("input":[{"role":"user","id":"","content":"a"},)"
                      R"({"role":"assistant","id":"","content":"c"},)"
                      R"({"role":"user","id":"","content":"b"}])"))
      << "an empty id is none";
}

TEST_F(ResponsesConversationTest, OnlyWhatIsToBeKeptWaits) {
  EXPECT_EQ(prepare(R"("input":"x")")->plan.items.size(), 1U);
  EXPECT_TRUE(prepare(R"("input":"x","store":false)")->plan.items.empty());
}

// Requests of a few bytes that go on with much wait in the engine's queue with all of it.
TEST_F(ResponsesConversationTest, WhatWaitsIsBounded) {
  keep("1", "the sea");
  ResponseItem thoughts{.kind = ResponseItem::Kind::reasoning, .id = "rs_2"};
  thoughts.summary = {std::string(10'000, 's')};  // not in the prompt
  const ResponseItem question{.id = "q_2", .role = "user", .texts = {"ask"}};
  store.put("a", {"resp_2", "{}", {question, thoughts}, 2});
  const std::string members = R"("previous_response_id":"resp_2","input":"x")";
  {
    const ApiResult<PreparedResponse> first = prepare(members), second = prepare(members);
    ASSERT_TRUE(first && second);
    EXPECT_GT(store.claimed_bytes(), 20'000U);
    const ApiError full = refused(members);
    EXPECT_EQ(full.status, 429);
    EXPECT_TRUE(says(full, "at most 25000")) << full.message;
    EXPECT_TRUE(prepare(R"("store":false,)" + members)) << "nothing of it waits";
    EXPECT_TRUE(prepare(R"("previous_response_id":"resp_1","input":"x")"));
  }
  EXPECT_EQ(store.claimed_bytes(), 0U);
  EXPECT_TRUE(prepare(members));
}

TEST_F(ResponsesConversationTest, RefusalsNameThisApisFields) {
  const std::string bad = R"({"type":"object","properties":{"a":{"type":7}}})";
  const std::string good = R"({"type":"function","name":"g","parameters":{}})";
  const std::vector<std::pair<std::string, std::string>> requests = {
      {fmt::format(R"("input":"{}")", std::string(700, 'z')), "input"},
      {R"("input":"x","max_output_tokens":600)", "max_output_tokens"},
      {fmt::format(R"("input":"x","tools":[{},{{"type":"function","name":"f","strict":true,)"
                   R"("parameters":{}}}])",
                   good, bad),
       "tools[1].parameters"},
      {R"("input":"x","text":{"format":{"type":"json_schema","name":"n","schema":)" + bad + "}}",
       "text.format.schema"},
      {R"("input":"x","text":{"format":{"type":"json_object","schema":)" + bad + "}}",
       "text.format.schema"},
      {R"("input":"x","chat_template_kwargs":{"messages":[]})", "chat_template_kwargs.messages"},
  };
  for (const auto& [members, param] : requests) {
    const ApiError error = refused(members);
    EXPECT_EQ(error.status, 400) << members;
    EXPECT_EQ(error.param, param) << error.message;
    EXPECT_FALSE(says(error, "max_tokens")) << error.message;
    EXPECT_FALSE(says(error, "response_format")) << error.message;
    EXPECT_FALSE(says(error, "function.parameters")) << error.message;
  }
}

}  // namespace
}  // namespace reprise
