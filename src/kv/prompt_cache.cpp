// The prompt cache's outside: salts, paths, counters.
#include "kv/prompt_cache.h"

#include "base/log.h"
#include "kv/prompt_trie.h"

namespace reprise {

std::string_view miss_reason_name(MissReason reason) {
  switch (reason) {
    case MissReason::disabled:
      return "disabled";
    case MissReason::no_candidate:
      return "no_candidate";
    case MissReason::prefix_too_short:
      return "prefix_too_short";
    case MissReason::snapshot_diverged:
      return "snapshot_diverged";
    case MissReason::evicted:
      return "evicted";
    case MissReason::mode_refused:
      return "mode_refused";
    case MissReason::corrupt:
      return "corrupt";
  }
  return "unknown";
}

PromptCache::PromptCache(PagePool& pool, PromptCacheOptions options,
                         std::function<std::int64_t()> now_unix_ms)
    : trie_(std::make_unique<Trie>(pool, std::move(options), std::move(now_unix_ms))) {}

void PromptCache::Trie::check_mode() {
  const Status mode = check_snapshot_mode(pool.layout(), options.words);
  if (mode) return;
  is_mode_refused = true;
  spdlog::warn("{}; the prompt cache stores nothing", mode.error().message);
}

PromptCache::~PromptCache() {
  CHECK(trie_->pins == 0);  // a path would be left without its cache
  for (const auto& [name, salt] : trie_->salts) trie_->clear_subtree(&salt->root);
}

namespace {

// Adds what `one` counted, and takes its last hit and miss where they are newer.
void add_counters(PromptCacheStats& sum, const PromptCacheStats& one) {
  sum.lookups += one.lookups;
  sum.hits += one.hits;
  sum.inserts += one.inserts;
  sum.evictions_lru += one.evictions_lru;
  sum.evictions_ttl += one.evictions_ttl;
  sum.window_pages_dropped += one.window_pages_dropped;
  sum.tokens_reused += one.tokens_reused;
  for (std::size_t i = 0; i < sum.misses.size(); i++) sum.misses[i] += one.misses[i];
  if (one.last_miss && (!sum.last_miss || one.last_miss_at_unix_ms >= sum.last_miss_at_unix_ms)) {
    sum.last_miss = one.last_miss;
    sum.last_miss_at_unix_ms = one.last_miss_at_unix_ms;
  }
  if (one.last_hit && (!sum.last_hit || one.last_hit->at_unix_ms >= sum.last_hit->at_unix_ms))
    sum.last_hit = one.last_hit;
}

}  // namespace

PromptCache::Salt& PromptCache::Trie::salt(const std::string& name) {
  std::unique_ptr<Salt>& salt = salts[name];
  if (salt == nullptr) {
    salt = std::make_unique<Salt>();
    salt->name = name;
    salt->root.salt = salt.get();
    salt->root.prefix_hash = kEmptyPrefixHash;
    salt->pages.resize(static_cast<std::size_t>(groups()));
  }
  update_idle(*salt);
  return *salt;
}

// Clients choose salts: of those that have nothing here only the newest are remembered. The one
// that was used now is never among those that go.
void PromptCache::Trie::update_idle(Salt& salt) {
  if (salt.idle_since != 0) idle_salts.erase(salt.idle_since);
  salt.idle_since = 0;
  if (salt.nodes > 0 || salt.pins > 0) return;
  salt.idle_since = ++clock;
  idle_salts.emplace(salt.idle_since, &salt);
  if (idle_salts.size() <= std::max<std::size_t>(options.idle_salts_max, 1)) return;
  const Salt* oldest = idle_salts.begin()->second;
  add_counters(forgotten, oldest->counters);
  idle_salts.erase(idle_salts.begin());
  salts.erase(salts.find(oldest->name));
}

const PromptCache::Salt* PromptCache::Trie::find_salt(const std::string& name) const {
  const auto found = salts.find(name);
  return found == salts.end() ? nullptr : found->second.get();
}

PromptCache::Path::Path(Path&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      node_(std::exchange(other.node_, nullptr)),
      published_(std::exchange(other.published_, 0)) {}

PromptCache::Path& PromptCache::Path::operator=(Path&& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(node_, other.node_);
  std::swap(published_, other.published_);
  return *this;
}

PromptCache::Path::~Path() {
  if (node_ != nullptr) cache_->trie_->unpin(node_);
}

PromptCache::Path PromptCache::start(const std::string& salt) {
  Path path;
  path.cache_ = this;
  path.node_ = &trie_->salt(salt).root;
  trie_->pin(path.node_);
  return path;
}

void PromptCache::Trie::count_miss(Salt& salt, MissReason reason) {
  salt.counters.misses[static_cast<std::size_t>(reason)]++;
  salt.counters.last_miss = reason;
  salt.counters.last_miss_at_unix_ms = now_unix_ms();
}

void PromptCache::count_lookup(const std::string& salt, const Match& match) {
  Salt& tenant = trie_->salt(salt);
  tenant.counters.lookups++;
  if (match.miss) {
    trie_->count_miss(tenant, *match.miss);
    return;
  }
  CHECK(match.length > 0);
  tenant.counters.hits++;
  tenant.counters.tokens_reused += static_cast<std::uint64_t>(match.length);
  tenant.counters.last_hit = LastHit{.matched_length = match.length,
                                     .stored_length = match.stored,
                                     .truncated = match.length < match.stored,
                                     .at_unix_ms = trie_->now_unix_ms()};
}

PromptCacheStats PromptCache::stats(const std::string& salt) const {
  PromptCacheStats stats;
  const Salt* tenant = trie_->find_salt(salt);
  if (tenant != nullptr) {
    stats = tenant->counters;
    stats.entries = tenant->entries;
    stats.nodes = tenant->nodes;
  }
  for (std::size_t g = 0; g < trie_->pool.layout().groups.size(); g++) {
    const std::size_t pages = tenant == nullptr ? 0 : tenant->pages[g];
    stats.bytes_by_group.push_back(pages * trie_->pool.layout().groups[g].page_bytes());
    stats.bytes += stats.bytes_by_group.back();
  }
  return stats;
}

PromptCacheStats PromptCache::stats() const {
  PromptCacheStats sum = trie_->forgotten;
  sum.bytes_by_group.resize(trie_->pool.layout().groups.size());
  for (const auto& [name, salt] : trie_->salts) {
    const PromptCacheStats one = stats(name);
    add_counters(sum, one);
    sum.entries += one.entries;
    sum.nodes += one.nodes;
    sum.bytes += one.bytes;
    for (std::size_t g = 0; g < one.bytes_by_group.size(); g++)
      sum.bytes_by_group[g] += one.bytes_by_group[g];
  }
  return sum;
}

void PromptCache::check_invariants() const {
  trie_->check();
}

}  // namespace reprise
