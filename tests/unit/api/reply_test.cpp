// A stream says what the whole reply says: text, token ids, log probabilities, of every choice and
// for every cut.
#include <algorithm>
#include <string>
#include <vector>

#include "api_fixture.h"
#include "reply_reader.h"

namespace reprise {
namespace {

using testing::ApiTest;
using testing::events_of;
using testing::read_stream;
using testing::read_whole;
using testing::ReadChoice;
using testing::ReadReply;
using testing::Reply;

class ReplyTest : public ApiTest {
 protected:
  // `members` of a chat or completion request, streamed and not. The whole reply.
  ReadReply expect_equal(const std::string& path, const std::string& members,
                         std::size_t choices = 1) {
    const ReadReply whole = read_whole(ask("POST", path, "{" + members + "}"));
    const ReadReply stream = read_stream(
        ask("POST", path,
            "{" + members + R"(,"stream":true,"stream_options":{"include_usage":true}})"));
    EXPECT_EQ(whole.summary(), stream.summary()) << members;
    EXPECT_EQ(whole.choices.size(), choices) << members;
    EXPECT_EQ(stream.usages, 1);
    EXPECT_EQ(whole.usages, 1);
    for (const char* name : {"prompt_tokens", "completion_tokens", "total_tokens"}) {
      EXPECT_EQ(to_json(whole.usage.at(name)), to_json(stream.usage.at(name))) << name;
    }
    return whole;
  }
};

const char* const kChat = "/v1/chat/completions";
const char* const kCompletions = "/v1/completions";

TEST_F(ReplyTest, StreamEqualsWholeForEveryLength) {
  for (int tokens = 1; tokens <= 24; tokens++) {
    const std::string shared = R"("model":"tiny","seed":3,"temperature":1,"n":2,)"
                               R"("return_token_ids":true,"max_tokens":)" +
                               std::to_string(tokens);
    const ReadReply chat =
        expect_equal(kChat,
                     shared + R"(,"logprobs":true,"top_logprobs":2,"messages":[{"role":"user",)"
                              R"("content":"tell"}])",
                     2);
    expect_equal(kCompletions, shared + R"(,"logprobs":2,"prompt":"once upon")", 2);
    if (tokens < 8) continue;
    EXPECT_NE(chat.choices.at(0).summary(), chat.choices.at(1).summary())
        << "two draws of one seed";
  }
}

TEST_F(ReplyTest, StreamEqualsWholeForEveryStop) {
  const std::string shared =
      R"("model":"tiny","seed":8,"temperature":1.5,"return_token_ids":true,"max_tokens":40,"n":2,)"
      R"("prompt":"once upon")";
  const ReadReply full = read_whole(complete("{" + shared + "}"));
  const std::string text = full.first().text;
  ASSERT_GT(text.size(), 20u);
  int stopped = 0;
  for (std::size_t at = 0; at + 6 < text.size(); at += 3) {
    for (const std::size_t length : {1u, 2u, 5u}) {
      const std::string stop = text.substr(at, length);
      const bool is_ascii = std::ranges::all_of(stop, [](char c) { return c >= ' ' && c < 127; });
      if (!is_ascii) continue;
      std::string stops;
      append_json_text(stops, stop);
      stops = ",\"stop\":[" + stops + ",\"never said at all\"]";
      const ReadReply reply = expect_equal(kCompletions, shared + stops, 2);
      EXPECT_EQ(reply.first().text, text.substr(0, text.find(stop)));
      EXPECT_EQ(reply.first().finish_reason, "stop");
      const std::string& other = full.choices.at(1).text;
      EXPECT_EQ(reply.choices.at(1).text, other.substr(0, other.find(stop)));
      stopped++;
    }
  }
  EXPECT_GT(stopped, 3);
}

TEST_F(ReplyTest, UsageOnlyWhenAskedFor) {
  const std::string members = R"({"model":"tiny","temperature":0,"max_tokens":3,"prompt":"a")";
  const ReadReply without = read_stream(complete(members + R"(,"stream":true})"));
  EXPECT_EQ(without.usages, 0);
  EXPECT_EQ(complete(members + R"(,"stream":true})").body.find("usage"), std::string::npos);
  const Reply with =
      complete(members + R"(,"stream":true,"stream_options":{"include_usage":true}})");
  const std::vector<std::string> events = events_of(with.body);
  const JsonValue last = *parse_json(events[events.size() - 2]);
  EXPECT_TRUE(last.at("choices").as_array().empty());
  EXPECT_TRUE(last.at("usage").at("prompt_tokens_details").is_object());
  EXPECT_EQ(read_stream(with).null_usages, static_cast<int>(events.size()) - 2);
}

TEST_F(ReplyTest, UsageCountsAPromptOnceForItsChoices) {
  const auto tokens = [](const ReadReply& reply, const char* name) {
    return reply.usage.at(name).to_number<int>();
  };
  const std::string shared = R"("model":"tiny","seed":5,"max_tokens":4,"ignore_eos":true,)";
  const ReadReply one = read_whole(complete("{" + shared + R"("prompt":"the rain in spain"})"));
  const ReadReply other = read_whole(complete("{" + shared + R"("prompt":"stays"})"));
  const ReadReply all =
      expect_equal(kCompletions, shared + R"("n":3,"prompt":["the rain in spain","stays"])", 6);
  EXPECT_EQ(tokens(all, "prompt_tokens"),
            tokens(one, "prompt_tokens") + tokens(other, "prompt_tokens"));
  EXPECT_EQ(tokens(all, "completion_tokens"), 24);
  EXPECT_LE(all.usage.at("prompt_tokens_details").at("cached_tokens").to_number<int>(),
            tokens(all, "prompt_tokens") - 2);
  // A prompt's first choice is the reply that it has alone.
  EXPECT_EQ(all.choices.at(0).text, one.first().text);
  EXPECT_EQ(all.choices.at(3).text, other.first().text);
}

TEST_F(ReplyTest, ChatUsageNamesTheTokensOfThoughts) {
  const std::string messages = R"("messages":[{"role":"user","content":"tell"}])";
  const ReadReply reply =
      expect_equal(kChat, R"("model":"tiny","seed":1,"max_tokens":3,)" + messages);
  EXPECT_EQ(to_json(reply.usage.at("completion_tokens_details")), R"({"reasoning_tokens":0})");
}

TEST_F(ReplyTest, EchoBeginsWithThePrompt) {
  const std::string shared = R"("model":"tiny","temperature":0,"max_tokens":5,"n":2,)";
  const ReadReply plain = read_whole(complete("{" + shared + R"("prompt":"once upon"})"));
  const ReadReply echo =
      expect_equal(kCompletions, shared + R"("prompt":"once upon","echo":true)", 2);
  for (const auto& [index, choice] : echo.choices) {
    EXPECT_EQ(choice.text, "once upon" + plain.choices.at(index).text);
  }
}

TEST_F(ReplyTest, EchoWithLogprobs) {
  const std::string shared =
      R"("model":"tiny","temperature":0,"logprobs":1,"return_token_ids":true,"echo":true,)";
  const ReadReply reply =
      expect_equal(kCompletions, shared + R"("max_tokens":4,"prompt":["once upon","a"])", 2);
  for (const auto& [index, choice] : reply.choices) {
    const JsonArray& tokens = choice.logprobs.at("tokens");
    const JsonArray& logprobs = choice.logprobs.at("token_logprobs");
    const JsonArray& offsets = choice.logprobs.at("text_offset");
    ASSERT_EQ(tokens.size(), choice.prompt_ids.size() + choice.ids.size());
    EXPECT_TRUE(logprobs.at(0).is_null());
    EXPECT_TRUE(choice.logprobs.at("top_logprobs").at(0).is_null());
    for (std::size_t i = 1; i < logprobs.size(); i++) {
      EXPECT_LE(logprobs.at(i).to_number<double>(), 0) << i;
    }
    // The added bos has no text; what follows stands where its offset says.
    EXPECT_EQ(tokens.at(0).as_string(), "<bos>");
    for (std::size_t i = 1; i < choice.prompt_ids.size(); i++) {
      const std::string token(tokens.at(i).as_string());
      EXPECT_EQ(choice.text.substr(offsets.at(i).to_number<std::size_t>(), token.size()), token);
    }
  }
  // The prompt's probabilities alone: what the same prompt says as a reply's beginning.
  const ReadReply alone = expect_equal(kCompletions, shared + R"("max_tokens":0,"prompt":"a b")");
  EXPECT_EQ(alone.first().text, "a b");
  EXPECT_EQ(alone.first().finish_reason, "length");
  EXPECT_EQ(alone.first().logprobs.at("tokens").size(), alone.first().prompt_ids.size());
  EXPECT_EQ(alone.usage.at("completion_tokens").to_number<int>(), 0);
}

TEST_F(ReplyTest, EchoOfIdsSpellsThem) {
  const ReadReply reply = expect_equal(
      kCompletions, R"("model":"tiny","temperature":0,"max_tokens":2,"echo":true,"logprobs":0,)"
                    R"("prompt":[2,270,4,271])");
  const ReadChoice& choice = reply.first();
  EXPECT_TRUE(choice.text.starts_with("<bos>")) << choice.text;
  const JsonArray& offsets = choice.logprobs.at("text_offset");
  const JsonArray& tokens = choice.logprobs.at("tokens");
  for (std::size_t i = 0; i < 4; i++) {
    const std::string token(tokens.at(i).as_string());
    EXPECT_EQ(choice.text.substr(offsets.at(i).to_number<std::size_t>(), token.size()), token) << i;
  }
}

TEST_F(ReplyTest, ProgressOfALongPrompt) {
  EngineOptions options;
  options.prefill_rows_max = 32;
  start({}, options, {});
  const std::string prompt(200, 'e');
  const std::string body = R"({"model":"tiny","temperature":0,"max_tokens":2,"stream":true,)"
                           R"("return_progress":true,"prompt":")" +
                           prompt + "\"}";
  const Reply first = complete(body);
  const ReadReply read = read_stream(first);
  EXPECT_GE(read.progresses, 4);
  std::int64_t last = 0, total = 0;
  for (const std::string& event : events_of(first.body)) {
    if (event.find("prompt_progress") == std::string::npos) break;
    const JsonValue progress = parse_json(event)->at("prompt_progress");
    EXPECT_GT(progress.at("processed").to_number<std::int64_t>(), last);
    last = progress.at("processed").to_number<std::int64_t>();
    total = progress.at("total").to_number<std::int64_t>();
    EXPECT_EQ(progress.at("cache").to_number<int>(), 0);
    EXPECT_GE(progress.at("time_ms").to_number<int>(), 0);
  }
  EXPECT_EQ(last, total);
  EXPECT_EQ(first.header("x-reprise-cache"), "(none)");  // not known yet
  // What the cache gave is known from the first progress on.
  const Reply again = complete(body);
  const std::string event = events_of(again.body).front();
  const JsonValue progress = parse_json(event)->at("prompt_progress");
  EXPECT_EQ(progress.at("cache").to_number<std::int64_t>(), total - 1);
  EXPECT_EQ(again.header("x-reprise-cache"), "hit; matched=" + std::to_string(total - 1));
  // In the chat's form too; and nowhere in whole replies.
  const Reply chatted =
      chat(R"({"model":"tiny","max_tokens":1,"stream":true,"return_progress":true,)"
           R"("messages":[{"role":"user","content":"tell"}]})");
  EXPECT_EQ(read_stream(chatted).progresses, 1);
}

TEST_F(ReplyTest, LlamaCompletion) {
  const std::string members = R"("prompt":"once upon","n_predict":12,"temperature":0,)"
                              R"("n_probs":2,"return_tokens":true)";
  const Reply reply = ask("POST", "/completion", "{" + members + "}");
  ASSERT_EQ(reply.head.status, 200) << reply.body;
  const JsonValue whole = reply.json();
  EXPECT_TRUE(whole.at("stop").as_bool());
  EXPECT_EQ(whole.at("tokens_predicted").to_number<int>(), 12);
  EXPECT_EQ(whole.at("stop_type").as_string(), "limit");
  EXPECT_EQ(whole.at("stopping_word").as_string(), "");
  EXPECT_EQ(whole.at("tokens").as_array().size(), 12u);
  EXPECT_EQ(whole.at("completion_probabilities").as_array().size(), 12u);
  EXPECT_EQ(whole.at("completion_probabilities").at(0).at("top_logprobs").as_array().size(), 2u);
  EXPECT_EQ(whole.at("generation_settings").at("n_predict").to_number<int>(), 12);
  const JsonValue& timings = whole.at("timings");
  EXPECT_EQ(timings.at("predicted_n").to_number<int>(), 12);
  EXPECT_EQ(timings.at("prompt_n").to_number<int>() + timings.at("cache_n").to_number<int>(),
            whole.at("tokens_evaluated").to_number<int>());
  EXPECT_GT(timings.at("predicted_per_second").to_number<double>(), 0);

  const Reply streamed = ask("POST", "/completions", "{" + members + R"(,"stream":true})");
  std::string text;
  std::size_t tokens = 0, probabilities = 0;
  const std::vector<std::string> events = events_of(streamed.body);
  for (const std::string& event : events) {
    const JsonValue piece = *parse_json(testing::without_nul(event));
    text += std::string_view(piece.at("content").as_string());
    tokens += piece.at("tokens").as_array().size();
    if (const JsonValue* list = piece.as_object().if_contains("completion_probabilities")) {
      probabilities += list->as_array().size();
    }
    EXPECT_EQ(piece.at("stop").as_bool(), &event == &events.back());
  }
  EXPECT_EQ(text, whole.at("content").as_string());
  EXPECT_EQ(tokens, 12u);
  EXPECT_EQ(probabilities, 12u);
  EXPECT_EQ(parse_json(events.back())->at("stop_type").as_string(), "limit");

  const std::string word = std::string(whole.at("content").as_string()).substr(4, 2);
  std::string stop;
  append_json_text(stop, word);
  const JsonValue stopped =
      ask("POST", "/completion", "{" + members + ",\"stop\":[" + stop + "]}").json();
  EXPECT_EQ(stopped.at("stop_type").as_string(), "word");
  EXPECT_EQ(stopped.at("stopping_word").as_string(), word);
}

}  // namespace
}  // namespace reprise
