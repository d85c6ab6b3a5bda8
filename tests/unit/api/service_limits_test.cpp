// The desk at its limits: time, full queues, an engine that failed.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/service.h"
#include "api_fixture.h"

namespace reprise {
namespace {

using testing::ApiTest;
using testing::Listener;
using testing::Reply;

std::string chat_body(const std::string& text, const std::string& more = "") {
  return R"({"model":"tiny","temperature":1,"seed":4,"messages":[{"role":"user","content":")" +
         text + "\"}]" + more + "}";
}

class LimitsTest : public ApiTest {
 protected:
  // An engine whose every step takes that long.
  static EngineOptions slow_engine(int milliseconds) {
    EngineOptions options;
    options.context_length = 4096;
    options.before_forward = [milliseconds] {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    };
    return options;
  }
  static std::string message_of(const Reply& reply) {
    return std::string(reply.json().at("error").at("message").as_string());
  }
};

TEST_F(LimitsTest, ARequestMayLimitItsTime) {
  start({}, slow_engine(20), {});
  const Reply reply = chat(chat_body("go on", R"(,"timeout":0.1)"));
  EXPECT_EQ(reply.head.status, 504);
  EXPECT_EQ(reply.error_code(), "timeout");
  EXPECT_NE(message_of(reply).find("limit of 100 ms"), std::string::npos) << message_of(reply);
  // Both numbers: the time that had passed is the larger one.
  const std::string message = message_of(reply);
  EXPECT_GE(std::stoi(message.substr(message.find(": ") + 2)), 100) << message;
  EXPECT_EQ(engine->stats().ends_timeout, 1u);
  EXPECT_EQ(chat(chat_body("hi", R"(,"max_tokens":1,"timeout":60)")).head.status, 200);
  EXPECT_NE(ask("GET", "/metrics").body.find(R"(ended_total{reason="timeout"} 1)"),
            std::string::npos);
}

TEST_F(LimitsTest, AStreamThatBeganEndsWithAnErrorEvent) {
  start({}, slow_engine(20), {});
  const Reply reply = chat(chat_body("go on", R"(,"timeout":0.3,"stream":true)"));
  EXPECT_EQ(reply.head.status, 200);
  EXPECT_TRUE(reply.head.streamed);
  const std::size_t last = reply.body.rfind("data: ");
  ASSERT_NE(last, std::string::npos);
  const Result<JsonValue> event = parse_json(reply.body.substr(last + 6));
  ASSERT_TRUE(event) << reply.body.substr(last);
  EXPECT_EQ(event->at("error").at("code").as_string(), "timeout");
  EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos);
}

// The server's limit is what requests get that name none, and the most that they may name.
TEST_F(LimitsTest, TheServersTimeLimit) {
  ServiceOptions options;
  options.request_timeout_ms = 200;
  start({}, slow_engine(20), options);
  const Reply late = chat(chat_body("go on"));
  EXPECT_EQ(late.head.status, 504);
  EXPECT_NE(message_of(late).find("limit of 200 ms"), std::string::npos) << message_of(late);
  const Reply refused = chat(chat_body("go on", R"(,"timeout":5)"));
  EXPECT_EQ(refused.head.status, 400);
  EXPECT_EQ(message_of(refused), "timeout: got 5, expected 0 to 0.2");
  const Reply shorter = chat(chat_body("go on", R"(,"timeout":0.1)"));
  EXPECT_NE(message_of(shorter).find("limit of 100 ms"), std::string::npos) << message_of(shorter);
}

TEST_F(LimitsTest, PrioritiesAreAccepted) {
  for (const char* priority : {"low", "normal", "high"}) {
    const std::string more = std::string(R"(,"max_tokens":1,"priority":")") + priority + '"';
    EXPECT_EQ(chat(chat_body("hi", more)).head.status, 200);
  }
  const Reply refused = chat(chat_body("hi", R"(,"priority":-1)"));
  EXPECT_EQ(refused.error_code(), "invalid_type");
  EXPECT_EQ(message_of(refused),
            "priority: got an integer, expected \"low\", \"normal\" or \"high\"");
}

