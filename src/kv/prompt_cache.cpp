// The prompt cache's outside: salts, paths, counters.
#include "kv/prompt_cache.h"

#include "base/log.h"
#include "kv/prompt_trie.h"

namespace reprise {

std::string_view mark_kind_name(MarkKind kind) {
  switch (kind) {
    case MarkKind::turn_end:
      return "turn_end";
    case MarkKind::history_boundary:
      return "history_boundary";
    case MarkKind::prompt_end:
      return "prompt_end";
    case MarkKind::completion_end:
      return "completion_end";
    case MarkKind::branch_point:
      return "branch_point";
    case MarkKind::preempted:
      return "preempted";
  }
  return "unknown";
}

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

PromptCache::Trie::Trie(PagePool& pages, PromptCacheOptions chosen,
                        std::function<std::int64_t()> clock_unix_ms)
    : pool(pages), options(std::move(chosen)), now_unix_ms(std::move(clock_unix_ms)) {
  if (!options.enabled || !options.needs_snapshots) return;
  const Status mode = check_snapshot_mode(pool.layout(), options.words);
  if (mode) return;
  is_mode_refused = true;
  spdlog::warn("{}; the prompt cache stores nothing", mode.error().message);
}

PromptCache::~PromptCache() {
  CHECK(trie_->paths == 0);  // a path would be left without its cache
  while (!trie_->pins.empty()) trie_->drop_pin(trie_->pins.begin());
  for (const auto& [scope, salt] : trie_->salts) trie_->clear_subtree(&salt->root);
}

bool PromptCache::refuses_mode() const {
  return trie_->is_mode_refused;
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
  sum.retokenised += one.retokenised;
  sum.pins_refused += one.pins_refused;
  for (std::size_t i = 0; i < sum.misses.size(); i++) sum.misses[i] += one.misses[i];
  if (one.last_miss && (!sum.last_miss || one.last_miss_at_unix_ms >= sum.last_miss_at_unix_ms)) {
    sum.last_miss = one.last_miss;
    sum.last_miss_at_unix_ms = one.last_miss_at_unix_ms;
  }
  if (one.last_hit && (!sum.last_hit || one.last_hit->at_unix_ms >= sum.last_hit->at_unix_ms))
    sum.last_hit = one.last_hit;
}

}  // namespace

PromptCache::Salt& PromptCache::Trie::salt(const CacheScope& scope) {
  std::unique_ptr<Salt>& salt = salts[scope];
  if (salt == nullptr) {
    std::unique_ptr<Tenant>& tenant = tenants[scope.tenant];
    if (tenant == nullptr) {
      tenant = std::make_unique<Tenant>();
      tenant->name = scope.tenant;
      tenant->number = ++clock;
      tenants_by_bytes.emplace(std::pair(std::size_t{0}, tenant->number), tenant.get());
    }
    salt = std::make_unique<Salt>();
    salt->scope = scope;
    salt->tenant = tenant.get();
    salt->number = ++clock;
    salt->root.salt = salt.get();
    salt->root.prefix_hash = kEmptyPrefixHash;
    salt->pages.resize(static_cast<std::size_t>(groups()));
    tenant->salts.emplace(std::pair(std::size_t{0}, salt->number), salt.get());
  }
  update_idle(*salt);
  return *salt;
}

// What it counted goes into the sums; its tenant goes with its last salt.
void PromptCache::Trie::forget_salt(Salt& salt) {
  CHECK(salt.bytes == 0 && salt.nodes == 0 && salt.paths == 0);
  add_counters(forgotten, salt.counters);
  Tenant& tenant = *salt.tenant;
  tenant.salts.erase({std::size_t{0}, salt.number});
  if (tenant.salts.empty()) {
    tenants_by_bytes.erase({tenant.bytes, tenant.number});
    tenants.erase(tenants.find(tenant.name));
  }
  salts.erase(salts.find(salt.scope));
}

// Clients choose salts: of those that have nothing here only the tenant's newest are remembered.
// The one that was used now is never among those that go.
void PromptCache::Trie::update_idle(Salt& salt) {
  std::map<std::uint64_t, Salt*>& idle_salts = salt.tenant->idle_salts;
  if (salt.idle_since != 0) idle_salts.erase(salt.idle_since);
  salt.idle_since = 0;
  if (salt.nodes > 0 || salt.paths > 0) return;
  salt.idle_since = ++clock;
  idle_salts.emplace(salt.idle_since, &salt);
  if (idle_salts.size() <= std::max<std::size_t>(options.idle_salts_max, 1)) return;
  Salt& oldest = *idle_salts.begin()->second;
  idle_salts.erase(idle_salts.begin());
  forget_salt(oldest);
}

