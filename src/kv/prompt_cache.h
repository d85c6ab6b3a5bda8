// The prompt cache: one trie of 64-token blocks per salt, all attention kinds alike. A node holds
// up to 64 tokens and one page reference per span group, some of which may have been dropped; any
// position whose needed pages are present can be resumed. Owner and only caller: the engine thread.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "kv/kv_snapshot.h"
#include "kv/sequence_cache.h"

namespace reprise {

enum class MissReason : std::uint8_t {
  disabled,           // the cache is off, or the request asked not to use it
  no_candidate,       // no entry begins with the prompt's first token
  prefix_too_short,   // the common prefix is shorter than the least worth reusing
  snapshot_diverged,  // the common prefix is long enough, but no position of it keeps what it needs
  evicted,            // one of the three above, and a longer prefix of the prompt was here once
  mode_refused,       // the KV mode cannot be snapshotted
  corrupt,            // a check failed while restoring
};
inline constexpr int kMissReasons = 7;
std::string_view miss_reason_name(MissReason reason);

// Why a position is worth keeping its windowed pages longer than others.
enum class MarkKind : std::uint8_t {
  turn_end,          // a message of the prompt ends here
  history_boundary,  // the next turn's prompt surely agrees up to here
  prompt_end,
  completion_end,
  branch_point,  // two continuations part here
  preempted,     // a sequence gave up its pages here and will come back
};
inline constexpr int kMarkKinds = 6;
std::string_view mark_kind_name(MarkKind kind);

// Under which an entry lives (law L8). The salt keeps entries apart; the tenant, the API key's
// name, has a share of the budget. One salt belongs to one tenant.
struct CacheScope {
  std::string tenant;
  std::string salt;
  auto operator<=>(const CacheScope&) const = default;
};

enum class CacheStore : std::uint8_t {
  reference,     // a hit shares the pages
  materialised,  // a hit goes through snapshot_sequence and restore_sequence (tests the contract)
};

struct PromptCacheOptions {
  bool enabled = true;
  CacheStore store = CacheStore::reference;
  SnapshotWords words = {};
  // False: entries are shared inside the process only, whatever the KV mode.
  bool needs_snapshots = true;
  Position min_prefix = 16;            // shorter common prefixes are not reused
  std::int64_t ttl_ms = 0;             // 0: no limit
  std::size_t ghosts_per_salt = 4096;  // remembered hashes of evicted blocks
  // Salts without entries and sequences whose counters and ghosts are kept: a tenant's newest so
  // many, at least one. Clients choose salts.
  std::size_t idle_salts_max = 256;
  // Bytes that pins may hold: of one tenant, and of all together. More are not taken.
  std::size_t pinned_bytes_per_tenant = 0;
  std::size_t pinned_bytes_max = 0;
};

struct LastHit {
  Position matched_length = 0;
  Position stored_length = 0;  // of the entry the match lies on
  bool truncated = false;      // matched < stored
  std::int64_t at_unix_ms = 0;
};

struct PromptCacheStats {
  std::uint64_t lookups = 0, hits = 0;
  std::uint64_t inserts = 0;                           // nodes
  std::uint64_t evictions_lru = 0, evictions_ttl = 0;  // nodes (each was a leaf when it went)
  std::uint64_t window_pages_dropped = 0;
  std::uint64_t tokens_reused = 0;
  std::array<std::uint64_t, kMissReasons> misses = {};
  std::optional<MissReason> last_miss;
  std::int64_t last_miss_at_unix_ms = 0;
  std::optional<LastHit> last_hit;
  // Prompts that left the cached path inside a reply with the same text in other tokens, and where
  // the newest did.
  std::uint64_t retokenised = 0;
  Position last_retokenised_at = 0;
  std::uint64_t pins_refused = 0;  // beyond a tenant's bound
  std::size_t pinned_bytes = 0;
  std::size_t entries = 0;  // nodes without children
  std::size_t nodes = 0;
  std::size_t bytes = 0;  // of the pages it refers to, each counted once
  std::vector<std::size_t> bytes_by_group;
};

// One unbranched run of blocks in a scope's trie, for people to look at. No tokens, no text.
struct CacheRun {
  static constexpr std::size_t kNoParent = static_cast<std::size_t>(-1);
  std::size_t parent = kNoParent;  // index of the run it continues, an earlier one
  std::uint64_t hash = 0;          // of all tokens up to its end
  Position start = 0, end = 0;     // tokens [start, end)
  std::vector<std::pair<Position, MarkKind>> marks;
  std::vector<std::size_t> pages;         // present, by span group
  std::size_t bytes = 0;                  // of them
  std::int64_t used_unix_ms = 0;          // newest use of a block of it
  std::uint64_t hits = 0;                 // lookups that resumed inside it
  int paths = 0;                          // running sequences that stand in it
  std::int64_t pinned_until_unix_ms = 0;  // 0: not pinned
};

class PromptCache {
 public:
  // `now_unix_ms` is the clock (tests pass their own). The pool must outlive the cache.
  PromptCache(PagePool& pool, PromptCacheOptions options,
              std::function<std::int64_t()> now_unix_ms);
  PromptCache(const PromptCache&) = delete;
  PromptCache& operator=(const PromptCache&) = delete;
  ~PromptCache();

  // The KV mode cannot be snapshotted: nothing is kept, every lookup is a miss mode_refused.
  bool refuses_mode() const;

