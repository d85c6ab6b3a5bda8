// Choices alone, with tokens of our choice: text, stop strings, thoughts, calls, and how several
// choices end together.
#include "api/choice_sink.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/metrics.h"
#include "api/reply_writers.h"
#include "api_fixture.h"
#include "reply_reader.h"

namespace reprise {
namespace {

using testing::ApiTest;
using testing::events_of;
using testing::kTinyFirstByte;
using testing::Listener;
using testing::read_stream;
using testing::read_whole;
using testing::ReadChoice;
using testing::ReadReply;
using testing::Reply;

std::vector<TokenId> byte_tokens(std::string_view bytes) {
  std::vector<TokenId> tokens;
  for (const char byte : bytes) {
    tokens.push_back(kTinyFirstByte + static_cast<TokenId>(static_cast<unsigned char>(byte)));
  }
  return tokens;
}

SequenceEnd end_of(FinishReason reason) {
  SequenceEnd end;
  end.reason = reason;
  return end;
}

struct Script {
  bool is_chat = true;
  bool stream = false;
  std::size_t choices = 1;
  std::vector<std::string> stop;
  ReplyFormat format = ReplyFormat::plain;
  ReplyParserOptions parser;
};

// A reply whose choices are fed by hand.
class Desk {
 public:
  Desk(Engine& engine, const Tokenizer& tokenizer, const Script& script)
      : live(engine), metrics(engine) {
    ReplyPlan plan;
    plan.identity = {"id", "tiny", "fp", 0};
    plan.choices = script.choices;
    plan.include_usage = script.stream;
    plan.return_token_ids = true;
    plan.prompt_ids = {{7}};
    const auto make = script.is_chat
                          ? (script.stream ? make_chat_stream : make_chat_whole)
                          : (script.stream ? make_completion_stream : make_completion_whole);
    const Endpoint endpoint = script.is_chat ? Endpoint::chat : Endpoint::completions;
    LiveRequests::Entered entered = live.enter(script.choices);
    GroupPlan group_plan;
    group_plan.choices = script.choices;
    group_plan.accepted_at = std::chrono::steady_clock::now();
    ReplyGroup& group = live.keep(
        entered.number,
        std::make_unique<ReplyGroup>(
            std::move(group_plan),
            make(std::move(plan), ReplyOutlet(listener.channel, {}, metrics, endpoint), tokenizer),
            listener.channel, metrics, live, entered.number));
    for (std::size_t choice = 0; choice < script.choices; choice++) {
      sinks.push_back(std::make_unique<ChoiceSink>(tokenizer,
                                                   ChoicePlan{.choice = choice,
                                                              .stop = script.stop,
                                                              .format = script.format,
                                                              .parser = script.parser,
                                                              .logprobs = false,
                                                              .return_token_ids = true},
                                                   group, std::move(entered.tickets[choice])));
    }
  }

  // False when the sink wants no more.
  bool feed(std::size_t choice, const std::vector<TokenId>& tokens) {
    for (const TokenId token : tokens) {
      verdict = sinks[choice]->on_token({token, 0, {}});
      if (verdict != SequenceSink::Verdict::go_on) return false;
    }
    return true;
  }
  void end(std::size_t choice, const SequenceEnd& end) {
    sinks[choice]->on_end(end);
    sinks[choice].reset();
  }
  Reply read() {
    EXPECT_TRUE(listener.read_all());
    return std::move(listener.reply);
  }

  LiveRequests live;
  Metrics metrics;
  Listener listener;
  std::vector<std::unique_ptr<ChoiceSink>> sinks;
  SequenceSink::Verdict verdict = SequenceSink::Verdict::go_on;
};

class ChoiceSinkTest : public ApiTest {
 protected:
  std::unique_ptr<Desk> desk(const Script& script) {
    return std::make_unique<Desk>(*engine, bundle->tokenizer(), script);
  }
  Reply run(const Script& script, const std::vector<TokenId>& tokens, const SequenceEnd& end) {
    const auto mine = desk(script);
    mine->feed(0, tokens);
    verdict = mine->verdict;
    mine->end(0, end);
    return mine->read();
  }
  // Streamed and whole; they must say the same.
  ReadReply run_both(Script script, const std::vector<TokenId>& tokens,
                     FinishReason reason = FinishReason::length) {
    script.stream = false;
    const ReadReply whole = read_whole(run(script, tokens, end_of(reason)));
    script.stream = true;
    const ReadReply stream = read_stream(run(script, tokens, end_of(reason)));
    EXPECT_EQ(whole.summary(), stream.summary());
    EXPECT_EQ(to_json(whole.usage), to_json(stream.usage));
    return whole;
  }
  Script completion(std::vector<std::string> stop = {}, bool stream = false) {
    Script script;
    script.is_chat = false;
    script.stop = std::move(stop);
    script.stream = stream;
    return script;
  }
  Script tools() {
    Script script;
    script.format = ReplyFormat::hermes;
    script.parser.has_tools = true;
    script.parser.tool_names = {"get", "put"};
    return script;
  }

