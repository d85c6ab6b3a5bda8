// The desk: routes, keys, errors, the cache's endpoints, cancelling and stopping.
#include "api/service.h"

#include <algorithm>
#include <functional>
#include <thread>

#include "api_fixture.h"

namespace reprise {
namespace {

using testing::ApiTest;
using testing::Listener;
using testing::Reply;

std::string chat_body(const std::string& text, const std::string& more = "") {
  return R"({"model":"tiny","temperature":0,"messages":[{"role":"user","content":")" + text +
         "\"}]" + more + "}";
}

class ServiceTest : public ApiTest {
 protected:
  // The published copy is of the last step's end: what happens in a step shows a little later.
  template <class Condition>
  bool wait_until(Condition holds) {
    for (int i = 0; i < 4000; i++) {
      if (holds(engine->stats())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  JsonValue stats(const std::string& query = "") {
    return ask("GET", "/v1/cache/stats" + query).json();
  }
};

TEST_F(ServiceTest, ModelsAndHealth) {
  const Reply models = ask("GET", "/v1/models");
  EXPECT_EQ(models.head.status, 200);
  EXPECT_FALSE(models.head.streamed);
  EXPECT_EQ(models.json().at("object").as_string(), "list");
  EXPECT_EQ(models.json().at("data").as_array().at(0).at("id").as_string(), "tiny");
  EXPECT_EQ(ask("GET", "/v1/models/tiny").json().at("id").as_string(), "tiny");
  EXPECT_EQ(ask("GET", "/v1/models/t%69ny?x=1").head.status, 200);
  EXPECT_EQ(ask("GET", "/v1/models/other").error_code(), "model_not_found");
  EXPECT_EQ(ask("GET", "/v1/models/other").head.status, 404);
  const JsonValue health = ask("GET", "/health").json();
  EXPECT_EQ(health.at("status").as_string(), "ok");
  EXPECT_EQ(health.at("running").to_number<int>(), 0);
}

TEST_F(ServiceTest, WrongPathsAndMethods) {
  EXPECT_EQ(ask("GET", "/nothing").head.status, 404);
  EXPECT_EQ(ask("GET", "/nothing").error_code(), "not_found");
  EXPECT_EQ(ask("GET", "/v1/models/").head.status, 404);
  EXPECT_EQ(ask("GET", "").head.status, 404);
  EXPECT_EQ(ask("GET", "/v1/models/%zz").head.status, 404);
  const Reply wrong = ask("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong.head.status, 405);
  EXPECT_EQ(wrong.header("allow"), "POST, OPTIONS");
  EXPECT_EQ(wrong.error_code(), "method_not_allowed");
  EXPECT_EQ(ask("DELETE", "/v1/models").header("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(ask("POST", "/v1/chat/completions", "x", {{"content-encoding", "gzip"}}).head.status,
            415);
}

TEST_F(ServiceTest, ApiKeys) {
  ServiceOptions options;
  options.api_keys = ApiKeys({"first", "second"});
  start({}, {}, options);
  EXPECT_EQ(ask("GET", "/health").head.status, 200);
  EXPECT_EQ(ask("OPTIONS", "/v1/models").head.status, 204);
  const auto status = [&](const std::string& header) {
    return ask("GET", "/v1/models", "", {{"authorization", header}}).head.status;
  };
  EXPECT_EQ(ask("GET", "/v1/models").head.status, 401);
  EXPECT_EQ(ask("GET", "/v1/models").error_code(), "invalid_api_key");
  EXPECT_EQ(ask("GET", "/metrics").head.status, 401);
  EXPECT_EQ(ask("POST", "/v1/chat/completions", chat_body("hi")).head.status, 401);
  for (const char* header : {"Bearer third", "Bearer firs", "Bearer firstx", "Bearer ",
                             "Basic first", "first", "Bearer"}) {
    EXPECT_EQ(status(header), 401) << header;
  }
  for (const char* header : {"Bearer first", "bearer second", "BEARER  first "}) {
    EXPECT_EQ(status(header), 200) << header;
  }
}

TEST_F(ServiceTest, Cors) {
  EXPECT_EQ(ask("GET", "/health").header("access-control-allow-origin"), "(none)");
  ServiceOptions options;
  options.allowed_origin = "https://chat.example";
  start({}, {}, options);
  const Reply preflight = ask("OPTIONS", "/v1/chat/completions");
  EXPECT_EQ(preflight.head.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "https://chat.example");
  EXPECT_EQ(preflight.header("access-control-allow-methods"), "POST, OPTIONS");
  EXPECT_EQ(preflight.header("vary"), "origin");
  EXPECT_EQ(chat(chat_body("hi", R"(,"max_tokens":1)")).header("access-control-allow-origin"),
            "https://chat.example");
  EXPECT_EQ(chat("bad").header("access-control-allow-origin"), "https://chat.example");
}

// What openai-node sends from a page.
TEST_F(ServiceTest, APreflightIsToldThatItsHeadersMayCome) {
  ServiceOptions options;
  options.allowed_origin = "https://chat.example";
  start({}, {}, options);
  const Reply preflight =
      ask("OPTIONS", "/v1/chat/completions", "",
          {{"origin", "https://chat.example"},
           {"access-control-request-method", "POST"},
           {"access-control-request-headers",
            "authorization,content-type,x-stainless-lang,x-stainless-os,openai-organization"}});
  EXPECT_EQ(preflight.head.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-headers"),
            "authorization, content-type, x-stainless-lang, x-stainless-os, openai-organization");
  EXPECT_EQ(ask("OPTIONS", "/v1/models").header("access-control-allow-headers"),
            "authorization, content-type");
}

// A simple POST needs no preflight: it is the request itself that must be refused.
TEST_F(ServiceTest, WebPagesThatNobodyAllowedAreRefused) {
  const auto page = [](const std::string& origin) {
    return std::vector<std::pair<std::string, std::string>>{
        {"host", "127.0.0.1:8080"}, {"origin", origin}, {"content-type", "text/plain"}};
  };
  const std::vector<std::pair<std::string, std::string>> requests = {
      {"POST", "/v1/chat/completions"},
      {"POST", "/v1/cache/reset"},
      {"DELETE", "/v1/responses/a"},
      {"GET", "/v1/models"},
      {"OPTIONS", "/v1/models"},
      {"GET", "/health"},
      {"GET", "/nothing"}};
  for (const auto& [method, path] : requests) {
    const Reply refused = ask(method, path, "{}", page("https://evil.example"));
    EXPECT_EQ(refused.head.status, 403) << path;
    EXPECT_EQ(refused.error_code(), "origin_not_allowed") << path;
    EXPECT_EQ(refused.header("access-control-allow-origin"), "(none)") << path;
    EXPECT_NE(ask(method, path, "{}", page("http://127.0.0.1:8080")).head.status, 403) << path;
  }
  ServiceOptions options;
  options.allowed_origin = "https://chat.example";
  start({}, {}, options);
  EXPECT_EQ(ask("POST", "/v1/cache/reset", "", page("https://evil.example")).head.status, 403);
  EXPECT_EQ(ask("POST", "/v1/cache/reset", "", page("https://chat.example")).head.status, 200);
  EXPECT_EQ(ask("POST", "/v1/cache/reset").head.status, 200);  // no browser
  options.allowed_origin = "*";
  start({}, {}, options);
  EXPECT_EQ(ask("POST", "/v1/cache/reset", "", page("https://evil.example")).head.status, 200);
}

TEST_F(ServiceTest, ChatReply) {
  const Reply reply = chat(chat_body("hello", R"(,"max_tokens":5,"return_token_ids":true)"));
  ASSERT_EQ(reply.head.status, 200) << reply.body;
  const JsonValue json = reply.json();
  EXPECT_EQ(json.at("object").as_string(), "chat.completion");
  EXPECT_EQ(json.at("model").as_string(), "tiny");
  EXPECT_TRUE(std::string_view(json.at("id").as_string()).starts_with("chatcmpl-"));
  EXPECT_EQ(json.at("system_fingerprint").as_string().size(), 18u);
  const JsonValue& usage = json.at("usage");
  const JsonValue& choice = json.at("choices").as_array().at(0);
  EXPECT_EQ(usage.at("prompt_tokens").to_number<std::size_t>(),
            choice.at("prompt_token_ids").as_array().size());
  EXPECT_EQ(usage.at("prompt_tokens_details").at("cached_tokens").to_number<int>(), 0);
  EXPECT_GE(usage.at("completion_tokens").to_number<std::size_t>(),
            choice.at("token_ids").as_array().size());
  EXPECT_EQ(
      usage.at("total_tokens").to_number<int>(),
      usage.at("prompt_tokens").to_number<int>() + usage.at("completion_tokens").to_number<int>());
  EXPECT_TRUE(choice.at("logprobs").is_null());
  EXPECT_EQ(reply.header("x-reprise-cache").substr(0, 24), "miss; reason=no_candidat");
}

TEST_F(ServiceTest, BadRequestsLeaveTheServiceAlive) {
  const std::string prompt(600, 'e');
  struct Case {
    std::string path, body;
    int status;
    const char* code;
  };
  const std::vector<Case> cases = {
      {"/v1/chat/completions", "", 400, "invalid_json"},
      {"/v1/chat/completions", std::string(100'000, '['), 400, "invalid_json"},
      {"/v1/chat/completions", chat_body("hi", R"(,"top_p":7)"), 400, "invalid_value"},
      {"/v1/chat/completions", chat_body("hi", R"(,"tools":[{}])"), 400,
       "missing_required_parameter"},
      {"/v1/chat/completions", R"({"model":"other","messages":[{"role":"user","content":"a"}]})",
       404, "model_not_found"},
      {"/v1/chat/completions", chat_body(prompt), 400, "context_length_exceeded"},
      {"/v1/chat/completions", chat_body("hi", R"(,"max_tokens":512)"), 400,
       "context_length_exceeded"},
      {"/v1/chat/completions",
       R"({"model":"tiny","messages":[{"role":"assistant","content":"a"}]})", 400, "invalid_value"},
      {"/v1/completions", R"({"model":"tiny","prompt":[1,2,320]})", 400, "invalid_value"},
      {"/v1/completions", R"({"model":"tiny","prompt":[1,-2]})", 400, "invalid_value"},
  };
  for (const Case& item : cases) {
    const Reply reply = ask("POST", item.path, item.body);
    EXPECT_EQ(reply.head.status, item.status) << item.body.substr(0, 200);
    EXPECT_EQ(reply.error_code(), item.code) << reply.body;
    EXPECT_FALSE(reply.head.streamed);
    EXPECT_EQ(chat(chat_body("hi", R"(,"max_tokens":1)")).head.status, 200);
  }
  // A stream that cannot be is refused before its head.
  EXPECT_EQ(chat(chat_body(prompt, R"(,"stream":true)")).head.status, 400);
}

TEST_F(ServiceTest, ContextLengthIsExact) {
  const auto prompt = [](int tokens) {
    std::string ids = "[2";
    for (int i = 1; i < tokens; i++) ids += ",270";
    return ids + "]";
  };
  const auto status = [&](int tokens, const std::string& more) {
    return complete(R"({"model":"tiny","temperature":0,"prompt":)" + prompt(tokens) + more + "}");
  };
  EXPECT_EQ(status(511, R"(,"max_tokens":1)").head.status, 200);
  EXPECT_EQ(status(511, "").head.status, 200);
  EXPECT_EQ(status(511, R"(,"max_tokens":2)").error_code(), "context_length_exceeded");
  const Reply full = status(512, "");
  EXPECT_EQ(full.error_code(), "context_length_exceeded");
  EXPECT_EQ(
      full.json().at("error").at("message").as_string(),
      "the prompt has 512 tokens, but the context length is 512 tokens and the reply needs at "
      "least 1");
  EXPECT_EQ(full.json().at("error").at("param").as_string(), "prompt");
}

TEST_F(ServiceTest, SecondTimeIsCached) {
  const std::string body =
      chat_body("the rain in spain stays mainly in the plain", R"(,"max_tokens":6,"logprobs":true,
      "top_logprobs":3,"return_token_ids":true)");
  const Reply first = chat(body), second = chat(body), third = chat(body);
  const JsonValue json = second.json();
  const int prompt = json.at("usage").at("prompt_tokens").to_number<int>();
  EXPECT_EQ(json.at("usage").at("prompt_tokens_details").at("cached_tokens").to_number<int>(),
            prompt - 1);
  EXPECT_EQ(second.header("x-reprise-cache"), "hit; matched=" + std::to_string(prompt - 1));
  EXPECT_EQ(to_json(first.json().at("choices")), to_json(json.at("choices")));
  EXPECT_EQ(to_json(third.json().at("choices")), to_json(json.at("choices")));
  // The same answer without the cache, which is then left as it was.
  std::string uncached = body;
  uncached.insert(uncached.size() - 1, R"(,"cache_prompt":false)");
  const Reply cold = chat(uncached);
  EXPECT_EQ(to_json(cold.json().at("choices")), to_json(json.at("choices")));
  EXPECT_EQ(cold.header("x-reprise-cache"), "miss; reason=disabled; diverged_at=0");
  // In a stream the head knows it too.
  std::string streamed = body;
  streamed.insert(streamed.size() - 1, R"(,"stream":true)");
  EXPECT_EQ(chat(streamed).header("x-reprise-cache"), "hit; matched=" + std::to_string(prompt - 1));
}

TEST_F(ServiceTest, CacheStatsAndReset) {
  EXPECT_EQ(stats().at("lookups").to_number<int>(), 0);
  EXPECT_TRUE(stats().at("last_hit").is_null());
  const std::string body =
      chat_body("the rain in spain stays mainly in the plain", R"(,"max_tokens":2)");
  chat(body);
  chat(body);
  const JsonValue after = stats();
  EXPECT_EQ(after.at("lookups").to_number<int>(), 2);
  EXPECT_EQ(after.at("hits").to_number<int>(), 1);
  EXPECT_EQ(after.at("hit_rate").as_double(), 0.5);
  EXPECT_EQ(after.at("reject_no_candidate").to_number<int>(), 1);
  EXPECT_EQ(after.at("last_reject_reason").as_string(), "no_candidate");
  EXPECT_EQ(after.at("last_hit").at("matched_len").to_number<int>(),
            after.at("tokens_reused").to_number<int>());
  EXPECT_GT(after.at("bytes").to_number<int>(), 0);
  // Nothing runs: what is used is what the cache holds, by groups and in all.
  EXPECT_EQ(after.at("sequence_bytes").to_number<int>(), 0);
  EXPECT_EQ(after.at("used_bytes").to_number<std::int64_t>(),
            after.at("cache_bytes_all").to_number<std::int64_t>());
  std::int64_t by_group = 0;
  for (const JsonValue& bytes : after.at("bytes_by_group").as_array()) {
    by_group += bytes.to_number<std::int64_t>();
  }
  EXPECT_EQ(by_group, after.at("bytes").to_number<std::int64_t>());

  // Another salt sees nothing of it and clears nothing of it.
  EXPECT_EQ(stats("?cache_salt=other").at("lookups").to_number<int>(), 0);
  EXPECT_EQ(
      ask("POST", "/v1/cache/reset?cache_salt=other").json().at("freed_bytes").to_number<int>(), 0);
  const JsonValue reset = ask("POST", "/v1/cache/reset").json();
  EXPECT_TRUE(reset.at("cleared").as_bool());
  EXPECT_EQ(reset.at("freed_bytes").to_number<int>(), after.at("bytes").to_number<int>());
  EXPECT_GT(reset.at("freed_entries").to_number<int>(), 0);
  EXPECT_EQ(stats().at("bytes").to_number<int>(), 0);
  EXPECT_EQ(stats().at("hits").to_number<int>(), 1);
  EXPECT_EQ(ask("GET", "/v1/cache/stats?cache_salt=%x").head.status, 400);
}

TEST_F(ServiceTest, SaltsDoNotShare) {
  ServiceOptions options;
  options.api_keys = ApiKeys({"first", "second"});
  start({}, {}, options);
  const auto cached = [&](const char* key, const std::string& salt) {
    const Reply reply = ask("POST", "/v1/chat/completions",
                            chat_body("the rain in spain stays mainly in the plain",
                                      R"(,"max_tokens":1,"cache_salt":")" + salt + "\""),
                            {{"authorization", std::string("Bearer ") + key}});
    return reply.json()
        .at("usage")
        .at("prompt_tokens_details")
        .at("cached_tokens")
        .to_number<int>();
  };
  EXPECT_EQ(cached("first", "a"), 0);
  EXPECT_GT(cached("first", "a"), 0);
  EXPECT_EQ(cached("first", "b"), 0);
  EXPECT_EQ(cached("second", "a"), 0);
}

TEST_F(ServiceTest, SeedsDecide) {
  const auto text = [&](const std::string& more) {
    return to_json(
        chat(R"({"model":"tiny","max_tokens":12,"messages":[{"role":"user","content":"a"}])" +
             more + "}")
            .json()
            .at("choices"));
  };
  EXPECT_EQ(text(R"(,"seed":5)"), text(R"(,"seed":5)"));
  EXPECT_NE(text(R"(,"seed":5)"), text(R"(,"seed":6)"));
  EXPECT_NE(text(""), text(""));  // drawn anew for each request
}

// A message to which the greedy reply does not end by itself soon, and is seen while it grows:
// white space is held back, special tokens have no text.
std::string endless_message(const std::function<Reply(std::string)>& chat) {
  for (int i = 0; i < 50; i++) {
    const std::string text = "go on " + std::string(static_cast<std::size_t>(i), 'e');
    const JsonValue json = chat(chat_body(text, R"(,"max_tokens":250)")).json();
    const JsonValue& choice = json.at("choices").at(0);
    const std::string said(choice.at("message").at("content").as_string());
    const auto seen = std::ranges::count_if(said, [](char letter) { return letter > ' '; });
    if (choice.at("finish_reason").as_string() == "length" && seen > 100) return text;
  }
  return "";
}

TEST_F(ServiceTest, ClientLeavesInMidStream) {
  testing::TinyModelOptions large;  // slow enough to be left
  large.hidden = 256;
  large.feed_forward = 1024;
  large.layers = 8;
  EngineOptions options;
  options.context_length = 4096;
  start(large, options, {});
  const std::string text = endless_message([&](std::string body) { return chat(body); });
  ASSERT_FALSE(text.empty());
  const std::uint64_t before = engine->stats().ends_cancelled;
  {
    Listener listener;
    send(listener, "POST", "/v1/chat/completions", chat_body(text, R"(,"stream":true)"));
    ASSERT_TRUE(listener.read_until([](const Reply& reply) { return reply.body.size() > 400; }));
    ASSERT_EQ(listener.reply.ends, 0) << "the reply was too short for this test";
  }  // abandons
  ASSERT_TRUE(wait_until([&](const EngineStats& now) { return now.ends_cancelled == before + 1; }));
  EXPECT_EQ(engine->stats().running, 0u);
  EXPECT_EQ(engine->stats().sequence_pages_bytes, 0u);
  EXPECT_EQ(chat(chat_body("hi", R"(,"max_tokens":1)")).head.status, 200);
}

// Whenever a client leaves, all of its choices end, and nothing of them stays.
TEST_F(ServiceTest, ClientLeavesWithSeveralChoices) {
  EngineOptions options;
  options.context_length = 4096;
  options.sequences_max = 2;  // so that some wait
  start({}, options, {});
  const std::string body = chat_body("go on", R"(,"stream":true,"n":5,"ignore_eos":true)");
  for (const std::size_t bytes : {0u, 1u, 3000u}) {
    const std::uint64_t before = engine->stats().ends_cancelled;
    {
      Listener listener;
      send(listener, "POST", "/v1/chat/completions", body);
      if (bytes > 0) {
        ASSERT_TRUE(
            listener.read_until([&](const Reply& reply) { return reply.body.size() >= bytes; }));
        ASSERT_EQ(listener.reply.ends, 0) << "the reply was too short for this test";
      }
    }  // abandons
    EXPECT_EQ(chat(chat_body("hi", R"(,"max_tokens":1)")).head.status, 200);
    ASSERT_TRUE(wait_until([&](const EngineStats& now) {
      return now.running == 0 && now.waiting == 0 && now.sequence_pages_bytes == 0;
    }));
    const std::uint64_t cancelled = engine->stats().ends_cancelled - before;
    // One that left before it was read was never there.
    EXPECT_TRUE(cancelled == 5 || (bytes == 0 && cancelled == 0)) << cancelled;
  }
}

// All or none: where they can never run and wait together, none runs, and the client gets one
// answer that does not ask it to come again.
TEST_F(ServiceTest, ChoicesAreRefusedTogether) {
  EngineOptions options;
  options.sequences_max = 1;
  options.queue_max = 2;
  start({}, options, {});
  const Reply refused = chat(chat_body("go on", R"(,"n":100)"));
  EXPECT_EQ(refused.head.status, 400);
  EXPECT_EQ(refused.error_code(), "invalid_value");
  EXPECT_EQ(refused.ends, 1);
  EXPECT_EQ(engine->stats().requests, 0u);
  EXPECT_EQ(chat(chat_body("hi", R"(,"max_tokens":1)")).head.status, 200);
}

TEST_F(ServiceTest, ClientLeftBeforeItsTurn) {
  Listener gone;
  gone.channel->abandon();
  send(gone, "POST", "/v1/chat/completions", chat_body("hi"));
  EXPECT_EQ(chat(chat_body("hi", R"(,"max_tokens":1)")).head.status, 200);
  EXPECT_EQ(engine->stats().requests, 1u);
}

TEST_F(ServiceTest, DrainRefusesNewOnesAndFinishesOldOnes) {
  Listener running;
  send(running, "POST", "/v1/chat/completions",
       chat_body("hi", R"(,"stream":true,"max_tokens":60)"));
  ASSERT_TRUE(running.read_until([](const Reply& reply) { return reply.heads > 0; }));
  service->begin_drain();
  const Reply refused = chat(chat_body("hi"));
  EXPECT_EQ(refused.head.status, 503);
  EXPECT_EQ(refused.error_code(), "server_stopping");
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(ask("GET", "/health").head.status, 503);
  ASSERT_TRUE(running.read_all());
  EXPECT_TRUE(running.reply.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(ServiceTest, FullQueueIsALimitOfItsOwn) {
  EngineOptions options;
  options.sequences_max = 1;
  options.queue_max = 1;
  options.context_length = 4096;
  start({}, options, {});
  std::vector<std::unique_ptr<Listener>> listeners;
  for (int i = 0; i < 8; i++) {
    listeners.push_back(std::make_unique<Listener>());
    send(*listeners.back(), "POST", "/v1/chat/completions", chat_body("go on", R"(,"seed":1)"));
  }
  int served = 0, refused = 0;
  for (const auto& listener : listeners) {
    ASSERT_TRUE(listener->read_all());
    served += listener->reply.head.status == 200;
    if (listener->reply.head.status != 429) continue;
    refused++;
    EXPECT_EQ(listener->reply.error_code(), "queue_full");
    const JsonValue error = listener->reply.json().at("error");
    EXPECT_EQ(error.at("type").as_string(), "rate_limit_error");
    EXPECT_EQ(error.at("message").as_string(),
              "2 requests are running or waiting, the queue holds 2 in all");
    const int retry_after = std::stoi(listener->reply.header("retry-after"));
    EXPECT_GE(retry_after, 1);
    EXPECT_LE(retry_after, 60);
  }
  EXPECT_EQ(served + refused, 8);
  EXPECT_GE(served, 2);
  EXPECT_GE(refused, 1);
  EXPECT_EQ(engine->stats().refused_full, static_cast<std::uint64_t>(refused));
}

// Every reply ends, also when the service goes first: with an error event where the head was sent.
TEST_F(ServiceTest, ServiceEndsWithRepliesUnderWay) {
  std::vector<std::unique_ptr<Listener>> listeners;
  for (int i = 0; i < 12; i++) {
    listeners.push_back(std::make_unique<Listener>());
    send(*listeners.back(), "POST", "/v1/chat/completions",
         chat_body("go on " + std::string(static_cast<std::size_t>(i), 'a'),
                   i % 2 == 0 ? R"(,"stream":true)" : ""));
  }
  ASSERT_TRUE(listeners[0]->read_until([](const Reply& reply) { return reply.heads > 0; }));
  service.reset();
  for (const auto& listener : listeners) {
    ASSERT_TRUE(listener->read_all());
    EXPECT_EQ(listener->reply.ends, 1);
    if (listener->reply.head.status == 503) {
      EXPECT_EQ(listener->reply.error_code(), "server_stopping");
    } else {
      EXPECT_EQ(listener->reply.head.status, 200);
    }
  }
}

TEST_F(ServiceTest, Metrics) {
  chat(chat_body("hi", R"(,"max_tokens":2)"));
  chat("bad");
  const Reply reply = ask("GET", "/metrics");
  EXPECT_EQ(reply.head.content_type, "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line :
       {"# TYPE reprise_requests_accepted_total counter", "reprise_requests_accepted_total 1",
        "reprise_preemptions_total 0",
        R"(reprise_http_replies_total{endpoint="chat",status="200"} 1)",
        R"(reprise_http_replies_total{endpoint="chat",status="400"} 1)",
        "reprise_time_to_first_token_seconds_count 1", "reprise_request_duration_seconds_count 1",
        R"(reprise_cache_misses_total{reason="no_candidate"} 1)", "reprise_cache_lookups_total 1",
        "reprise_kv_budget_bytes 67108864", "reprise_cache_capacity_bytes 67108864",
        "reprise_inter_token_seconds_count 1", "reprise_inter_token_seconds_bucket{le=\"0.005\"}",
        "reprise_cache_retokenised_total 0", "reprise_cache_pinned_bytes 0",
        "reprise_requests_refused_full_total 0",
        R"(reprise_requests_ended_total{reason="timeout"} 0)"}) {
    EXPECT_NE(reply.body.find(line), std::string::npos) << line;
  }
}

TEST_F(ServiceTest, ErrorReplyForTheConnection) {
  ServiceOptions options;
  options.allowed_origin = "https://a.example";
  start({}, {}, options);
  std::string body;
  const ReplyHead head = service->error_reply(413, "body_too_large", "got 17, expected 16", body);
  EXPECT_EQ(head.status, 413);
  EXPECT_EQ(head.content_type, "application/json");
  const std::vector<std::pair<std::string, std::string>> cors = {
      {"access-control-allow-origin", "https://a.example"},
      {"access-control-expose-headers", "x-reprise-cache, x-reprise-ignored, retry-after"},
      {"vary", "origin"}};
  EXPECT_EQ(head.headers, cors);
  EXPECT_EQ(body, R"({"error":{"message":"got 17, expected 16","type":"invalid_request_error",)"
                  R"("param":null,"code":"body_too_large"}})");
  ReplyHead busy = service->error_reply(503, "overloaded", "too many at once", body);
  EXPECT_EQ(busy.headers.back(), (std::pair<std::string, std::string>{"retry-after", "1"}));
}

}  // namespace
}  // namespace reprise