  struct Node;
  struct Salt;
  struct Tenant;

  // Where a sequence stands in the trie: its deepest published or restored full block. Pins the
  // nodes on it. Move-only; may outlive a reset (the nodes then belong to nobody else).
  class Path {
   public:
    Path() = default;
    Path(Path&& other) noexcept;
    Path& operator=(Path&& other) noexcept;
    ~Path();
    Position published() const { return published_; }  // tokens in full blocks

   private:
    friend class PromptCache;
    PromptCache* cache_ = nullptr;
    Node* node_ = nullptr;       // the last of `blocks`, or a root
    std::vector<Node*> blocks_;  // from the root on (of no use once node_ is an orphan)
    Position published_ = 0;
    std::uint64_t turn_ = 0;  // the request's number: its marks are of one turn
  };

  // An empty path at the root of a salt: where a sequence starts that found nothing.
  Path start(const CacheScope& scope);

  struct Match {
    Position length = 0;  // tokens that can be resumed; 0: a miss
    Position common =
        0;  // tokens the prompt shares with the cache: where it leaves the cached path
    Position stored = 0;  // length of the longest entry below the match
    std::optional<MissReason> miss;
  };

  // The deepest position <= `limit` that a sequence with these tokens can resume at, on the path of
  // blocks that the tokens run through (for each of its last blocks a few siblings that begin alike
  // are looked at too). Changes nothing but recency; counts nothing (see count_lookup). O(tokens).
  Match match(const CacheScope& scope, std::span<const TokenId> tokens, Position limit);

  // Counts one request's first lookup as a hit or as a miss with its reason. tokens as in match().
  void count_lookup(const CacheScope& scope, std::span<const TokenId> tokens, const Match& match);

  // Where a prompt leaves the cached path inside a reply (the next mark behind match.common there
  // is a completion's end): the reply's forwarded tokens from match.common on, at most `most`.
  // Empty elsewhere. Of several replies the one used last.
  std::vector<TokenId> sampled_continuation(const CacheScope& scope,
                                            std::span<const TokenId> tokens, const Match& match,
                                            std::size_t most) const;
  // The prompt's text went on as that reply did: only its tokens differ, from `at` on.
  void count_retokenised(const CacheScope& scope, Position at);

  // Makes `cache` and `path` stand at match.length. False when a check failed: then nothing
  // changed, and it was counted as a lookup that missed as corrupt (so count_lookup is not called
  // for it). `tokens` and `scope` as in match(), with no other call on the cache in between. A
  // materialised copy that finds no room gives way to shared pages.
  bool restore(const CacheScope& scope, std::span<const TokenId> tokens, const Match& match,
               SequenceCache& cache, Path& path);

  // Publishes the full blocks of `cache` behind path.published(); with_tail also the unfinished
  // block. Where the trie already holds a block, the sequence's own page gives way to the shared
  // one. tokens: the first cache.offset() tokens of the sequence. Call after commit, before
  // drop_unneeded. After a reset a path starts again at its salt's root.
  void publish(Path& path, std::span<const TokenId> tokens, SequenceCache& cache, bool with_tail);

  // Keeps the windowed pages that resuming at `position` needs longer than others (make_room),
  // until the node that holds the position goes. A turn's prompt_end or completion_end weakens the
  // marks of earlier turns before it. tokens as in publish(); `position` <= what was published,
  // tails included.
  void mark(const Path& path, std::span<const TokenId> tokens, Position position, MarkKind kind);

  // Keeps all that resuming at `position` needs until `until_unix_ms`, whatever else is given up
  // (but never so that a request fails that fits without the cache). A longer pin of the same place
  // stays. False when the tenant's bound or the bound of all has no room for it (counted).
  // tokens and position as in mark().
  bool pin(const Path& path, std::span<const TokenId> tokens, Position position,
           std::int64_t until_unix_ms);

  // Gives up state until the pool has `bytes` available, first of the tenant with the most bytes
  // and there of the salt with the most, least recently used first: leaves without a position that
  // can be resumed (what is left of a branch whose end has gone); windowed pages outside marks;
  // those of marks that a later turn superseded, but for a kept one wherever the full-attention
  // pages since the last weigh as much; unfinished blocks at the ends of paths (their marks move to
  // the block before); other leaves; pages of the newest marks, kept ones and branch points. When
  // nothing else is left anywhere, pins, those that end first before others. Pages that sequences
  // hold too free nothing and are passed over. False when that much cannot be had.
  bool make_room(std::size_t bytes);

  // Drops entries that were not used for the TTL, and pins whose time is over.
  void expire();

  struct ResetOutcome {
    std::size_t freed_bytes = 0;
    std::size_t freed_entries = 0;
  };
  ResetOutcome reset(const CacheScope& scope);            // counters stay; pins go too
  PromptCacheStats stats(const CacheScope& scope) const;  // zeros for a forgotten salt
  PromptCacheStats stats() const;                         // sums over all salts, forgotten ones too
  // The scope's trie, parents before children, at most `most` runs (the most recently used).
  std::vector<CacheRun> tree(const CacheScope& scope, std::size_t most) const;

  // CHECKs that counts, bytes, pins and queues agree (tests call it after every operation).
  void check_invariants() const;

 private:
  struct Trie;
  std::unique_ptr<Trie> trie_;
};

}  // namespace reprise