// A budget that holds less than the context: what is advertised is what fits, to the token.
TEST_F(LimitsTest, TheAdvertisedLengthIsEnforced) {
  EngineOptions options;
  options.context_length = 4096;
  options.kv_budget_bytes = std::size_t{1} << 20;
  start({}, options, {});
  const Position fitting = engine->fitting_length();
  ASSERT_GT(fitting, 64);
  ASSERT_LT(fitting, 4096);
  EXPECT_EQ(ask("GET", "/v1/models/tiny").json().at("max_model_len").to_number<Position>(),
            fitting);
  const auto complete_ids = [&](Position tokens, const std::string& more) {
    std::string ids = "[2";
    for (Position i = 1; i < tokens; i++) ids += ",270";
    return complete(R"({"temperature":0,"prompt":)" + ids + "]" + more + "}");
  };
  EXPECT_EQ(complete_ids(fitting - 1, "").head.status, 200);
  EXPECT_EQ(complete_ids(40, "").head.status, 200);  // no max_tokens: what there is
  EXPECT_EQ(complete_ids(fitting - 1, R"(,"max_tokens":1)").head.status, 200);
  // The last token of a reply is not forwarded, and needs no place.
  EXPECT_EQ(complete_ids(fitting, "").head.status, 200);
  EXPECT_EQ(complete_ids(fitting, R"(,"max_tokens":1)").head.status, 200);
  for (const Reply& refused :
       {complete_ids(fitting + 1, ""), complete_ids(fitting + 1, R"(,"max_tokens":1)"),
        complete_ids(fitting, R"(,"max_tokens":2)")}) {
    EXPECT_EQ(refused.head.status, 400);
    EXPECT_EQ(refused.error_code(), "context_length_exceeded");
    EXPECT_NE(message_of(refused).find(std::to_string(fitting)), std::string::npos)
        << message_of(refused);
  }
  EXPECT_EQ(ask("GET", "/health").head.status, 200);
}

TEST_F(LimitsTest, TooManyMessages) {
  std::string body = R"({"messages":[{"role":"user","content":"a"})";
  for (int i = 1; i < 4097; i++) body += R"(,{"role":"user","content":"a"})";
  const Reply reply = chat(body + "]}");
  EXPECT_EQ(reply.head.status, 400);
  EXPECT_EQ(message_of(reply), "messages: got 4097 messages, expected at most 4096");
}

// A schema that outgrows the matcher in the middle of a reply is the client's, whole or streamed.
TEST_F(LimitsTest, ASchemaThatIsTooLargeFurtherIn) {
  std::string objects;
  for (int i = 0; i < 240; i++) {
    std::string names;
    for (int j = 0; j < 100; j++) {
      names += (j > 0 ? ",\"p" : "\"p") + std::to_string(i) + "_" + std::to_string(j) +
               R"(":{"type":"integer"})";
    }
    objects += (i > 0 ? "," : "") + (R"({"type":"object","properties":{)" + names + "}}");
  }
  const std::string format =
      R"(,"max_tokens":100,"response_format":{"type":"json_schema","json_schema":{"name":"s",)"
      R"("schema":{"type":"object","additionalProperties":false,"required":["a"],)"
      R"("properties":{"a":{"anyOf":[)" +
      objects + "]}}}}}";
  const Reply whole = chat(chat_body("hi", format));
  EXPECT_EQ(whole.head.status, 400) << whole.body.substr(0, 300);
  EXPECT_EQ(whole.error_code(), "invalid_value");
  EXPECT_EQ(whole.json().at("error").at("param"), "response_format.json_schema.schema");
  const Reply stream = chat(chat_body("hi", format + R"(,"stream":true)"));
  EXPECT_NE(stream.body.find("\"code\":\"invalid_value\""), std::string::npos) << stream.body;
  EXPECT_EQ(stream.body.find("[DONE]"), std::string::npos);
}

// Nobody can tell from a reply's id how many others there were, or guess theirs.
TEST_F(LimitsTest, RepliesIdsAreDrawn) {
  const auto digits = [&] {
    const JsonValue reply = chat(chat_body("hi", R"(,"max_tokens":1)")).json();
    const std::string id(reply.at("id").as_string());
    EXPECT_EQ(id.size(), std::string("chatcmpl-").size() + 24) << id;
    return id.substr(id.find('-') + 1);
  };
  const std::string first = digits(), second = digits();
  EXPECT_NE(first.substr(0, 8), second.substr(0, 8));
  EXPECT_NE(first.substr(8, 8), second.substr(8, 8));
  EXPECT_NE(first.substr(16), second.substr(16));
}

TEST_F(LimitsTest, MorePromptsThanRunAndWait) {
  EngineOptions options;
  options.sequences_max = 2;
  options.queue_max = 4;
  start({}, options, {});
  const Reply reply = complete(R"({"prompt":["a","a","a","a","a","a","a"],"max_tokens":1})");
  EXPECT_EQ(reply.head.status, 400);
  EXPECT_EQ(reply.json().at("error").at("param"), "prompt");
  EXPECT_NE(message_of(reply).find("got 7 prompts, expected at most 6"), std::string::npos)
      << message_of(reply);
  EXPECT_EQ(complete(R"({"prompt":["a","a","a","a","a","a"],"max_tokens":1})").head.status, 200);
}

