// The cache's numbers under the names that the original server gave them.
#include "api/cache_report.h"

#include <fmt/core.h>

#include "api/json_writer.h"
#include "base/hash.h"

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

}  // namespace

std::string format_cache_stats(const EngineOptions& options, const PromptCacheStats& own,
                               const EngineStats& engine) {
  JsonWriter json;
  json.begin_object();
  json.key("enabled").boolean(options.cache.enabled);
  json.key("entries").integer(own.entries);
  json.key("nodes").integer(own.nodes);
  json.key("bytes").integer(own.bytes);
  json.key("capacity_bytes").integer(options.kv_budget_bytes);
  append_counts(json, own);
  append_misses(json, own);
  append_last_hit(json, own.last_hit);
  json.key("bytes_by_group").begin_array();
  for (const std::size_t bytes : own.bytes_by_group) json.integer(bytes);
  json.end_array();
  append_ledger(json, engine);
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
std::string tenant_salt(std::string_view api_key, std::string_view cache_salt) {
  return sha256_hex(
      fmt::format("{}:{}{}:{}", api_key.size(), api_key, cache_salt.size(), cache_salt));
}

}  // namespace reprise
