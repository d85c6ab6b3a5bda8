// The desk and its tenants: who sees which numbers, keys that change, the cache's tree, chats held
// by token ids.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/service.h"
#include "api_fixture.h"

namespace reprise {
namespace {

using testing::ApiTest;
using testing::kTinyEndOfTurn;
using testing::Listener;
using testing::Reply;

constexpr const char* kText = "the rain in spain stays mainly in the plain and on the hills of it";

std::string chat_body(const std::string& text, const std::string& more = "") {
  return R"({"model":"tiny","temperature":0,"messages":[{"role":"user","content":")" + text +
         "\"}]" + more + "}";
}

std::int64_t number(const JsonValue& value, const char* name) {
  return value.at(name).to_number<std::int64_t>();
}

class TenantsTest : public ApiTest {
 protected:
  static ApiKeys keys_of(const std::string& text) {
    Result<ApiKeys> keys = ApiKeys::parse({}, text, "test");
    EXPECT_TRUE(keys) << keys.error().message;
    return keys ? std::move(*keys) : ApiKeys();
  }
  void start_with_keys() {
    ServiceOptions options;
    options.api_keys = keys_of("alice alice-key\nbob bob-key\nops ops-key admin\n");
    start({}, {}, std::move(options));
  }
  static Headers as(const std::string& name) {
    return {{"authorization", "Bearer " + name + "-key"}};
  }
  JsonValue get(const std::string& target, const std::string& name) {
    const Reply reply = ask("GET", target, "", as(name));
    EXPECT_EQ(reply.head.status, 200) << reply.body;
    return reply.json();
  }
  Reply chat_as(const std::string& name, const std::string& more = "") {
    return ask("POST", "/v1/chat/completions", chat_body(kText, R"(,"max_tokens":2)" + more),
               as(name));
  }
};

TEST_F(TenantsTest, OnlyAnAdminKeySeesSums) {
  start_with_keys();
  ASSERT_EQ(chat_as("alice").head.status, 200);
  ASSERT_EQ(chat_as("alice").head.status, 200);
  ASSERT_EQ(chat_as("bob").head.status, 200);
  const JsonValue alice = get("/v1/cache/stats", "alice"), bob = get("/v1/cache/stats", "bob");
  EXPECT_EQ(number(alice, "lookups"), 2);
  EXPECT_EQ(number(alice, "hits"), 1);
  EXPECT_EQ(number(bob, "lookups"), 1);
  EXPECT_EQ(number(bob, "hits"), 0);
  for (const char* name : {"all", "used_bytes", "committed_bytes", "cache_bytes_all",
                           "sequence_bytes", "running", "waiting"}) {
    EXPECT_FALSE(alice.as_object().contains(name)) << name;
  }
  const JsonValue ops = get("/v1/cache/stats", "ops");
  EXPECT_EQ(number(ops, "lookups"), 0);
  EXPECT_EQ(number(ops.at("all"), "lookups"), 3);
  EXPECT_EQ(number(ops.at("all"), "bytes"), number(alice, "bytes") + number(bob, "bytes"));
  EXPECT_EQ(number(ops.at("all"), "used_bytes"), number(ops.at("all"), "bytes"));
  // A reset of one's own leaves the other's.
  EXPECT_EQ(ask("POST", "/v1/cache/reset", "", as("bob")).json().at("freed_bytes"),
            bob.at("bytes"));
  EXPECT_EQ(number(get("/v1/cache/stats", "alice"), "bytes"), number(alice, "bytes"));
  EXPECT_EQ(number(get("/v1/cache/stats", "bob"), "bytes"), 0);
}

TEST_F(TenantsTest, MetricsNeedAnAdminKey) {
  start_with_keys();
  const Reply refused = ask("GET", "/metrics", "", as("alice"));
  EXPECT_EQ(refused.head.status, 403);
  EXPECT_EQ(refused.error_code(), "admin_key_required");
  EXPECT_EQ(ask("GET", "/metrics", "").head.status, 401);
  EXPECT_EQ(ask("GET", "/metrics", "", as("ops")).head.status, 200);
  EXPECT_EQ(ask("GET", "/health", "").head.status, 200);
}

TEST_F(TenantsTest, WithoutKeysEverybodyIsAdmin) {
  const JsonValue stats = ask("GET", "/v1/cache/stats").json();
  EXPECT_TRUE(stats.as_object().contains("used_bytes"));
  EXPECT_TRUE(stats.at("all").is_object());
}

// A replaced key keeps its name, and so its conversations; a removed one is let in no more.
TEST_F(TenantsTest, ReloadedKeys) {
  start_with_keys();
  ASSERT_EQ(chat_as("alice").head.status, 200);
  service->reload_keys(keys_of("alice carol-key\n"));
  EXPECT_EQ(chat_as("alice").head.status, 401);
  EXPECT_EQ(chat_as("bob").head.status, 401);
  const Reply reply = chat_as("carol");
  ASSERT_EQ(reply.head.status, 200);
  EXPECT_EQ(reply.header("x-reprise-cache").substr(0, 3), "hit");
}

TEST_F(TenantsTest, RunningRequestsOutliveTheirKey) {
  start_with_keys();
  Listener listener;
  send(listener, "POST", "/v1/chat/completions",
       chat_body(kText, R"(,"max_tokens":40,"stream":true)"), as("alice"));
  ASSERT_TRUE(listener.read_until([](const Reply& reply) { return reply.heads > 0; }));
  service->reload_keys(keys_of("bob bob-key\n"));
  ASSERT_TRUE(listener.read_all());
  EXPECT_TRUE(listener.reply.body.ends_with("data: [DONE]\n\n"));
}

// ---- the tree -----------------------------------------------------------------------------------

TEST_F(TenantsTest, TreeOfTheOwnScope) {
  start_with_keys();
  ASSERT_EQ(chat_as("alice").head.status, 200);
  const JsonValue tree = get("/v1/cache/tree", "alice");
  EXPECT_EQ(tree.at("object").as_string(), "cache.tree");
  EXPECT_EQ(tree.at("scope").at("tenant").as_string(), "alice");
  EXPECT_FALSE(tree.at("truncated").as_bool());
  const JsonArray& runs = tree.at("runs").as_array();
  ASSERT_FALSE(runs.empty());
  std::int64_t bytes = 0;
  for (std::size_t id = 0; id < runs.size(); id++) {
    const JsonValue& run = runs[id];
    EXPECT_EQ(number(run, "id"), static_cast<std::int64_t>(id));
    EXPECT_EQ(number(run, "tokens"), number(run, "end") - number(run, "start"));
    EXPECT_EQ(run.at("hash").as_string().size(), 16u);
    EXPECT_TRUE(run.at("pages").as_object().contains("standard"));
    if (id > 0) {
      EXPECT_LT(number(run, "parent"), static_cast<std::int64_t>(id));
    }
    bytes += number(run, "bytes");
  }
  EXPECT_TRUE(runs[0].at("parent").is_null());
  EXPECT_EQ(number(runs[0], "start"), 0);
  EXPECT_EQ(bytes, number(get("/v1/cache/stats", "alice"), "bytes"));
  EXPECT_TRUE(get("/v1/cache/tree", "bob").at("runs").as_array().empty());
  EXPECT_TRUE(get("/v1/cache/tree", "ops").at("runs").as_array().empty());
  EXPECT_TRUE(get("/v1/cache/tree?cache_salt=x", "alice").at("runs").as_array().empty());
}

// The marks of a chat are where its template says they are.
TEST_F(TenantsTest, TreeShowsTheMarksOfAChat) {
  const std::vector<ChatMessage> messages = {
      {"user", kText}, {"assistant", "\nit is wet there"}, {"user", "and then"}};
  std::string list;
  for (const ChatMessage& message : messages) {
    list += list.empty() ? "[" : ",";
    list += R"({"role":")" + message.role + R"(","content":)";
    append_json_text(list, message.content);
    list += "}";
  }
  const PreparedPrompt prompt = *bundle->prepare_chat(messages);
  ASSERT_EQ(prompt.turn_ends.size(), 3u);
  const Reply reply = chat(R"({"temperature":0,"max_tokens":2,"messages":)" + list + "]}");
  ASSERT_EQ(reply.head.status, 200) << reply.body;
  std::set<std::pair<std::string, Position>> marks;
  const JsonValue tree = ask("GET", "/v1/cache/tree").json();
  for (const JsonValue& run : tree.at("runs").as_array()) {
    for (const JsonValue& mark : run.at("marks").as_array()) {
      marks.emplace(mark.at("kind").as_string(), number(mark, "position"));
    }
  }
  std::set<std::pair<std::string, Position>> wanted = {
      {"history_boundary", prompt.history_boundary},
      {"prompt_end", static_cast<Position>(prompt.ids.size())},
      {"completion_end", static_cast<Position>(prompt.ids.size() + 1)}};
  for (const Position end : prompt.turn_ends) wanted.emplace("turn_end", end);
  EXPECT_EQ(marks, wanted);
}

TEST_F(TenantsTest, TreeIsBoundedAndSaysSo) {
  for (const char* word : {"one", "two", "three"}) {
    ASSERT_EQ(chat(chat_body(std::string(word) + kText, R"(,"max_tokens":1)")).head.status, 200);
  }
  const JsonValue all = ask("GET", "/v1/cache/tree").json();
  const std::size_t runs = all.at("runs").as_array().size();
  ASSERT_GE(runs, 3u);
  EXPECT_FALSE(all.at("truncated").as_bool());
  const JsonValue some = ask("GET", "/v1/cache/tree?limit=2").json();
  EXPECT_EQ(some.at("runs").as_array().size(), 2u);
  EXPECT_TRUE(some.at("truncated").as_bool());
  const JsonValue exact = ask("GET", "/v1/cache/tree?limit=" + std::to_string(runs)).json();
  EXPECT_FALSE(exact.at("truncated").as_bool());
  for (const char* limit : {"0", "-1", "10001", "x", "", "1e3", "99999999999999999999"}) {
    const Reply refused = ask("GET", std::string("/v1/cache/tree?limit=") + limit);
    EXPECT_EQ(refused.head.status, 400) << limit;
    EXPECT_EQ(refused.json().at("error").at("param").as_string(), "limit");
  }
  EXPECT_EQ(ask("POST", "/v1/cache/tree").head.status, 405);
}

// ---- what the cache did, on request
// ---------------------------------------------------------------

TEST_F(TenantsTest, CacheDetails) {
  const std::string more = R"(,"max_tokens":3,"cache_details":true)";
  const auto details_of = [](const JsonValue& json) {
    return json.at("usage").at("prompt_tokens_details").at("cache");
  };
  const JsonValue miss = details_of(chat(chat_body(kText, more)).json());
  EXPECT_EQ(miss.at("result").as_string(), "miss");
  EXPECT_EQ(miss.at("reason").as_string(), "no_candidate");
  EXPECT_EQ(number(miss, "matched"), 0);
  EXPECT_FALSE(miss.at("pinned").as_bool());
  const JsonValue second = chat(chat_body(kText, more)).json();
  const JsonValue hit = details_of(second);
  EXPECT_EQ(hit.at("result").as_string(), "hit");
  EXPECT_TRUE(hit.at("reason").is_null());
  EXPECT_EQ(number(hit, "matched"), number(second.at("usage"), "prompt_tokens") - 1);
  EXPECT_TRUE(hit.at("retokenised_at").is_null());
  // The same at the end of a stream, and nothing where it was not asked for.
  const std::string streamed = R"(,"stream":true,"stream_options":{"include_usage":true})";
  EXPECT_NE(chat(chat_body(kText, more + streamed)).body.find(R"("cache":{"result":"hit")"),
            std::string::npos);
  EXPECT_EQ(chat(chat_body(kText, R"(,"max_tokens":3)" + streamed)).body.find("\"cache\""),
            std::string::npos);
}

TEST_F(TenantsTest, Pins) {
  EngineOptions options;
  options.cache.pinned_bytes_per_tenant = options.cache.pinned_bytes_max = std::size_t{1} << 20;
  start({}, options, {});
  const auto pinned = [&](const std::string& seconds) {
    const JsonValue json = chat(chat_body(kText, R"(,"max_tokens":2,"cache_details":true,)"
                                                 R"("cache_pin_seconds":)" +
                                                     seconds))
                               .json();
    return json.at("usage").at("prompt_tokens_details").at("cache").at("pinned").as_bool();
  };
  EXPECT_FALSE(pinned("0"));
  EXPECT_EQ(number(ask("GET", "/v1/cache/stats").json(), "pinned_bytes"), 0);
  EXPECT_TRUE(pinned("600"));
  EXPECT_GT(number(ask("GET", "/v1/cache/stats").json(), "pinned_bytes"), 0);
  const auto longest_pin = [&] {
    double seconds = 0;
    const JsonValue tree = ask("GET", "/v1/cache/tree").json();
    for (const JsonValue& run : tree.at("runs").as_array()) {
      seconds = std::max(seconds, run.at("pinned_for_seconds").to_number<double>());
    }
    return seconds;
  };
  EXPECT_GT(longest_pin(), 500);
  EXPECT_LE(longest_pin(), 600);
  // Where pins have no room the reply says so, and is the same otherwise.
  options.cache.pinned_bytes_per_tenant = options.cache.pinned_bytes_max = 0;
  start({}, options, {});
  EXPECT_FALSE(pinned("600"));
  EXPECT_EQ(number(ask("GET", "/v1/cache/stats").json(), "pins_refused"), 1);
}

// ---- chats held by ids
// ----------------------------------------------------------------------------

std::string list_of(const std::vector<TokenId>& ids) {
  std::string list;
  for (const TokenId id : ids) list += (list.empty() ? "" : ",") + std::to_string(id);
  return "[" + list + "]";
}

void append_ids(std::vector<TokenId>& ids, const JsonValue& list) {
  for (const JsonValue& id : list.as_array()) ids.push_back(id.to_number<TokenId>());
}

// The client keeps prompts and replies as ids: every turn finds all of the turn before, whatever
// its reply's text would have been tokenised to.
TEST_F(TenantsTest, AChatByIdsIsNeverRetokenised) {
  EngineOptions options;
  options.context_length = 2048;
  start({}, options, {});
  std::vector<TokenId> ids = bundle->prepare_chat({{"user", kText}})->ids;
  std::int64_t known = 0;  // tokens of the turn before whose keys and values exist
  for (int turn = 0; turn < 6; turn++) {
    const Reply reply = complete(
        R"({"model":"tiny","seed":9,"temperature":1.5,"max_tokens":24,"return_token_ids":true,)"
        R"("cache_details":true,"prompt":)" +
        list_of(ids) + "}");
    ASSERT_EQ(reply.head.status, 200) << reply.body;
    const JsonValue json = reply.json();
    const JsonValue& usage = json.at("usage");
    const JsonValue& choice = json.at("choices").at(0);
    EXPECT_EQ(number(usage, "prompt_tokens"), static_cast<std::int64_t>(ids.size()));
    const JsonValue& cache = usage.at("prompt_tokens_details").at("cache");
    EXPECT_EQ(number(cache, "matched"), known) << turn;
    EXPECT_TRUE(cache.at("retokenised_at").is_null()) << turn;
    EXPECT_EQ(choice.at("prompt_token_ids").as_array().size(), ids.size());
    append_ids(ids, choice.at("token_ids"));
    // Law L2: the last sampled token was not forwarded, unless the reply ended by itself.
    const bool ended = choice.at("finish_reason").as_string() == "stop";
    known = static_cast<std::int64_t>(ids.size()) - (ended ? 0 : 1);
    ids.push_back(kTinyEndOfTurn);
    const std::vector<TokenId> next = bundle->prepare_text("and more")->ids;
    ids.insert(ids.end(), next.begin() + 1, next.end());  // without its bos
  }
  const JsonValue stats = ask("GET", "/v1/cache/stats").json();
  EXPECT_EQ(number(stats, "retokenised"), 0);
  EXPECT_EQ(number(stats, "hits"), 5);
}

// The same replies sent back as text: the sampled bytes and letters become pairs of letters.
TEST_F(TenantsTest, AChatByTextSaysWhereItWasRetokenised) {
  EngineOptions options;
  options.context_length = 2048;
  start({}, options, {});
  bool was_retokenised = false;
  for (int seed = 0; seed < 200 && !was_retokenised; seed++) {
    const std::string head = R"({"model":"tiny","temperature":1.5,"seed":)" + std::to_string(seed) +
                             R"(,"max_tokens":3,"cache_details":true,"messages":[)" +
                             R"({"role":"user","content":"turn )" + std::to_string(seed) + kText +
                             "\"}";
    const Reply said = chat(head + "]}");
    if (said.body.find("\\u0000") != std::string::npos) continue;  // cannot be sent back
    const JsonValue first = said.json();
    std::string text;
    append_json_text(text, first.at("choices").at(0).at("message").at("content").as_string());
    const Reply second = chat(head + R"(,{"role":"assistant","content":)" + text +
                              R"(},{"role":"user","content":"more"}]})");
    ASSERT_EQ(second.head.status, 200) << second.body;
    const JsonValue json = second.json();
    const JsonValue& cache = json.at("usage").at("prompt_tokens_details").at("cache");
    if (cache.at("retokenised_at").is_null()) continue;
    was_retokenised = true;
    const std::int64_t at = number(cache, "retokenised_at");
    EXPECT_GE(at, number(first.at("usage"), "prompt_tokens"));
    EXPECT_EQ(at, number(cache, "diverged_at"));
    // Resumed where the two still agree.
    EXPECT_GE(number(cache, "matched"), at - 1);
    EXPECT_NE(second.header("x-reprise-cache").find("; retokenised_at=" + std::to_string(at)),
              std::string::npos);
    const JsonValue stats = ask("GET", "/v1/cache/stats").json();
    EXPECT_EQ(number(stats, "retokenised"), 1);
    EXPECT_EQ(number(stats, "last_retokenised_at"), at);
  }
  EXPECT_TRUE(was_retokenised);
}

}  // namespace
}  // namespace reprise
