// OpenAI's and llama-server's replies, to the byte.
#include "api/reply_writers.h"

#include <functional>
#include <string>
#include <vector>

#include "api/llama_format.h"
#include "api/metrics.h"
#include "api_fixture.h"
#include "reply_reader.h"

namespace reprise {
namespace {

using testing::ApiTest;
using testing::events_of;
using testing::Listener;
using testing::Reply;

using Maker = std::unique_ptr<ReplyWriter> (*)(ReplyPlan, ReplyOutlet, const Tokenizer&);
using Kind = ReplyPart::Kind;

const std::string kShared = R"("created":1700000000,"model":"m","system_fingerprint":"fp_0-n1",)";
const std::string kPromptUsage = R"("usage":{"prompt_tokens":10,"completion_tokens":3,)"
                                 R"("total_tokens":13,"prompt_tokens_details":)"
                                 R"({"cached_tokens":7})";

ReplyPlan plan_of() {
  ReplyPlan plan;
  plan.identity = {"id-1", "m", "fp_0-n1", 1700000000};
  return plan;
}

Usage usage_of() {
  Usage usage;
  usage.prompt_tokens = 10;
  usage.cached_tokens = 7;
  usage.completion_tokens = 3;
  return usage;
}

ChoiceDelta delta_of(std::vector<ReplyPart> parts, std::vector<TokenId> ids = {}) {
  ChoiceDelta delta;
  delta.parts = std::move(parts);
  delta.token_count = ids.size();
  delta.token_ids = std::move(ids);
  return delta;
}

ChoiceEnd end_of(ChoiceEnd::Reason reason) {
  ChoiceEnd end;
  end.reason = reason;
  end.usage = usage_of();
  return end;
}

class ReplyWritersTest : public ApiTest {
 protected:
  // What a writer says of one choice.
  Reply write(Maker make, ReplyPlan plan, const std::vector<ChoiceDelta>& deltas,
              const ChoiceEnd& end) {
    Listener listener;
    Metrics metrics(*engine);
    const auto writer =
        make(std::move(plan), ReplyOutlet(listener.channel, {{"a", "b"}}, metrics, Endpoint::chat),
             bundle->tokenizer());
    writer->prompt_done(0, end.usage);
    for (const ChoiceDelta& delta : deltas) writer->delta(0, delta);
    writer->choice_end(0, end);
    writer->end(end.usage);
    EXPECT_TRUE(listener.read_all());
    EXPECT_EQ(listener.reply.header("a"), "b");
    EXPECT_EQ(listener.reply.header("x-reprise-cache"), "hit; matched=7");
    return std::move(listener.reply);
  }
};

TEST_F(ReplyWritersTest, ChatWhole) {
  EXPECT_EQ(
      write(make_chat_whole, plan_of(),
            {delta_of({{Kind::content, "a \"quoted\"\n"}}), delta_of({{Kind::content, "line"}})},
            end_of(ChoiceEnd::Reason::stop))
          .body,
      R"({"id":"id-1","object":"chat.completion",)" + kShared +
          R"("choices":[{"index":0,"message":{"role":"assistant","content":)"
          R"("a \"quoted\"\nline","refusal":null},"logprobs":null,"finish_reason":"stop"}],)" +
          kPromptUsage + R"(,"completion_tokens_details":{"reasoning_tokens":0}}})");
}

TEST_F(ReplyWritersTest, ChatWholeWithThoughtsAndCalls) {
  ChoiceEnd end = end_of(ChoiceEnd::Reason::tool_calls);
  end.reasoning_tokens = 2;
  const std::string body = write(make_chat_whole, plan_of(),
                                 {delta_of({{Kind::reasoning, "hm"}, {Kind::tool_name, "get"}}),
                                  delta_of({{Kind::tool_arguments, "{\"a\""}}),
                                  delta_of({{Kind::tool_arguments, ":1}"}})},
                                 end)
                               .body;
  EXPECT_EQ(body, R"({"id":"id-1","object":"chat.completion",)" + kShared +
                      R"("choices":[{"index":0,"message":{"role":"assistant","content":null,)"
                      R"("refusal":null,"reasoning_content":"hm","tool_calls":[{"id":")" +
                      tool_call_id("id-1", 0, 0) +
                      R"(","type":"function","function":{"name":"get","arguments":"{\"a\":1}"}}]},)"
                      R"("logprobs":null,"finish_reason":"tool_calls"}],)" +
                      kPromptUsage + R"(,"completion_tokens_details":{"reasoning_tokens":2}}})");
}