// There is no reply to leave room for: a text need not fit into the context.
TEST_F(LimitsTest, TextsToTokenise) {
  const auto tokenize = [&](std::size_t bytes) {
    return ask("POST", "/tokenize", R"({"content":")" + std::string(bytes, 'e') + "\"}");
  };
  const Reply longer = tokenize(100'000);
  EXPECT_EQ(longer.head.status, 200) << longer.body.substr(0, 300);
  const Reply refused = tokenize((1 << 20) + 1);
  EXPECT_EQ(refused.head.status, 400);
  EXPECT_EQ(refused.error_code(), "invalid_value");
  EXPECT_EQ(message_of(refused), "content: got a text of 1048577 bytes, expected at most 1048576");
}

// ---- queues
// ---------------------------------------------------------------------------------------

TEST_F(LimitsTest, BodiesThatWaitAreBounded) {
  ServiceOptions options;
  options.body_bytes_max = 16'384;
  start({}, {}, options);
  std::vector<std::unique_ptr<Listener>> listeners;
  const std::string body = chat_body(std::string(16'000, 'e'));
  for (int i = 0; i < 200; i++) {
    listeners.push_back(std::make_unique<Listener>());
    send(*listeners.back(), "POST", "/v1/chat/completions", body);
  }
  int refused = 0, read = 0;
  for (const auto& listener : listeners) {
    ASSERT_TRUE(listener->read_all());
    const Reply& reply = listener->reply;
    if (reply.head.status == 400) read++;  // it can never fit, but that is known once it is read
    if (reply.head.status != 429) continue;
    refused++;
    EXPECT_EQ(reply.error_code(), "queue_full");
    EXPECT_NE(message_of(reply).find("expected at most 256 requests of 65536 bytes"),
              std::string::npos)
        << message_of(reply);
    EXPECT_NE(reply.header("retry-after"), "(none)");
  }
  EXPECT_EQ(refused + read, 200);
  EXPECT_GT(refused, 0);
  EXPECT_GT(read, 0);
}

TEST_F(LimitsTest, QuestionsThatWaitAreBounded) {
  std::atomic<bool> entered{false}, release{false};
  EngineOptions engine_options;
  engine_options.before_forward = [&] {
    entered = true;
    entered.notify_all();
    release.wait(false);
  };
  start({}, engine_options, {});
  Listener generation;
  send(generation, "POST", "/v1/chat/completions", chat_body("hi", R"(,"max_tokens":1)"));
  entered.wait(false);  // the engine is in a step, and answers nothing before its end
  std::vector<std::unique_ptr<Listener>> listeners;
  for (int i = 0; i < 300; i++) {
    listeners.push_back(std::make_unique<Listener>());
    send(*listeners.back(), "GET", "/v1/cache/stats", "");
  }
  EXPECT_EQ(ask("GET", "/health").head.status, 200);
  EXPECT_EQ(ask("GET", "/metrics").head.status, 200);
  release = true;
  release.notify_all();
  ASSERT_TRUE(generation.read_all());
  int answered = 0, refused = 0;
  for (const auto& listener : listeners) {
    ASSERT_TRUE(listener->read_all());
    answered += listener->reply.head.status == 200;
    if (listener->reply.head.status != 429) continue;
    refused++;
    EXPECT_EQ(message_of(listener->reply),
              "256 questions wait for the engine, expected at most 256");
  }
  EXPECT_EQ(answered + refused, 300);
  EXPECT_GE(answered, 256);
  EXPECT_GE(refused, 43);  // one is with the engine
}

// ---- an engine that failed
// ------------------------------------------------------------------------

TEST_F(LimitsTest, AFailedEngineSaysWhy) {
  std::atomic<int> steps{0};
  EngineOptions engine_options;
  engine_options.before_forward = [&] {
    if (++steps > 3) std::stoi("no number");  // as libraries do, when memory is short
  };
  start({}, engine_options, {});
  EXPECT_EQ(ask("GET", "/health").json().at("status").as_string(), "ok");
  const Reply stream = chat(chat_body("go on", R"(,"stream":true)"));
  EXPECT_NE(stream.body.find("engine_failed"), std::string::npos) << stream.body;
  EXPECT_EQ(stream.body.find("[DONE]"), std::string::npos);
  const Reply health = ask("GET", "/health");
  EXPECT_EQ(health.head.status, 503);
  EXPECT_EQ(health.json().at("status").as_string(), "failed");
  EXPECT_EQ(health.json().at("reason").as_string(), "stoi");
  const Reply refused = chat(chat_body("hi"));
  EXPECT_EQ(refused.head.status, 503);
  EXPECT_EQ(refused.error_code(), "engine_failed");
  EXPECT_NE(message_of(refused).find("stoi"), std::string::npos);
  EXPECT_EQ(ask("GET", "/v1/cache/stats").head.status, 200);
  service->begin_drain();
  EXPECT_EQ(ask("GET", "/health").json().at("status").as_string(), "failed");
}

}  // namespace
}  // namespace reprise
