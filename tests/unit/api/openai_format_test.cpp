// OpenAI's reply forms, to the byte.
#include "api/openai_format.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "api/api_error.h"
#include "api/cache_report.h"
#include "api/cache_tree.h"
#include "api/content_type.h"
#include "api/json_writer.h"
#include "api/logprobs.h"
#include "api/retry_after.h"
#include "base/json.h"
#include "text/vocabulary.h"

namespace reprise {
namespace {

Usage usage_of() {
  Usage usage;
  usage.prompt_tokens = 10;
  usage.cached_tokens = 7;
  usage.completion_tokens = 3;
  return usage;
}

TEST(Format, SmallForms) {
  EXPECT_EQ(server_sent_event("{}"), "data: {}\n\n");
  EXPECT_EQ(system_fingerprint("0123456789abcdef0123"), "fp_0123456789ab-n1");
  Usage usage = usage_of();
  EXPECT_EQ(cache_header(usage), "hit; matched=7");
  usage.cached_tokens = 0;
  usage.miss = MissReason::snapshot_diverged;
  usage.diverged_at = 4;
  EXPECT_EQ(cache_header(usage), "miss; reason=snapshot_diverged; diverged_at=4");
  usage.retokenised_at = 4;
  EXPECT_EQ(cache_header(usage), "miss; reason=snapshot_diverged; diverged_at=4; retokenised_at=4");
  usage.cached_tokens = 3;
  EXPECT_EQ(cache_header(usage), "hit; matched=3; retokenised_at=4");
}

TEST(Format, CacheDetails) {
  const auto cache_of = [](const Usage& usage) {
    JsonWriter json;
    append_usage(json.begin_object(), usage, CacheDetails::yes, {});
    const JsonValue whole = *parse_json(json.end_object().take());
    EXPECT_FALSE(whole.at("usage").as_object().contains("completion_tokens_details"));
    return to_json(whole.at("usage").at("prompt_tokens_details").at("cache"));
  };
  Usage usage = usage_of();
  usage.diverged_at = 9;
  usage.is_pinned = true;
  EXPECT_EQ(cache_of(usage), R"({"result":"hit","reason":null,"matched":7,"diverged_at":9,)"
                             R"("retokenised_at":null,"pinned":true})");
  usage.cached_tokens = 0;
  usage.miss = MissReason::evicted;
  usage.retokenised_at = 5;
  usage.is_pinned = false;
  EXPECT_EQ(cache_of(usage), R"({"result":"miss","reason":"evicted","matched":0,"diverged_at":9,)"
                             R"("retokenised_at":5,"pinned":false})");
}

TEST(Format, IdsOfCalls) {
  const std::string id = tool_call_id("chatcmpl-1", 0, 0);
  EXPECT_EQ(id.size(), 29u);
  EXPECT_TRUE(id.starts_with("call_"));
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef", 5), std::string::npos);
  EXPECT_EQ(tool_call_id("chatcmpl-1", 0, 0), id);
  const std::set<std::string> ids = {id, tool_call_id("chatcmpl-1", 0, 1),
                                     tool_call_id("chatcmpl-1", 1, 0),
                                     tool_call_id("chatcmpl-11", 0, 0)};
  EXPECT_EQ(ids.size(), 4u);
}

TEST(Format, ContentTypes) {
  for (const char* type :
       {"", " ", "application/json", "Application/JSON; charset=utf-8", "text/json",
        "application/vnd.api+json", "application/x-www-form-urlencoded"}) {
    EXPECT_TRUE(is_json_content_type(type)) << type;
  }
  for (const char* type :
       {"text/plain", "multipart/form-data; boundary=x", "json", "/json", "application/jsonl",
        "application/+json", "application/json5", "text/html", "*"}) {
    EXPECT_FALSE(is_json_content_type(type)) << type;
  }
}

TEST(Format, Errors) {
  EXPECT_EQ(error_body({400, "invalid_value", "top_p: \xFF", "top_p"}),
            "{\"error\":{\"message\":\"top_p: \xEF\xBF\xBD\",\"type\":\"invalid_request_error\","
            "\"param\":\"top_p\",\"code\":\"invalid_value\"}}");
  EXPECT_EQ(error_body({503, "overloaded", "later", {}}),
            R"({"error":{"message":"later","type":"server_error","param":null,)"
            R"("code":"overloaded"}})");
  EXPECT_EQ(error_body({429, "queue_full", "later"}),
            R"({"error":{"message":"later","type":"rate_limit_error","param":null,)"
            R"("code":"queue_full"}})");
  EXPECT_EQ(error_body(timeout_error(1500, 1612)),
            R"({"error":{"message":"the request ran into its limit of 1500 ms: 1612 ms had )"
            R"(passed","type":"server_error","param":null,"code":"timeout"}})");
}

