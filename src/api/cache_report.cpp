// The cache's numbers under the names that the original server gave them.
#include "api/cache_report.h"

#include <fmt/core.h>

#include "api/json_writer.h"
#include "base/hash.h"
#include "kv/state_snapshot.h"

namespace reprise {
namespace {

void append_counts(JsonWriter& json, const PromptCacheStats& own) {
  const double rate =
      own.lookups == 0 ? 0.0 : static_cast<double>(own.hits) / static_cast<double>(own.lookups);
  json.key("hits").integer(own.hits);
  json.key("lookups").integer(own.lookups);
  json.key("hit_rate").number(rate);
  json.key("inserts").integer(own.inserts);
  json.key("evictions_lru").integer(own.evictions_lru);
  json.key("evictions_ttl").integer(own.evictions_ttl);
  json.key("window_pages_dropped").integer(own.window_pages_dropped);
  // Every hit restores a snapshot here: the original's two kinds of entries are one.
  json.key("snapshot_hits").integer(own.hits);
  json.key("snapshot_lookups").integer(own.lookups);
  json.key("snapshot_entries").integer(own.entries);
  json.key("tokens_reused").integer(own.tokens_reused);
  json.key("retokenised").integer(own.retokenised);
  json.key("last_retokenised_at");
  if (own.retokenised > 0) {
    json.integer(own.last_retokenised_at);
  } else {
    json.null();
  }
  json.key("pins_refused").integer(own.pins_refused);
  json.key("pinned_bytes").integer(own.pinned_bytes);
}

void append_misses(JsonWriter& json, const PromptCacheStats& own) {
  for (int reason = 0; reason < kMissReasons; reason++) {
    const std::string name =
        fmt::format("reject_{}", miss_reason_name(static_cast<MissReason>(reason)));
    json.key(name).integer(own.misses[static_cast<std::size_t>(reason)]);
  }
  if (own.last_miss) {
    json.key("last_reject_reason").text(miss_reason_name(*own.last_miss));
    json.key("last_reject_at_unix_ms").integer(own.last_miss_at_unix_ms);
  } else {
    json.key("last_reject_reason").null();
    json.key("last_reject_at_unix_ms").null();
  }
}

void append_last_hit(JsonWriter& json, const std::optional<LastHit>& hit) {
  json.key("last_hit");
  if (!hit) {
    json.null();
    return;
  }
  json.begin_object();
  json.key("matched_len").integer(hit->matched_length);
  json.key("stored_len").integer(hit->stored_length);
  json.key("truncated").boolean(hit->truncated);
  json.key("at_unix_ms").integer(hit->at_unix_ms);
  json.end_object();
}

// All salts and all running requests together, as the one budget sees them. Pages that the cache
// and a request share are in both cache_bytes_all and sequence_bytes, once in used_bytes.
void append_ledger(JsonWriter& json, const EngineStats& engine) {
  json.key("used_bytes").integer(engine.kv_used_bytes);
  json.key("committed_bytes").integer(engine.kv_committed_bytes);
  json.key("cache_bytes_all").integer(engine.cache.bytes);
  json.key("sequence_bytes").integer(engine.sequence_pages_bytes);
  json.key("running").integer(engine.running);
  json.key("waiting").integer(engine.waiting);
}

void append_held(JsonWriter& json, const PromptCacheStats& stats) {
  json.key("entries").integer(stats.entries);
  json.key("nodes").integer(stats.nodes);
  json.key("bytes").integer(stats.bytes);
}

void append_groups(JsonWriter& json, const PromptCacheStats& stats) {
  json.key("bytes_by_group").begin_array();
  for (const std::size_t bytes : stats.bytes_by_group) json.integer(bytes);
  json.end_array();
}

void append_all(JsonWriter& json, const EngineStats& all) {
  json.key("all").begin_object();
  append_held(json, all.cache);
  append_counts(json, all.cache);
  append_misses(json, all.cache);
  append_groups(json, all.cache);
  json.key("budget_bytes").integer(all.kv_budget_bytes);
  append_ledger(json, all);
  json.end_object();
}

}  // namespace

std::string format_cache_stats(const EngineOptions& options, const PromptCacheStats& own,
                               const EngineStats* all) {
  JsonWriter json;
  json.begin_object();
  json.key("enabled").boolean(options.cache.enabled && can_be_snapshotted(options.kv_type));
  append_held(json, own);
  json.key("capacity_bytes").integer(options.kv_budget_bytes);
  append_counts(json, own);
  append_misses(json, own);
  append_last_hit(json, own.last_hit);
  append_groups(json, own);
  if (all) {
    append_ledger(json, *all);
    append_all(json, *all);
  }
  return json.end_object().take();
}

std::string format_cache_reset(const PromptCache::ResetOutcome& outcome) {
  JsonWriter json;
  json.begin_object();
  json.key("cleared").boolean(true);
  json.key("freed_bytes").integer(outcome.freed_bytes);
  json.key("freed_entries").integer(outcome.freed_entries);
  return json.end_object().take();
}

// The length in front keeps ("ab", "c") and ("a", "bc") apart.
CacheScope cache_scope(std::string_view key_name, std::string_view cache_salt) {
  return {std::string(key_name), sha256_hex(fmt::format("{}:{}{}:{}", key_name.size(), key_name,
                                                        cache_salt.size(), cache_salt))};
}

}  // namespace reprise
