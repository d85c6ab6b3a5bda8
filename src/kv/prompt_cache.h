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

// Why a position is worth keeping its windowed pages longest.
enum class MarkKind : std::uint8_t { history_boundary, prompt_end, completion_end };

enum class CacheStore : std::uint8_t {
  reference,     // a hit shares the pages
  materialised,  // a hit goes through snapshot_sequence and restore_sequence (tests the contract)
};

struct PromptCacheOptions {
  bool enabled = true;
  CacheStore store = CacheStore::reference;
  SnapshotWords words = {};
  Position min_prefix = 16;            // shorter common prefixes are not reused
  std::int64_t ttl_ms = 0;             // 0: no limit
  std::size_t ghosts_per_salt = 4096;  // remembered hashes of evicted blocks
  // Salts without entries and sequences whose counters and ghosts are kept: the newest so many, at
  // least one. Clients choose salts.
  std::size_t idle_salts_max = 256;
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
  std::size_t entries = 0;  // nodes without children
  std::size_t nodes = 0;
  std::size_t bytes = 0;  // of the pages it refers to, each counted once
  std::vector<std::size_t> bytes_by_group;
};

class PromptCache {
 public:
  // `now_unix_ms` is the clock (tests pass their own). The pool must outlive the cache.
  PromptCache(PagePool& pool, PromptCacheOptions options,
              std::function<std::int64_t()> now_unix_ms);
  PromptCache(const PromptCache&) = delete;
  PromptCache& operator=(const PromptCache&) = delete;
  ~PromptCache();

  struct Node;
  struct Salt;

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
    Node* node_ = nullptr;
    Position published_ = 0;
  };

  // An empty path at the root of a salt: where a sequence starts that found nothing.
  Path start(const std::string& salt);

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
  Match match(const std::string& salt, std::span<const TokenId> tokens, Position limit);

  // Counts one request's first lookup as a hit or as a miss with its reason.
  void count_lookup(const std::string& salt, const Match& match);

  // Makes `cache` and `path` stand at match.length. False when a check failed: then nothing
  // changed, and it was counted as a lookup that missed as corrupt (so count_lookup is not called
  // for it). `tokens` and `salt` as in match(), with no other call on the cache in between. A
  // materialised copy that finds no room gives way to shared pages.
  bool restore(const std::string& salt, std::span<const TokenId> tokens, const Match& match,
               SequenceCache& cache, Path& path);

  // Publishes the full blocks of `cache` behind path.published(); with_tail also the unfinished
  // block. Where the trie already holds a block, the sequence's own page gives way to the shared
  // one. tokens: the first cache.offset() tokens of the sequence. Call after commit, before
  // drop_unneeded. After a reset a path starts again at its salt's root.
  void publish(Path& path, std::span<const TokenId> tokens, SequenceCache& cache, bool with_tail);

  // Keeps the windowed pages that resuming at `position` needs until nothing else can be given up,
  // or until the node that holds the position goes.
  // tokens as in publish(); `position` <= what was published, tails included.
  void mark(const Path& path, std::span<const TokenId> tokens, Position position, MarkKind kind);

  // Gives up least recently used state until the pool has `bytes` available: windowed pages outside
  // marks first, then leaves (of a branch whose end has gone, down to its next position that can be
  // resumed, before other branches), then marked pages. Pages that sequences hold too free nothing
  // and are passed over. False when that much cannot be had.
  bool make_room(std::size_t bytes);

  // Drops entries that were not used for the TTL.
  void expire();

  struct ResetOutcome {
    std::size_t freed_bytes = 0;
    std::size_t freed_entries = 0;
  };
  ResetOutcome reset(const std::string& salt);            // counters stay
  PromptCacheStats stats(const std::string& salt) const;  // zeros for a forgotten salt
  PromptCacheStats stats() const;                         // sums over all salts, forgotten ones too

  // CHECKs that counts, bytes, pins and queues agree (tests call it after every operation).
  void check_invariants() const;

 private:
  struct Trie;
  std::unique_ptr<Trie> trie_;
};

}  // namespace reprise