const PromptCache::Salt* PromptCache::Trie::find_salt(const CacheScope& scope) const {
  const auto found = salts.find(scope);
  return found == salts.end() ? nullptr : found->second.get();
}

PromptCache::Path::Path(Path&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      node_(std::exchange(other.node_, nullptr)),
      blocks_(std::exchange(other.blocks_, {})),
      published_(std::exchange(other.published_, 0)),
      turn_(std::exchange(other.turn_, 0)) {}

PromptCache::Path& PromptCache::Path::operator=(Path&& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(node_, other.node_);
  std::swap(blocks_, other.blocks_);
  std::swap(published_, other.published_);
  std::swap(turn_, other.turn_);
  return *this;
}

PromptCache::Path::~Path() {
  if (node_ != nullptr) cache_->trie_->unlock(node_);
}

PromptCache::Path PromptCache::start(const CacheScope& scope) {
  Path path;
  path.cache_ = this;
  path.node_ = &trie_->salt(scope).root;
  path.turn_ = ++trie_->clock;
  trie_->lock(path.node_);
  return path;
}

void PromptCache::Trie::count_miss(Salt& salt, MissReason reason) {
  salt.counters.misses[static_cast<std::size_t>(reason)]++;
  salt.counters.last_miss = reason;
  salt.counters.last_miss_at_unix_ms = now_unix_ms();
}

void PromptCache::count_lookup(const CacheScope& scope, std::span<const TokenId> tokens,
                               const Match& match) {
  if (match.miss == MissReason::disabled && trie_->find_salt(scope) == nullptr) {
    trie_->forgotten.lookups++;  // no salt is made for who does not use the cache
    trie_->forgotten.misses[static_cast<std::size_t>(MissReason::disabled)]++;
    return;
  }
  Salt& salt = trie_->salt(scope);
  salt.counters.lookups++;
  if (match.miss) {
    trie_->count_miss(salt, *match.miss);
    return;
  }
  CHECK(match.length > 0);
  const Trie::Route route =
      trie_->route(salt, tokens.first(static_cast<std::size_t>(match.length)));
  if (route.last() != nullptr) route.last()->hits++;
  salt.counters.hits++;
  salt.counters.tokens_reused += static_cast<std::uint64_t>(match.length);
  salt.counters.last_hit = LastHit{.matched_length = match.length,
                                   .stored_length = match.stored,
                                   .truncated = match.length < match.stored,
                                   .at_unix_ms = trie_->now_unix_ms()};
}

PromptCacheStats PromptCache::stats(const CacheScope& scope) const {
  PromptCacheStats stats;
  const Salt* salt = trie_->find_salt(scope);
  if (salt != nullptr) {
    stats = salt->counters;
    stats.entries = salt->entries;
    stats.nodes = salt->nodes;
    stats.pinned_bytes = salt->pinned_bytes;
  }
  for (std::size_t g = 0; g < trie_->pool.layout().groups.size(); g++) {
    const std::size_t pages = salt == nullptr ? 0 : salt->pages[g];
    stats.bytes_by_group.push_back(pages * trie_->pool.layout().groups[g].page_bytes());
    stats.bytes += stats.bytes_by_group.back();
  }
  return stats;
}

PromptCacheStats PromptCache::stats() const {
  PromptCacheStats sum = trie_->forgotten;
  sum.last_retokenised_at = trie_->last_retokenised_at;
  sum.bytes_by_group.resize(trie_->pool.layout().groups.size());
  for (const auto& [scope, salt] : trie_->salts) {
    const PromptCacheStats one = stats(scope);
    add_counters(sum, one);
    sum.entries += one.entries;
    sum.nodes += one.nodes;
    sum.bytes += one.bytes;
    sum.pinned_bytes += one.pinned_bytes;
    for (std::size_t g = 0; g < one.bytes_by_group.size(); g++)
      sum.bytes_by_group[g] += one.bytes_by_group[g];
  }
  return sum;
}

void PromptCache::check_invariants() const {
  trie_->check();
}

}  // namespace reprise
