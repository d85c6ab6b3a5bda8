// A stream says what the whole reply says: text, token ids, log probabilities, for every cut.
#include <map>
#include <string>
#include <vector>

#include "api/metrics.h"
#include "api/text_sink.h"
#include "api_fixture.h"

namespace reprise {
namespace {

using testing::ApiTest;
using testing::kTinyFirstByte;
using testing::Listener;
using testing::Reply;

struct Content {
  std::string text;
  std::string finish_reason;
  JsonArray ids;
  // By list name: "content" of chat; "tokens", "text_offset" ... of completions.
  std::map<std::string, JsonArray> logprobs;
  int usages = 0;
  JsonValue usage;

  std::string summary() const {
    std::string result = text + "|" + finish_reason + "|" + to_json(ids);
    for (const auto& [name, list] : logprobs) result += "|" + name + to_json(list);
    return result;
  }
};

void add_logprobs(Content& content, const JsonValue& value) {
  if (value.is_null()) return;
  for (const auto& member : value.as_object()) {
    if (!member.value().is_array()) continue;
    JsonArray& list = content.logprobs[std::string(member.key())];
    for (const JsonValue& item : member.value().get_array()) list.push_back(item);
  }
}

void add_choice(Content& content, const JsonObject& choice) {
  const JsonValue* text = choice.if_contains("text");
  for (const char* holder : {"message", "delta"}) {
    const JsonValue* object = choice.if_contains(holder);
    if (object) text = object->as_object().if_contains("content");
  }
  if (text) content.text += std::string_view(text->as_string());
  if (choice.at("finish_reason").is_string()) {
    content.finish_reason += std::string_view(choice.at("finish_reason").as_string());
  }
  if (const JsonValue* ids = choice.if_contains("token_ids")) {
    for (const JsonValue& id : ids->as_array()) content.ids.push_back(id);
  }
  add_logprobs(content, choice.at("logprobs"));
}

void add_object(Content& content, const JsonValue& object) {
  for (const JsonValue& choice : object.at("choices").as_array()) {
    add_choice(content, choice.as_object());
  }
  const JsonValue* usage = object.as_object().if_contains("usage");
  if (usage && !usage->is_null()) {
    content.usages++;
    content.usage = *usage;
  }
}

std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    EXPECT_EQ(body.substr(at, 6), "data: ");
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return events;
}

// Also checks the form: ids and fingerprints all alike, [DONE] at the end.
Content read_stream(const Reply& reply) {
  EXPECT_TRUE(reply.head.streamed);
  EXPECT_EQ(reply.head.content_type, "text/event-stream; charset=utf-8");
  Content content;
  std::vector<std::string> events = events_of(reply.body);
  EXPECT_FALSE(events.empty());
  if (events.empty()) return content;
  EXPECT_EQ(events.back(), "[DONE]");
  events.pop_back();
  std::string id;
  for (const std::string& event : events) {
    const Result<JsonValue> object = parse_json(event);
    EXPECT_TRUE(object) << event;
    if (!object) return content;
    if (id.empty()) id = std::string(object->at("id").as_string());
    EXPECT_EQ(object->at("id").as_string(), id);
    add_object(content, *object);
  }
  return content;
}

Content read_whole(const Reply& reply) {
  EXPECT_EQ(reply.head.status, 200) << reply.body;
  Content content;
  if (reply.head.status == 200) add_object(content, reply.json());
  return content;
}

class ReplyTest : public ApiTest {
 protected:
  // `members` of a chat or completion request, streamed and not.
  void expect_equal(const std::string& path, const std::string& members) {
    const Content whole = read_whole(ask("POST", path, "{" + members + "}"));
    const Content stream = read_stream(
        ask("POST", path,
            "{" + members + R"(,"stream":true,"stream_options":{"include_usage":true}})"));
    EXPECT_EQ(whole.summary(), stream.summary()) << members;
    EXPECT_EQ(stream.usages, 1);
    EXPECT_EQ(whole.usages, 1);
    EXPECT_EQ(to_json(whole.usage.at("completion_tokens")),
              to_json(stream.usage.at("completion_tokens")));
    EXPECT_FALSE(whole.ids.empty());
  }
};

const char* const kChat = "/v1/chat/completions";
const char* const kCompletions = "/v1/completions";

TEST_F(ReplyTest, StreamEqualsWholeForEveryLength) {
  for (int tokens = 1; tokens <= 24; tokens++) {
    const std::string shared = R"("model":"tiny","seed":3,"temperature":1,"return_token_ids":true,)"
                               R"("max_tokens":)" +
                               std::to_string(tokens);
    expect_equal(kChat, shared + R"(,"logprobs":true,"top_logprobs":2,"messages":[{"role":"user",)"
                                 R"("content":"tell"}])");
    expect_equal(kCompletions, shared + R"(,"logprobs":2,"prompt":"once upon")");
  }
}

TEST_F(ReplyTest, StreamEqualsWholeForEveryStop) {
  const std::string shared =
      R"("model":"tiny","seed":8,"temperature":1.5,"return_token_ids":true,"max_tokens":40,)"
      R"("prompt":"once upon")";
  const std::string text = read_whole(complete("{" + shared + "}")).text;
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
      expect_equal(kCompletions, shared + stops);
      const Content content = read_whole(complete("{" + shared + stops + "}"));
      EXPECT_EQ(content.text, text.substr(0, text.find(stop)));
      EXPECT_EQ(content.finish_reason, "stop");
      stopped++;
    }
  }
  EXPECT_GT(stopped, 3);
}

