// Nothing that a client says gets into the log, whatever its level and whatever goes wrong.
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include "api/refusal_log.h"
#include "api/service.h"
#include "api_fixture.h"

namespace reprise {
namespace {

using testing::ApiTest;
using testing::Listener;
using testing::Reply;

constexpr const char* kMarker = "xylophone-marker";

// The process's log goes into a string while this lives, all levels.
class LogCapture {
 public:
  LogCapture() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    auto logger = std::make_shared<spdlog::logger>("capture", std::move(sink));
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
    spdlog::set_default_logger(std::move(logger));
  }
  ~LogCapture() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

class LogTest : public ApiTest {
 protected:
  void TearDown() override {
    ApiTest::TearDown();  // before the log's capture goes
  }
};

std::string chat_body(const std::string& more) {
  const std::string marker = kMarker;
  return R"({"messages":[{"role":"system","content":"be )" + marker +
         R"("},{"role":"user","name":")" + marker + R"(","content":"say )" + marker +
         R"(","odd":")" + marker + R"("}],"max_tokens":6,"user":")" + marker +
         R"(","cache_salt":")" + marker + R"(","stop":[")" + marker + R"("],"metadata":{")" +
         marker + R"(":")" + marker + R"("},"prompt_cache_key":")" + marker +
         R"(","odd_field":{")" + marker + R"(":[")" + marker + R"("]})" + more + "}";
}

TEST_F(LogTest, NothingThatAClientSays) {
  const LogCapture log;
  const std::string marker = kMarker;
  Result<ApiKeys> keys = ApiKeys::parse({}, "alice " + marker + "-key admin\n", "a test");
  ASSERT_TRUE(keys);
  ServiceOptions options;
  options.api_keys = std::move(*keys);
  EngineOptions engine_options;
  engine_options.kv_budget_bytes = std::size_t{1} << 20;  // evicts
  start({}, engine_options, std::move(options));
  const Headers key = {{"authorization", "Bearer " + marker + "-key"}, {"user-agent", marker}};
  const std::string chats = "/v1/chat/completions", completions = "/v1/completions";
  std::vector<int> statuses;
  const auto post = [&](const std::string& path, const std::string& body) {
    statuses.push_back(ask("POST", path, body, key).head.status);
  };
  // What works: whole, streamed, again, with everything that a reply can carry.
  for (int turn = 0; turn < 8; turn++) {
    post(chats, chat_body(R"(,"logprobs":true,"top_logprobs":2,"return_token_ids":true,"seed":)" +
                          std::to_string(turn)));
    post(chats, chat_body(R"(,"stream":true,"cache_details":true,"cache_pin_seconds":60)"));
    post(completions,
         R"({"prompt":")" + marker + R"( and more","max_tokens":3,"odd":")" + marker + R"("})");
  }
  EXPECT_EQ(statuses, std::vector<int>(24, 200));
  for (const char* path : {"/apply-template", "/tokenize"}) {
    EXPECT_EQ(ask("POST", path, chat_body(R"(,"only_for_texts":1)"), key).head.status, 200) << path;
  }
  EXPECT_EQ(ask("POST", "/detokenize", R"({"tokens":[],"only_for_tokens":1})", key).head.status,
            200);
  // What does not: the marker stands where the trouble is.
  for (const std::string& body :
       {"{\"" + marker, marker,
        "{\"model\":\"" + marker +
            "\",\"messages\":[{\"role\":\"user\","
            "\"content\":\"a\"}]}",
        R"({"messages":[{"role":")" + marker + R"(","content":"a"}]})",
        R"({"messages":[{"role":"assistant","content":")" + marker + R"("}]})",
        R"({"messages":[{"role":"user","content":")" + marker + R"("}],"top_p":")" + marker + "\"}",
        R"({"messages":[{"role":"user","content":"a"}],"logit_bias":{")" + marker + "\":1}}",
        R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema",)"
        R"("json_schema":{"name":"n","schema":{"type":"object","properties":{")" +
            marker + R"(":{"not":{}}}}}}})",
        R"({"messages":[{"role":"user","content":")" + marker + std::string(2000, 'q') + "\"}]}"}) {
    const Reply reply = ask("POST", chats, body, key);
    EXPECT_GE(reply.head.status, 400) << body.substr(0, 100);
    EXPECT_LT(reply.head.status, 500) << body.substr(0, 100);
  }
  EXPECT_EQ(ask("POST", chats, chat_body(""), {{"authorization", "Bearer " + marker}}).head.status,
            401);
  EXPECT_EQ(ask("GET", "/" + marker, "", key).head.status, 404);
  EXPECT_EQ(ask("GET", "/v1/models/" + marker, "", key).head.status, 404);
  EXPECT_EQ(ask("DELETE", "/v1/responses/" + marker, "", key).head.status, 404);
  EXPECT_EQ(ask("POST", "/v1/responses", R"({"input":"a","metadata":{")" + marker + R"(":1}})", key)
                .head.status,
            400);
  EXPECT_EQ(ask(marker, "/v1/models", "", key).head.status, 405);
  // A client that leaves.
  {
    Listener listener;
    send(listener, "POST", chats, chat_body(R"(,"stream":true)"), key);
    ASSERT_TRUE(listener.read_until([](const Reply& reply) { return reply.heads > 0; }));
  }
  // What people look at carries nothing of it either.
  for (const std::string& target :
       {"/v1/cache/stats?cache_salt=" + marker, "/v1/cache/tree?cache_salt=" + marker,
        std::string("/v1/cache/tree"), std::string("/metrics"), std::string("/health")}) {
    const Reply reply = ask("GET", target, "", key);
    EXPECT_EQ(reply.head.status, 200) << target;
    EXPECT_EQ(reply.body.find(marker), std::string::npos) << target;
  }
  EXPECT_EQ(ask("POST", "/v1/cache/reset?cache_salt=" + marker, "", key).head.status, 200);
  TearDown();
  const std::string text = log.text();
  EXPECT_EQ(text.find(marker), std::string::npos) << text;
  // The capture works: what requests were there is known, and the odd field's name once.
  EXPECT_NE(text.find("chatcmpl-"), std::string::npos) << text;
  for (const std::string field : {"odd_field", "only_for_texts", "only_for_tokens"}) {
    EXPECT_NE(text.find("unknown request field " + field), std::string::npos) << text;
  }
  for (const std::string line :
       {"POST /v1/chat/completions: 400 invalid_json",
        "POST /v1/chat/completions: 400 invalid_type top_p",
        "POST /v1/chat/completions: 400 invalid_value logit_bias",
        "POST /v1/chat/completions: 401 invalid_api_key", "GET /{...}: 404 not_found",
        "GET /v1/models/{id}: 404 model_not_found model", "(another method) /v1/models: 405",
        "DELETE /v1/responses/{id}: 404 response_not_found",
        "POST /v1/responses: 400 invalid_type metadata"}) {
    EXPECT_NE(text.find("refused " + line), std::string::npos) << line << "\n" << text;
  }
}