// The work that waits, at the measured speed, between one second and a minute.
TEST(Format, RetryAfter) {
  EngineStats stats;
  EXPECT_EQ(retry_after_seconds(stats), 1);
  stats.waiting = 10;
  stats.requests = 10;  // none of them ran
  stats.prefill_rows_per_second = 100;
  EXPECT_EQ(retry_after_seconds(stats), 1);
  stats.requests = 14;
  stats.forwarded_rows = 400;  // 100 rows a request, one second each
  EXPECT_EQ(retry_after_seconds(stats), 10);
  stats.prefill_rows_per_second = 1;
  EXPECT_EQ(retry_after_seconds(stats), 60);
  stats.prefill_rows_per_second = 1e6;
  EXPECT_EQ(retry_after_seconds(stats), 1);
}

TEST(Format, CacheStatsNames) {
  EngineOptions options;
  options.kv_budget_bytes = 1000;
  PromptCacheStats own;
  own.lookups = 4;
  own.hits = 1;
  own.misses[static_cast<std::size_t>(MissReason::evicted)] = 2;
  own.bytes_by_group = {30, 12};
  EngineStats all;
  all.kv_budget_bytes = 1000;
  all.kv_used_bytes = 77;
  all.running = 3;
  all.cache.lookups = 9;
  Result<JsonValue> parsed = parse_json(format_cache_stats(options, own, &all));
  ASSERT_TRUE(parsed);
  const JsonObject& stats = parsed->as_object();
  for (const char* name : {"enabled",
                           "entries",
                           "bytes",
                           "capacity_bytes",
                           "hits",
                           "lookups",
                           "hit_rate",
                           "inserts",
                           "evictions_lru",
                           "evictions_ttl",
                           "snapshot_hits",
                           "snapshot_lookups",
                           "snapshot_entries",
                           "reject_disabled",
                           "reject_no_candidate",
                           "reject_prefix_too_short",
                           "reject_snapshot_diverged",
                           "reject_evicted",
                           "reject_mode_refused",
                           "reject_corrupt",
                           "last_reject_reason",
                           "last_reject_at_unix_ms",
                           "last_hit",
                           "tokens_reused",
                           "bytes_by_group",
                           "used_bytes",
                           "committed_bytes",
                           "sequence_bytes"}) {
    EXPECT_TRUE(stats.contains(name)) << name;
  }
  EXPECT_EQ(stats.at("enabled").as_bool(), true);
  EngineOptions integers = options;
  integers.kv_type = kernels::KvType::int8;  // may not be snapshotted
  EXPECT_EQ(parse_json(format_cache_stats(integers, own, &all))->as_object().at("enabled"), false);
  EXPECT_EQ(stats.at("hit_rate").as_double(), 0.25);
  EXPECT_EQ(stats.at("reject_evicted").to_number<int>(), 2);
  EXPECT_TRUE(stats.at("last_hit").is_null());
  own.last_hit = LastHit{31, 60, true, 99};
  parsed = parse_json(format_cache_stats(options, own, &all));
  EXPECT_EQ(to_json(parsed->as_object().at("last_hit")),
            R"({"matched_len":31,"stored_len":60,"truncated":true,"at_unix_ms":99})");
  EXPECT_TRUE(stats.at("last_retokenised_at").is_null());
  own.retokenised = 1;
  own.last_retokenised_at = 8;
  own.pins_refused = 2;
  own.pinned_bytes = 5;
  parsed = parse_json(format_cache_stats(options, own, &all));
  const JsonObject& sums = parsed->as_object().at("all").as_object();
  EXPECT_EQ(sums.at("lookups").to_number<int>(), 9);
  EXPECT_EQ(sums.at("used_bytes").to_number<int>(), 77);
  EXPECT_EQ(sums.at("budget_bytes").to_number<int>(), 1000);
  EXPECT_EQ(parsed->as_object().at("lookups").to_number<int>(), 4);
  EXPECT_EQ(parsed->as_object().at("used_bytes").to_number<int>(), 77);
  // Whoever may not see sums gets its own numbers only, and none of them is another's.
  const JsonObject mine = parse_json(format_cache_stats(options, own, nullptr))->as_object();
  for (const char* name : {"all", "used_bytes", "committed_bytes", "cache_bytes_all",
                           "sequence_bytes", "running", "waiting"}) {
    EXPECT_FALSE(mine.contains(name)) << name;
  }
  EXPECT_EQ(mine.at("lookups").to_number<int>(), 4);
  EXPECT_EQ(mine.at("retokenised").to_number<int>(), 1);
  EXPECT_EQ(mine.at("last_retokenised_at").to_number<int>(), 8);
  EXPECT_EQ(mine.at("pins_refused").to_number<int>(), 2);
  EXPECT_EQ(mine.at("pinned_bytes").to_number<int>(), 5);
  EXPECT_EQ(format_cache_reset({12, 3}), R"({"cleared":true,"freed_bytes":12,"freed_entries":3})");
}