TEST_F(ReplyTest, UsageOnlyWhenAskedFor) {
  const std::string members = R"({"model":"tiny","temperature":0,"max_tokens":3,"prompt":"a")";
  const Content without = read_stream(complete(members + R"(,"stream":true})"));
  EXPECT_EQ(without.usages, 0);
  EXPECT_EQ(complete(members + R"(,"stream":true})").body.find("usage"), std::string::npos);
  const Reply with =
      complete(members + R"(,"stream":true,"stream_options":{"include_usage":true}})");
  const std::vector<std::string> events = events_of(with.body);
  const JsonValue last = *parse_json(events[events.size() - 2]);
  EXPECT_TRUE(last.at("choices").as_array().empty());
  EXPECT_TRUE(last.at("usage").at("prompt_tokens_details").is_object());
  EXPECT_TRUE(parse_json(events[0])->at("usage").is_null());
}

// ---- the sink alone, with tokens of our choice ------------------------------------------------

class SinkTest : public ApiTest {
 protected:
  // What the sink makes of byte tokens. The reply ends early when the sink says so.
  Reply run(std::string_view bytes, const std::vector<std::string>& stop, bool stream,
            SequenceEnd end = {}) {
    LiveRequests live;
    Metrics metrics(*engine);
    Listener listener;
    ReplyPlan plan;
    plan.identity = {ReplyKind::completion, "id", "tiny", "fp", 0};
    plan.stop = stop;
    plan.stream = stream;
    plan.return_token_ids = true;
    plan.accepted_at = std::chrono::steady_clock::now();
    TextSink sink(bundle->tokenizer(), plan, listener.channel, metrics, live.enter());
    for (const char byte : bytes) {
      const auto token = static_cast<TokenId>(kTinyFirstByte + static_cast<unsigned char>(byte));
      verdict = sink.on_token({token, 0, {}});
      if (verdict != SequenceSink::Verdict::go_on) break;
    }
    sink.on_end(end);
    EXPECT_TRUE(listener.read_all());
    return std::move(listener.reply);
  }
  Content content(std::string_view bytes, const std::vector<std::string>& stop, bool stream) {
    SequenceEnd end;
    end.reason = FinishReason::length;
    const Reply reply = run(bytes, stop, stream, end);
    return stream ? read_stream(reply) : read_whole(reply);
  }

  SequenceSink::Verdict verdict = SequenceSink::Verdict::go_on;
};