TEST_F(ReplyWritersTest, ChatStream) {
  ReplyPlan plan = plan_of();
  plan.include_usage = true;
  const Reply reply =
      write(make_chat_stream, std::move(plan),
            {ChoiceDelta(),
             delta_of({{Kind::reasoning, "hm"}, {Kind::content, "hi"}, {Kind::tool_name, "get"}}),
             delta_of({{Kind::tool_arguments, "{}"}})},
            end_of(ChoiceEnd::Reason::tool_calls));
  const std::string head = R"({"id":"id-1","object":"chat.completion.chunk",)" + kShared +
                           R"("choices":[{"index":0,"delta":)";
  const std::string tail = R"(,"logprobs":null,"finish_reason":null}],"usage":null})";
  const std::string call = R"({"tool_calls":[{"index":0,)";
  EXPECT_EQ(events_of(reply.body),
            (std::vector<std::string>{
                head + R"({"role":"assistant","content":""})" + tail,
                head + R"({"reasoning_content":"hm"})" + tail, head + R"({"content":"hi"})" + tail,
                head + call + R"("id":")" + tool_call_id("id-1", 0, 0) +
                    R"(","type":"function","function":{"name":"get","arguments":""}}]})" + tail,
                head + call + R"("function":{"arguments":"{}"}}]})" + tail,
                head + R"({},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null})",
                R"({"id":"id-1","object":"chat.completion.chunk",)" + kShared + R"("choices":[],)" +
                    kPromptUsage + R"(,"completion_tokens_details":{"reasoning_tokens":0}}})",
                "[DONE]"}));
}

TEST_F(ReplyWritersTest, CompletionWholeWithIds) {
  ReplyPlan plan = plan_of();
  plan.return_token_ids = true;
  plan.prompt_ids = {{1}};
  EXPECT_EQ(write(make_completion_whole, std::move(plan),
                  {delta_of({{Kind::content, "x"}}, {4}), delta_of({}, {5})},
                  end_of(ChoiceEnd::Reason::length))
                .body,
            R"({"id":"id-1","object":"text_completion",)" + kShared +
                R"("choices":[{"index":0,"text":"x","logprobs":null,"finish_reason":"length",)"
                R"("prompt_token_ids":[1],"token_ids":[4,5]}],)" +
                kPromptUsage + "}}");
}

TEST_F(ReplyWritersTest, CompletionStream) {
  ReplyPlan plan = plan_of();
  plan.echoes = {"once "};
  const std::string head =
      R"({"id":"id-1","object":"text_completion",)" + kShared + R"("choices":[{"index":0,"text":)";
  const std::string tail = R"(,"logprobs":null,"finish_reason":null}]})";
  const Reply reply =
      write(make_completion_stream, std::move(plan),
            {ChoiceDelta(), delta_of({{Kind::content, "hi"}})}, end_of(ChoiceEnd::Reason::length));
  EXPECT_EQ(events_of(reply.body),
            (std::vector<std::string>{head + R"("once ")" + tail, head + R"("hi")" + tail,
                                      head + R"("","logprobs":null,"finish_reason":"length"}]})",
                                      "[DONE]"}));
}

TEST_F(ReplyWritersTest, Llama) {
  ChoiceEnd end = end_of(ChoiceEnd::Reason::stop);
  end.stop_string = "!";
  end.timings = {.queued_ms = 1, .prefill_ms = 6, .decode_ms = 12};
  const std::vector<ChoiceDelta> deltas = {delta_of({{Kind::content, "hi"}}, {4, 5, 6})};
  const auto whole = [](const std::string& content, const std::string& tokens) {
    return R"({"index":0,"content":")" + content + R"(","tokens":[)" + tokens +
           R"(],"stop":true,"model":"m","tokens_predicted":3,"tokens_evaluated":10,)"
           R"("generation_settings":{},"truncated":false,"stop_type":"word","stopping_word":"!",)"
           R"("tokens_cached":7,"timings":{"cache_n":7,"prompt_n":3,"prompt_ms":6.0,)"
           R"("prompt_per_token_ms":2.0,"prompt_per_second":500.0,"predicted_n":3,)"
           R"("predicted_ms":12.0,"predicted_per_token_ms":4.0,"predicted_per_second":250.0}})";
  };
  EXPECT_EQ(write(make_llama_whole, plan_of(), deltas, end).body, whole("hi", "4,5,6"));
  EXPECT_EQ(events_of(write(make_llama_stream, plan_of(), deltas, end).body),
            (std::vector<std::string>{
                R"({"index":0,"content":"hi","tokens":[4,5,6],"stop":false,"tokens_predicted":3,)"
                R"("tokens_evaluated":10})",
                whole("", "")}));
  end.stop_string.clear();
  EXPECT_EQ(parse_json(write(make_llama_whole, plan_of(), deltas, end).body)->at("stop_type"),
            "eos");
}

TEST_F(ReplyWritersTest, ErrorsOfEveryForm) {
  for (const Maker make : {make_chat_whole, make_chat_stream, make_completion_whole,
                           make_completion_stream, make_llama_whole, make_llama_stream}) {
    Listener listener;
    Metrics metrics(*engine);
    const auto writer = make(plan_of(), ReplyOutlet(listener.channel, {}, metrics, Endpoint::chat),
                             bundle->tokenizer());
    writer->fail({503, "overloaded", "no room"});
    ASSERT_TRUE(listener.read_all());
    EXPECT_EQ(listener.reply.head.status, 503);
    EXPECT_EQ(listener.reply.error_code(), "overloaded");
    EXPECT_EQ(listener.reply.header("retry-after"), "1");
  }
}

}  // namespace
}  // namespace reprise