TEST(Format, CacheTree) {
  CacheRun root;
  root.hash = 0xabc;
  root.end = 128;
  root.marks = {{64, MarkKind::turn_end}, {128, MarkKind::branch_point}};
  root.pages = {2, 1};
  root.bytes = 300;
  root.used_unix_ms = 8'500;
  root.hits = 4;
  root.paths = 2;
  CacheRun leaf;
  leaf.parent = 0;
  leaf.start = 128;
  leaf.end = 130;
  leaf.pinned_until_unix_ms = 12'000;
  const std::vector<CacheRun> runs = {root, leaf};
  EXPECT_EQ(format_cache_tree("alice", runs, true, {"standard", "rotating_8"}, 10'000),
            R"({"object":"cache.tree","scope":{"tenant":"alice"},"runs":[)"
            R"({"id":0,"parent":null,"hash":"0000000000000abc","start":0,"end":128,"tokens":128,)"
            R"("marks":[{"position":64,"kind":"turn_end"},{"position":128,"kind":"branch_point"}],)"
            R"("bytes":300,"pages":{"standard":2,"rotating_8":1},"age_seconds":1.5,"hits":4,)"
            R"("in_use":2,"pinned_for_seconds":0.0},)"
            R"({"id":1,"parent":0,"hash":"0000000000000000","start":128,"end":130,"tokens":2,)"
            R"("marks":[],"bytes":0,"pages":{},"age_seconds":10.0,"hits":0,"in_use":0,)"
            R"("pinned_for_seconds":2.0}],"truncated":true})");
}

TEST(Format, SpanGroupNames) {
  KvLayout layout;
  layout.groups.resize(4);
  layout.groups[1].span = {SpanKind::rotating, 512};
  layout.groups[2].span = {SpanKind::rotating, 512};
  layout.groups[3].span = {SpanKind::chunked, 8192};
  EXPECT_EQ(span_group_names(layout), (std::vector<std::string>{"standard", "rotating_512",
                                                                "rotating_512_2", "chunked_8192"}));
}

TEST(Format, SaltsKeepTenantsApart) {
  EXPECT_EQ(cache_scope("key", "salt"), cache_scope("key", "salt"));
  EXPECT_NE(cache_scope("key", "salt"), cache_scope("other", "salt"));
  EXPECT_NE(cache_scope("key", "salt"), cache_scope("key", ""));
  EXPECT_NE(cache_scope("ab", "c"), cache_scope("a", "bc"));
  EXPECT_NE(cache_scope("", "a"), cache_scope("a", ""));
  EXPECT_EQ(cache_scope("secret", "").salt.find("secret"), std::string::npos);
}

// ---- log probabilities ------------------------------------------------------------------------

// Bytes as tokens 0..255, then "ab".
Tokenizer byte_tokenizer() {
  std::vector<std::string> names;
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; byte++) names.push_back(fmt::format("<0x{:02X}>", byte));
  names.emplace_back("a");
  names.emplace_back("b");
  names.emplace_back("ab");
  names.emplace_back("<eos>");
  for (const std::string& name : names) {
    vocabulary.tokens.push_back(name);
    vocabulary.scores.push_back(0);
    vocabulary.types.push_back(name.starts_with("<0x") ? TokenType::byte : TokenType::normal);
  }
  vocabulary.types.back() = TokenType::control;
  return std::move(*Tokenizer::from_vocabulary(vocabulary));
}
constexpr TokenId kA = 256, kAb = 258;