TEST_F(SinkTest, CharactersAndStopsAtEveryCut) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 DEFGHI DEFGHIJ tail \xFF.";
  const std::vector<std::vector<std::string>> stops = {{},
                                                       {"DEFGHIJ"},
                                                       {"\xE2\x82\xAC"},
                                                       {"GHIX", "FGHIJ", "J t"},
                                                       {"tail", "il"},
                                                       {"\xEF\xBF\xBD"}};
  for (const std::vector<std::string>& stop : stops) {
    for (std::size_t cut = 1; cut <= text.size(); cut++) {
      const std::string_view part = std::string_view(text).substr(0, cut);
      const Content whole = content(part, stop, false);
      const Content stream = content(part, stop, true);
      ASSERT_EQ(whole.summary(), stream.summary()) << cut;
      for (const std::string& word : stop) {
        ASSERT_EQ(whole.text.find(word), std::string::npos) << cut;
      }
    }
  }
}

TEST_F(SinkTest, StopIsFoundAndNothingOfItSent) {
  const Content found = content("say DEFGHIJ now", {"DEFGHIJ"}, true);
  EXPECT_EQ(found.text, "say ");
  EXPECT_EQ(found.finish_reason, "stop");
  EXPECT_EQ(found.ids.size(), 11u);  // the hidden tokens were sampled too
  EXPECT_EQ(verdict, SequenceSink::Verdict::stop);
  const Content unfinished = content("say DEFGHI", {"DEFGHIJ"}, true);
  EXPECT_EQ(unfinished.text, "say DEFGHI");
  EXPECT_EQ(unfinished.finish_reason, "length");
}

TEST_F(SinkTest, ErrorBeforeTheHeadIsAnHonestStatus) {
  SequenceEnd end;
  end.reason = FinishReason::error;
  end.error = Error{Errc::corrupt, "not finite", ""};
  const Reply reply = run("", {}, true, end);
  EXPECT_EQ(reply.head.status, 500);
  EXPECT_EQ(reply.error_code(), "generation_failed");
  EXPECT_FALSE(reply.head.streamed);
}

TEST_F(SinkTest, ErrorInAStreamIsAnEventAndTheEnd) {
  SequenceEnd end;
  end.reason = FinishReason::cancelled;
  const Reply reply = run("abc", {}, true, end);
  EXPECT_EQ(reply.head.status, 200);
  const std::vector<std::string> events = events_of(reply.body);
  EXPECT_EQ(parse_json(events.back())->at("error").at("code").as_string(), "server_stopping");
  const Reply whole = run("abc", {}, false, end);
  EXPECT_EQ(whole.head.status, 503);
}

TEST_F(SinkTest, EndWithoutTokens) {
  SequenceEnd end;
  end.reason = FinishReason::stop;
  end.usage.cached_tokens = 9;
  const Reply reply = run("", {}, true, end);
  EXPECT_EQ(reply.header("x-reprise-cache"), "hit; matched=9");
  EXPECT_EQ(read_stream(reply).finish_reason, "stop");
  EXPECT_EQ(read_whole(run("", {}, false, end)).text, "");
}

TEST_F(SinkTest, AbandonedChannelCancels) {
  LiveRequests live;
  Metrics metrics(*engine);
  const auto channel = std::make_shared<StreamChannel>();
  ReplyPlan plan;
  plan.accepted_at = std::chrono::steady_clock::now();
  TextSink sink(bundle->tokenizer(), plan, channel, metrics, live.enter());
  EXPECT_EQ(sink.on_token({kTinyFirstByte + 'a', 0, {}}), SequenceSink::Verdict::go_on);
  channel->abandon();
  EXPECT_EQ(sink.on_token({kTinyFirstByte + 'b', 0, {}}), SequenceSink::Verdict::cancel);
  SequenceEnd end;
  end.reason = FinishReason::cancelled;
  sink.on_end(end);
  EXPECT_FALSE(channel->pop());
}

}  // namespace
}  // namespace reprise
