// Inside the prompt cache: nodes, their pages and marks, salts, tenants. Private to prompt_*.cpp.
#pragma once
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "kv/prompt_cache.h"

namespace reprise {

// What is given up, in this order, least recently used first.
enum class Giving : std::uint8_t {
  stranded,     // a leaf in which no position can be resumed any more
  loose_page,   // a windowed page that no mark holds
  weak_page,    // one that only marks of earlier turns hold
  tail,         // an unfinished block at the end of a path
  leaf,         // a whole block at the end of a path
  strong_page,  // a windowed page that a newest turn's mark, a kept turn or a branch point holds
};
inline constexpr std::size_t kGivings = 6;

struct PromptCache::Node {
  // A windowed page of a node, or (group < 0) the node as a leaf.
  struct Item {
    Node* node = nullptr;
    int group = -1;
  };
  using Queue = std::map<std::uint64_t, Item>;  // by last use

  // Where something stands in its salt's queues.
  struct Place {
    bool is_queued = false;
    Giving giving = Giving::leaf;
    Queue::iterator it;
  };

  struct Slot {
    PageRef page;            // empty where dropped or never published
    std::uint64_t used = 0;  // counter of the last use: the key in its queue
    // Marks, by strength, and pins whose position needs this page.
    std::uint32_t strong = 0, weak = 0, pins = 0;
    Place place;
  };

  struct Mark {
    Position position = 0;
    std::uint8_t kinds = 0;  // a bit each
    bool is_strong = false;
    std::uint64_t turn = 0;  // which request set it last
    bool has(MarkKind kind) const { return (kinds >> static_cast<int>(kind) & 1) != 0; }
  };
  static constexpr std::uint8_t bit(MarkKind kind) {
    return static_cast<std::uint8_t>(1 << static_cast<int>(kind));
  }
  // Bounds: what is beyond them goes, oldest and weakest first.
  static constexpr std::size_t kMarksMax = 16;
  static constexpr std::size_t kBranchPointsMax = 4;

  using PinKey = std::pair<std::int64_t, std::uint64_t>;  // end, number

  // Lexicographic by tokens, so that the longest common prefix is with a neighbour.
  struct ByTokens {
    using is_transparent = void;
    static bool less(std::span<const TokenId> a, std::span<const TokenId> b) {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
    }
    bool operator()(const std::unique_ptr<Node>& a, const std::unique_ptr<Node>& b) const {
      return less(a->tokens, b->tokens);
    }
    bool operator()(const std::unique_ptr<Node>& a, std::span<const TokenId> b) const {
      return less(a->tokens, b);
    }
    bool operator()(std::span<const TokenId> a, const std::unique_ptr<Node>& b) const {
      return less(a, b->tokens);
    }
  };
  using Children = std::set<std::unique_ptr<Node>, ByTokens>;

  Salt* salt = nullptr;
  Node* parent = nullptr;  // null: a root, or an orphan that a reset left to its path
  bool is_orphan = false;
  Position start = 0;             // of its first token; a multiple of 64
  std::vector<TokenId> tokens;    // 64 where it has children or paths; none in a root
  std::uint64_t prefix_hash = 0;  // of all tokens up to its end
  std::vector<Slot> slots;        // one a group
  Children children;
  std::multiset<Position> child_lengths;  // longest() of each child
  std::vector<Mark> marks;                // positions in (start, end], ascending
  std::vector<PinKey> pins;               // with positions in (start, end]
  int paths = 0;                          // sequences that stand at its end: it stays
  std::uint64_t used = 0;                 // the newest use of it as part of a lookup or a publish
  std::int64_t used_unix_ms = 0;
  std::uint64_t hits = 0;                        // restores to a position inside it
  bool is_stranded = false;                      // a leaf, and no position inside it can be resumed
  Place place;                                   // as a leaf
  std::map<std::uint64_t, Node*>::iterator age;  // among all leaves, where it is queued

  Position end() const { return start + static_cast<Position>(tokens.size()); }
  // End of the longest entry at or below this node.
  Position longest() const { return child_lengths.empty() ? end() : *child_lengths.rbegin(); }
  bool is_root() const { return parent == nullptr && !is_orphan; }
  bool is_whole() const { return end() - start == kPagePositions; }
  Slot& slot(int group) { return slots[static_cast<std::size_t>(group)]; }
  const Slot& slot(int group) const { return slots[static_cast<std::size_t>(group)]; }
};

// What has bytes, ordered by them; the number tells equal ones apart.
template <class Owner>
using ByBytes = std::map<std::pair<std::size_t, std::uint64_t>, Owner*>;

// All salts of one API key.
struct PromptCache::Tenant {
  std::string name;
  std::uint64_t number = 0;
  std::size_t bytes = 0, pinned_bytes = 0;
  ByBytes<Salt> salts;
  std::map<std::uint64_t, Salt*> idle_salts;  // without nodes and paths, by last use
  std::uint64_t exhausted = 0;  // the attempt to make room in which it had nothing more to give
};

// One scope's trie, queues, counters and ghosts.
struct PromptCache::Salt {
  struct GivingQueue {
    Node::Queue items;
    std::uint64_t attempt = 0;  // to make room: in it nothing below `scan_from` frees memory
    std::uint64_t scan_from = 0;
  };

  CacheScope scope;
  Tenant* tenant = nullptr;
  std::uint64_t number = 0;
  Node root;
  std::size_t nodes = 0, entries = 0;
  int paths = 0;                   // at its nodes, orphans included
  std::uint64_t idle_since = 0;    // its key among the idle ones; 0: has nodes or paths
  std::vector<std::size_t> pages;  // by group
  std::size_t bytes = 0, pinned_bytes = 0;
  std::array<GivingQueue, kGivings> queues;
  std::uint64_t exhausted = 0;        // as in Tenant
  PromptCacheStats counters;          // entries, nodes and bytes are filled in when asked
  std::vector<std::uint64_t> ghosts;  // ring of hashes of prefixes that were evicted
  std::size_t next_ghost = 0;
  std::unordered_multiset<std::uint64_t> ghost_set;
};

// Chained over tokens: equal for equal prefixes. Names misses, and runs in the tree; never decides
// what is reused, so 64 bits suffice.
inline std::uint64_t extend_prefix_hash(std::uint64_t hash, TokenId token) {
  hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x9e3779b97f4a7c15u;
  hash ^= hash >> 29;
  hash *= 0xbf58476d1ce4e5b9u;
  return hash ^ (hash >> 32);
}
inline constexpr std::uint64_t kEmptyPrefixHash = 0x51ed270b2d4c1f35u;

inline Position common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return end.first - a.begin();
}
inline bool is_prefix(std::span<const TokenId> prefix, std::span<const TokenId> tokens) {
  return common_prefix(prefix, tokens) == static_cast<Position>(prefix.size());
}

}  // namespace reprise