  SequenceSink::Verdict verdict = SequenceSink::Verdict::go_on;
};

TEST_F(ChoiceSinkTest, CharactersAndStopsAtEveryCut) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 DEFGHI DEFGHIJ tail \xFF.";
  const std::vector<std::vector<std::string>> stops = {{},
                                                       {"DEFGHIJ"},
                                                       {"\xE2\x82\xAC"},
                                                       {"GHIX", "FGHIJ", "J t"},
                                                       {"tail", "il"},
                                                       {"\xEF\xBF\xBD"}};
  for (const std::vector<std::string>& stop : stops) {
    for (std::size_t cut = 1; cut <= text.size(); cut++) {
      const ReadReply reply = run_both(completion(stop), byte_tokens(text.substr(0, cut)));
      for (const std::string& word : stop) {
        ASSERT_EQ(reply.first().text.find(word), std::string::npos) << cut;
      }
    }
  }
}

TEST_F(ChoiceSinkTest, StopIsFoundAndNothingOfItSent) {
  const ReadReply found = run_both(completion({"DEFGHIJ"}), byte_tokens("say DEFGHIJ now"));
  EXPECT_EQ(found.first().text, "say ");
  EXPECT_EQ(found.first().finish_reason, "stop");
  EXPECT_EQ(found.first().ids.size(), 11u);  // the hidden tokens were sampled too
  EXPECT_EQ(verdict, SequenceSink::Verdict::stop);
  const ReadReply unfinished = run_both(completion({"DEFGHIJ"}), byte_tokens("say DEFGHI"));
  EXPECT_EQ(unfinished.first().text, "say DEFGHI");
  EXPECT_EQ(unfinished.first().finish_reason, "length");
}

const char* const kCallReply =
    "<think>\nLet me see.\n</think>\n\nI call.\n<tool_call>\n"
    R"({"name": "get", "arguments": {"city": "K\u00f6ln", "n": [1, 2]}})"
    "\n</tool_call>\n<tool_call>\n{\"name\": \"put\", \"arguments\": {}}\n</tool_call>";

TEST_F(ChoiceSinkTest, ThoughtsTextAndCalls) {
  const ReadReply reply = run_both(tools(), byte_tokens(kCallReply), FinishReason::stop);
  const ReadChoice& choice = reply.first();
  EXPECT_EQ(choice.reasoning, "Let me see.");
  EXPECT_EQ(choice.text, "I call.");
  ASSERT_EQ(choice.calls.size(), 2u);
  EXPECT_EQ(choice.calls[0].name, "get");
  EXPECT_EQ(to_json(*parse_json(choice.calls[0].arguments)), R"({"city":"Köln","n":[1,2]})");
  EXPECT_EQ(choice.calls[1].name, "put");
  EXPECT_EQ(choice.finish_reason, "tool_calls");
  EXPECT_EQ(choice.calls[0].id.size(), 29u);
  EXPECT_TRUE(choice.calls[0].id.starts_with("call_"));
  EXPECT_NE(choice.calls[0].id, choice.calls[1].id);
  const int thoughts =
      reply.usage.at("completion_tokens_details").at("reasoning_tokens").to_number<int>();
  EXPECT_GE(thoughts, 10);
  EXPECT_LE(thoughts, 30);
}

// Grammars cannot keep an open object from repeating a name.
TEST_F(ChoiceSinkTest, CallsThatRepeatANameAreCalls) {
  Script script = tools();
  script.parser.in_reasoning = false;
  for (const bool are_constrained : {false, true}) {
    script.parser.calls_are_constrained = are_constrained;
    const ReadReply reply = run_both(script,
                                     byte_tokens("<tool_call>\n{\"name\": \"get\", \"arguments\": "
                                                 "{\"a\": 0, \"a\": 2}}\n</tool_call>"),
                                     FinishReason::stop);
    ASSERT_EQ(reply.first().calls.size(), 1u);
    EXPECT_EQ(reply.first().finish_reason, "tool_calls");
  }
}

TEST_F(ChoiceSinkTest, ThoughtsTextAndCallsAtEveryCut) {
  const std::string text = kCallReply;
  for (std::size_t cut = 1; cut < text.size(); cut++) {
    for (const FinishReason reason : {FinishReason::length, FinishReason::stop}) {
      const ReadReply reply = run_both(tools(), byte_tokens(text.substr(0, cut)), reason);
      const ReadChoice& choice = reply.first();
      if (reason == FinishReason::length) {
        ASSERT_EQ(choice.finish_reason, "length");
      } else {
        const bool has_whole = !choice.calls.empty() && parse_json(choice.calls[0].arguments);
        ASSERT_EQ(choice.finish_reason, has_whole ? "tool_calls" : "stop") << cut;
      }
    }
  }
}

// The text that stop strings see is the one that is generated.
TEST_F(ChoiceSinkTest, StopsInThoughtsAndCalls) {
  Script script = tools();
  script.stop = {"me see"};
  const ReadReply thought = run_both(script, byte_tokens(kCallReply));
  EXPECT_EQ(thought.first().reasoning, "Let ");
  EXPECT_EQ(thought.first().finish_reason, "stop");
  script.stop = {"</tool_call>"};
  const ReadReply call = run_both(script, byte_tokens(kCallReply));
  EXPECT_EQ(call.first().finish_reason.empty(), false);
  EXPECT_LE(call.first().calls.size(), 1u);
}

TEST_F(ChoiceSinkTest, SpecialTokensPartTheText) {
  Script script = tools();
  script.stop = {"one two"};
  std::vector<TokenId> tokens = byte_tokens("say one");
  tokens.push_back(testing::kTinyEndOfTurn);  // no marker of this format
  for (const TokenId token : byte_tokens(" two three")) tokens.push_back(token);
  EXPECT_EQ(run_both(script, tokens).first().text, "say one two three");
  // Plain replies know no special tokens: there is only text.
  Script plain = completion({"one two"});
  EXPECT_EQ(run_both(plain, tokens).first().text, "say ");
}

TEST_F(ChoiceSinkTest, WholeMessageOfCallsAloneHasNoContent) {
  const std::string text =
      "<tool_call>\n{\"name\": \"put\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  const JsonValue message = run(tools(), byte_tokens(text), end_of(FinishReason::stop))
                                .json()
                                .at("choices")
                                .at(0)
                                .at("message");
  EXPECT_TRUE(message.at("content").is_null());
  EXPECT_TRUE(message.at("refusal").is_null());
  EXPECT_FALSE(message.as_object().contains("reasoning_content"));
  EXPECT_EQ(message.at("tool_calls").as_array().size(), 1u);
}

TEST_F(ChoiceSinkTest, ErrorBeforeTheHeadIsAnHonestStatus) {
  SequenceEnd end = end_of(FinishReason::error);
  end.error = Error{Errc::corrupt, "not finite", ""};
  const Reply reply = run(completion({}, true), {}, end);
  EXPECT_EQ(reply.head.status, 500);
  EXPECT_EQ(reply.error_code(), "generation_failed");
  EXPECT_FALSE(reply.head.streamed);
}

TEST_F(ChoiceSinkTest, ErrorInAStreamIsAnEventAndTheEnd) {
  const SequenceEnd end = end_of(FinishReason::cancelled);
  const Reply reply = run(completion({}, true), byte_tokens("abc"), end);
  EXPECT_EQ(reply.head.status, 200);
  const std::vector<std::string> events = events_of(reply.body);
  EXPECT_EQ(parse_json(events.back())->at("error").at("code").as_string(), "server_stopping");
  const Reply whole = run(completion(), byte_tokens("abc"), end);
  EXPECT_EQ(whole.head.status, 503);
}

TEST_F(ChoiceSinkTest, EndWithoutTokens) {
  SequenceEnd end = end_of(FinishReason::stop);
  end.usage.cached_tokens = 9;
  for (const bool is_chat : {false, true}) {
    Script script;
    script.is_chat = is_chat;
    script.stream = true;
    const Reply reply = run(script, {}, end);
    EXPECT_EQ(reply.header("x-reprise-cache"), "hit; matched=9");
    EXPECT_EQ(read_stream(reply).first().finish_reason, "stop");
    script.stream = false;
    EXPECT_EQ(read_whole(run(script, {}, end)).first().text, "");
  }
}

// ---- several choices --------------------------------------------------------------------------

TEST_F(ChoiceSinkTest, ChoicesEndInAnyOrder) {
  for (const bool stream : {false, true}) {
    Script script;
    script.choices = 3;
    script.stream = stream;
    const auto mine = desk(script);
    Usage first;
    first.prompt_tokens = 10;
    first.cached_tokens = 4;
    mine->sinks[0]->on_prompt_done(first);
    EXPECT_TRUE(mine->feed(2, byte_tokens("two")));
    EXPECT_TRUE(mine->feed(0, byte_tokens("nul")));
    SequenceEnd end = end_of(FinishReason::stop);
    end.usage = first;
    end.usage.completion_tokens = 3;
    mine->end(2, end);
    EXPECT_TRUE(mine->feed(1, byte_tokens("one")));
    end.usage.cached_tokens = 9;
    mine->end(1, end);
    EXPECT_EQ(mine->listener.reply.ends, 0);
    EXPECT_TRUE(mine->feed(0, byte_tokens("l")));
    end.usage.cached_tokens = 4;
    end.usage.completion_tokens = 4;
    mine->end(0, end);
    const Reply reply = mine->read();
    EXPECT_EQ(reply.header("x-reprise-cache"), "hit; matched=4");
    const ReadReply read = stream ? read_stream(reply) : read_whole(reply);
    EXPECT_EQ(read.choices.at(0).text, "null");
    EXPECT_EQ(read.choices.at(1).text, "one");
    EXPECT_EQ(read.choices.at(2).text, "two");
    EXPECT_EQ(read.usage.at("prompt_tokens").to_number<int>(), 10);
    EXPECT_EQ(read.usage.at("completion_tokens").to_number<int>(), 10);
    EXPECT_EQ(read.usage.at("prompt_tokens_details").at("cached_tokens").to_number<int>(), 4);
  }
}

TEST_F(ChoiceSinkTest, OneChoiceInErrorEndsTheReply) {
  for (const bool stream : {false, true}) {
    Script script;
    script.choices = 3;
    script.stream = stream;
    const auto mine = desk(script);
    EXPECT_TRUE(mine->feed(0, byte_tokens("a")));
    mine->end(0, end_of(FinishReason::stop));
    EXPECT_TRUE(mine->feed(1, byte_tokens("b")));
    SequenceEnd error = end_of(FinishReason::error);
    error.error = Error{Errc::exhausted, "no room", ""};
    mine->end(1, error);
    // The last one is told at its next token, and says nothing more.
    EXPECT_FALSE(mine->feed(2, byte_tokens("c")));
    EXPECT_EQ(mine->verdict, SequenceSink::Verdict::cancel);
    mine->end(2, end_of(FinishReason::cancelled));
    const Reply reply = mine->read();
    EXPECT_EQ(reply.ends, 1);
    if (stream) {
      EXPECT_EQ(parse_json(events_of(reply.body).back())->at("error").at("code").as_string(),
                "overloaded");
    } else {
      EXPECT_EQ(reply.head.status, 503);
      EXPECT_EQ(reply.error_code(), "overloaded");
    }
  }
}

TEST_F(ChoiceSinkTest, AbandonedChannelCancelsAllChoices) {
  for (const bool stream : {false, true}) {
    Script script;
    script.choices = 2;
    script.stream = stream;
    const auto mine = desk(script);
    EXPECT_TRUE(mine->feed(0, byte_tokens("a")));
    mine->listener.channel->abandon();
    for (const std::size_t choice : {0u, 1u}) {
      EXPECT_FALSE(mine->feed(choice, byte_tokens("b")));
      EXPECT_EQ(mine->verdict, SequenceSink::Verdict::cancel);
      mine->end(choice, end_of(FinishReason::cancelled));
    }
    EXPECT_FALSE(mine->listener.channel->pop());
    mine->live.cancel_and_wait();  // the group is gone
  }
}

// The client leaves before anything: the sinks go without an end, and the group with them.
TEST_F(ChoiceSinkTest, RefusedRequestLeavesNothing) {
  Script script;
  script.choices = 2;
  const auto mine = desk(script);
  mine->sinks.clear();
  mine->live.cancel_and_wait();
  EXPECT_FALSE(mine->listener.channel->pop());
}

}  // namespace
}  // namespace reprise