TEST_F(LogTest, ALineForEachRefusal) {
  const LogCapture log;
  for (int times = 0; times < 3; times++) chat(R"({"messages":[]})");
  chat(R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1})");
  std::string body;
  service->error_reply(413, "request_too_large", "too much", body);
  TearDown();
  const std::string text = log.text();
  const std::string line = "[info] refused POST /v1/chat/completions: 400 invalid_value messages\n";
  std::size_t lines = 0;
  for (std::size_t at = text.find("refused"); at != std::string::npos;
       at = text.find("refused", at + 1)) {
    lines++;
  }
  EXPECT_EQ(lines, 4u) << text;
  EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_NE(text.find("refused a request that could not be read: 413 request_too_large"),
            std::string::npos);
}

TEST(RefusalLog, NamesEndWhereTheClientsBegin) {
  EXPECT_EQ(loggable_param("messages[2].tool_calls[0].function.arguments"),
            "messages[2].tool_calls[0].function.arguments");
  EXPECT_EQ(loggable_param("metadata.secret"), "metadata");
  EXPECT_EQ(loggable_param("chat_template_kwargs.secret"), "chat_template_kwargs");
  EXPECT_EQ(loggable_param("tools[0].function.parameters.properties.secret"),
            "tools[0].function.parameters");
  EXPECT_EQ(loggable_param("response_format.json_schema.schema.properties.secret"),
            "response_format.json_schema.schema");
  EXPECT_EQ(loggable_param("json_schema.properties.secret"), "json_schema");
  EXPECT_EQ(loggable_param("a b"), "");
  EXPECT_EQ(loggable_param(""), "");
  EXPECT_LE(loggable_param(std::string(500, 'a') + ".b").size(), 128u);
}

TEST_F(LogTest, WhatWasProbablyMeant) {
  const LogCapture log;
  const std::string start = R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1,)";
  chat(start + R"("temprature":0.5})");
  chat(start + R"("entirely_other":0.5})");
  ask("POST", "/completion", R"({"prompt":"a","n_predict":1,"n_prob":1})");
  TearDown();
  const std::string text = log.text();
  EXPECT_NE(text.find("field temprature: ignored, did you mean temperature?\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("field entirely_other: ignored\n"), std::string::npos) << text;
  EXPECT_NE(text.find("field n_prob: ignored, did you mean n_probs?\n"), std::string::npos) << text;
}

TEST_F(LogTest, AToolThatIsLeftOutIsNamedOnce) {
  const LogCapture log;
  for (int times = 0; times < 2; times++) {
    const Reply reply = ask("POST", "/v1/responses",
                            R"({"input":"x","max_output_tokens":2,"tools":[{"type":"web_search"},)"
                            R"({"type":"function","name":"f"}]})");
    EXPECT_EQ(reply.head.status, 200) << reply.body;
    EXPECT_EQ(reply.json().at("tools").as_array().size(), 1U);
  }
  TearDown();
  const std::string text = log.text();
  const std::string line = "tool of type web_search: left out";
  const std::size_t first = text.find(line);
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find(line, first + 1), std::string::npos) << text;
}

}  // namespace
}  // namespace reprise