TEST(Logprobs, ChatForm) {
  const Tokenizer tokenizer = byte_tokenizer();
  LogprobsWriter writer(tokenizer, ReplyKind::chat);
  EXPECT_EQ(writer.take(), "null");
  writer.add({kAb, -0.1f, {{kAb, -0.1f}, {0xE2, -2.5f}}});
  writer.add({0xE2, -std::numeric_limits<float>::infinity(), {}});
  EXPECT_EQ(writer.take(),
            R"({"content":[{"token":"ab","logprob":-0.1,"bytes":[97,98],"top_logprobs":[)"
            R"({"token":"ab","logprob":-0.1,"bytes":[97,98]},)"
            R"({"token":"bytes:\\xe2","logprob":-2.5,"bytes":[226]}]},)"
            R"({"token":"bytes:\\xe2","logprob":-9999.0,"bytes":[226],"top_logprobs":[]}],)"
            R"("refusal":null})");
  EXPECT_TRUE(writer.is_empty());
}

TEST(Logprobs, CompletionForm) {
  const Tokenizer tokenizer = byte_tokenizer();
  LogprobsWriter writer(tokenizer, ReplyKind::completion);
  writer.add({kAb, -0.5f, {{kA, -0.25f}}});
  EXPECT_EQ(writer.take(), R"({"tokens":["ab"],"token_logprobs":[-0.5],)"
                           R"("top_logprobs":[{"a":-0.25,"ab":-0.5}],"text_offset":[0]})");
  writer.add({0xC3, -1.0f, {}});
  writer.add({0xA9, -1.0f, {}});
  writer.add({kA, -1.0f, {}});
  // Offsets go on over takes and count characters: the two bytes are one.
  const Result<JsonValue> value = parse_json(writer.take());
  ASSERT_TRUE(value);
  EXPECT_EQ(to_json(value->as_object().at("text_offset")), "[2,3,3]");
}

// A prompt's tokens come first; a special one counts where its spelling is shown.
TEST(Logprobs, PromptsInFrontOfCompletions) {
  const Tokenizer tokenizer = byte_tokenizer();
  constexpr TokenId kEos = 259;
  for (const bool is_shown : {false, true}) {
    LogprobsWriter writer(tokenizer, ReplyKind::completion);
    writer.add_first(kEos, is_shown);
    writer.add_prompt({kEos, -1.0f, {}});
    writer.add({kEos, -2.0f, {}});
    writer.add({kA, -3.0f, {}});
    const JsonValue value = *parse_json(writer.take());
    EXPECT_EQ(to_json(value.at("tokens")), R"(["<eos>","<eos>","<eos>","a"])");
    EXPECT_EQ(to_json(value.at("text_offset")), is_shown ? "[0,5,10,10]" : "[0,0,5,5]");
    EXPECT_TRUE(value.at("token_logprobs").at(0).is_null());
    EXPECT_TRUE(value.at("top_logprobs").at(0).is_null());
    EXPECT_EQ(value.at("token_logprobs").at(1).as_double(), -1.0);
  }
}

TEST(Logprobs, FloatsComeBackWithTheirBits) {
  const Tokenizer tokenizer = byte_tokenizer();
  for (const float logprob :
       {-0.1f, -1.0f / 3.0f, -1.17549435e-38f, -123.456f, -0.0f, -8388609.0f}) {
    LogprobsWriter writer(tokenizer, ReplyKind::chat);
    writer.add({kA, logprob, {}});
    const Result<JsonValue> value = parse_json(writer.take());
    ASSERT_TRUE(value);
    const JsonValue& entry = value->as_object().at("content").as_array().front();
    const float back = static_cast<float>(entry.as_object().at("logprob").as_double());
    EXPECT_EQ(std::bit_cast<std::uint32_t>(back), std::bit_cast<std::uint32_t>(logprob));
  }
}

}  // namespace
}  // namespace reprise
