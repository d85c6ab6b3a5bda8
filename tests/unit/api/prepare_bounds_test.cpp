// What one request may cost: refused before it costs it, with the field and both numbers.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/prepare.h"
#include "bundle_fixture.h"

namespace reprise {
namespace {

constexpr Position kContext = 600;

class PrepareBounds : public testing::BundleOnlyTest {
 protected:
  PrepareContext context() const {
    return {.bundle = bundle.get(),
            .model_alias = "tiny",
            .tenant = {},
            .context_length = kContext,
            .fitting_length = 500,
            .limits = {},
            .request_timeout_ms = 0};
  }
  static ChatRequest chat() {
    ChatRequest request;
    request.messages = {{"user", "tell me of the sea"}};
    return request;
  }
  static CompletionRequest completion(std::vector<PromptInput> prompts, int choices = 1) {
    CompletionRequest request;
    request.prompts = std::move(prompts);
    request.fields.choices = choices;
    return request;
  }
  static ApiError refused(const PrepareContext& context, CompletionRequest request) {
    const auto prepared = prepare_completion(context, std::move(request));
    EXPECT_FALSE(prepared);
    return prepared ? ApiError() : prepared.error();
  }
  static ApiError refused(const PrepareContext& context, ChatRequest request) {
    const auto prepared = prepare_chat(context, std::move(request));
    EXPECT_FALSE(prepared);
    return prepared ? ApiError() : prepared.error();
  }
};

TEST_F(PrepareBounds, ChoicesThatTheEngineNeverTakesTogether) {
  PrepareContext context = this->context();
  context.together_max = 6;
  const std::vector<PromptInput> seven(7, "abc"), three(3, "abc"), one(1, "abc");
  const ApiError prompts = refused(context, completion(seven));
  EXPECT_EQ(prompts.param, "prompt");
  EXPECT_EQ(prompts.message,
            "prompt: got 7 prompts, expected at most 6: so many run and wait together");
  const ApiError choices = refused(context, completion(one, 7));
  EXPECT_EQ(choices.param, "n");
  EXPECT_EQ(choices.message,
            "n: got 7 replies, expected at most 6 in all: so many run and wait together");
  const ApiError both = refused(context, completion(three, 3));
  EXPECT_EQ(both.param, "n");
  EXPECT_EQ(both.message,
            "n: got 3 for 3 prompts, 9 replies, expected at most 6 in all: so many run and wait "
            "together");
  EXPECT_TRUE(prepare_completion(context, completion(three, 2)));
  ChatRequest of_chat = chat();
  of_chat.fields.choices = 7;
  EXPECT_EQ(refused(context, std::move(of_chat)).param, "n");
  // Before anything is read: this prompt would be refused too.
  EXPECT_EQ(refused(context, completion({"\xFF"}, 7)).param, "n");
  EXPECT_EQ(refused(this->context(), completion(three, 43)).message,
            "n: got 43 for 3 prompts, 129 replies, expected at most 128 in all");
}

// A list's first prompt that is too long ends it: the others are not looked at.
TEST_F(PrepareBounds, EachPromptIsCheckedBeforeTheNextOne) {
  const std::vector<TokenId> full(kContext, 9), unknown{99'999};
  const ApiError error = refused(context(), completion({full, unknown}));
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.param, "prompt[0]");
}

// Before the schema is compiled.
TEST_F(PrepareBounds, LengthsAreCheckedBeforeGrammars) {
  ChatRequest request = chat();
  request.schema = JsonObject{{"type", "wrong"}};
  request.fields.max_tokens = kContext;
  EXPECT_EQ(refused(context(), std::move(request)).param, "max_tokens");
}

TEST_F(PrepareBounds, TextsOfManyPrompts) {
  PrepareContext context = this->context();
  context.limits.prompts_bytes_max = 100;
  const ApiError error = refused(context, completion({std::string(60, 'a'), std::string(41, 'b')}));
  EXPECT_EQ(error.param, "prompt");
  EXPECT_EQ(error.message, "prompt: got 2 prompts of 101 bytes together, expected at most 100");
  EXPECT_TRUE(
      prepare_completion(context, completion({std::string(60, 'a'), std::string(40, 'b')})));
  EXPECT_TRUE(prepare_completion(context, completion({std::string(200, 'a')})));
  // Ids are not tokenised.
  const std::vector<TokenId> ids(200, 9);
  EXPECT_TRUE(prepare_completion(context, completion({ids, ids})));
}

TEST_F(PrepareBounds, LogProbabilitiesThatAreKept) {
  PrepareContext context = this->context();
  context.limits.logprob_entries_max = 10'000;
  const auto with_logprobs = [](auto request, int top, std::optional<Position> max_tokens) {
    request.fields.top_logprobs = top;
    request.fields.choices = 4;
    request.fields.max_tokens = max_tokens;
    return request;
  };
  EXPECT_TRUE(prepare_chat(context, with_logprobs(chat(), 4, 500)));
  const ApiError more = refused(context, with_logprobs(chat(), 4, 501));
  EXPECT_EQ(more.param, "top_logprobs");
  EXPECT_EQ(more.code, "invalid_value");
  for (const char* number : {"2004 tokens", "10020", "10000"}) {
    EXPECT_NE(more.message.find(number), std::string::npos) << more.message;
  }
  // Without max_tokens what fits counts; without logprobs nothing is kept.
  EXPECT_EQ(refused(context, with_logprobs(chat(), 19, std::nullopt)).param, "top_logprobs");
  EXPECT_TRUE(prepare_chat(context, with_logprobs(chat(), -1, std::nullopt)));
  const std::vector<TokenId> prompt(100, 9);
  EXPECT_TRUE(prepare_completion(context, with_logprobs(completion({prompt}), 4, 450)));
  CompletionRequest echo = completion({prompt});
  echo.echo = true;
  EXPECT_EQ(refused(context, with_logprobs(std::move(echo), 4, 450)).param, "logprobs");
}

}  // namespace
}  // namespace reprise
