// Inside the prompt cache: nodes, salts, queues. Private to prompt_*.cpp.
//
// Eviction in one place. Every page of the trie belongs to exactly one node. Windowed pages lie in
// one of two queues by last use: outside marks, or held by marks. Nodes without children and pins
// lie in the queue of leaves. A leaf that has no position to resume at any more (its branch's end
// went before) goes first, whatever its age: what remains of a branch ends at a position that is
// worth something.
#pragma once
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "kv/prompt_cache.h"

namespace reprise {

struct PromptCache::Node {
  struct Slot {
    PageRef page;             // empty where dropped or never published
    std::uint64_t used = 0;   // counter of the last use: the key in its queue
    std::uint32_t marks = 0;  // marks whose position needs this page
  };
  struct Mark {
    Position position = 0;
    MarkKind kind = MarkKind::history_boundary;
  };
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
  std::vector<TokenId> tokens;    // 64 where it has children or pins; none in a root
  std::uint64_t prefix_hash = 0;  // of all tokens up to its end
  std::vector<Slot> slots;        // one a group
  Children children;
  std::multiset<Position> child_lengths;  // longest() of each child
  std::vector<Mark> marks;                // positions in (start, end]
  int pins = 0;
  std::uint64_t used = 0;
  std::int64_t used_unix_ms = 0;
  bool is_stranded = false;  // no position inside it can be resumed
  bool is_queued = false;    // in the queue of leaves

  Position end() const { return start + static_cast<Position>(tokens.size()); }
  // End of the longest entry at or below this node.
  Position longest() const { return child_lengths.empty() ? end() : *child_lengths.rbegin(); }
  bool is_root() const { return parent == nullptr && !is_orphan; }
  Slot& slot(int group) { return slots[static_cast<std::size_t>(group)]; }
  const Slot& slot(int group) const { return slots[static_cast<std::size_t>(group)]; }
};

// One tenant's trie, counters and ghosts.
struct PromptCache::Salt {
  std::string name;
  Node root;
  std::size_t nodes = 0, entries = 0;
  int pins = 0;                       // of its nodes, orphans included
  std::uint64_t idle_since = 0;       // its key among the idle ones; 0: has nodes or pins
  std::vector<std::size_t> pages;     // by group
  PromptCacheStats counters;          // entries, nodes and bytes are filled in when asked
  std::vector<std::uint64_t> ghosts;  // ring of hashes of prefixes that were evicted
  std::size_t next_ghost = 0;
  std::unordered_multiset<std::uint64_t> ghost_set;
};

struct PromptCache::Trie {
  Trie(PagePool& pages, PromptCacheOptions chosen, std::function<std::int64_t()> clock_unix_ms)
      : pool(pages), options(std::move(chosen)), now_unix_ms(std::move(clock_unix_ms)) {
    if (options.enabled) check_mode();
  }

  PagePool& pool;
  PromptCacheOptions options;
  std::function<std::int64_t()> now_unix_ms;
  bool is_mode_refused = false;  // nothing is published, and every lookup is a miss of that name
  std::map<std::string, std::unique_ptr<Salt>, std::less<>> salts;

  struct PagePlace {
    Node* node = nullptr;
    int group = 0;
  };
  std::uint64_t clock = 0;                                 // counts uses
  std::map<std::uint64_t, PagePlace> loose_pages;          // windowed pages outside marks
  std::map<std::uint64_t, PagePlace> marked_pages;         // windowed pages that marks hold
  std::map<std::pair<bool, std::uint64_t>, Node*> leaves;  // stranded ones (false) first
  std::unordered_map<const std::uint8_t*, Node*> owners;   // of every page
  std::map<Node*, std::unique_ptr<Node>> orphans;
  std::map<std::uint64_t, Salt*> idle_salts;  // without nodes and pins, by last use
  PromptCacheStats forgotten;                 // counters of salts that are gone
  int pins = 0;

  // Where a prompt runs through a salt's trie.
  struct Route {
    std::vector<Node*> nodes;  // block by block; all but the last are matched whole
    Position common = 0;       // tokens in common with them
    Node* last() const { return nodes.empty() ? nullptr : nodes.back(); }
  };

  int groups() const { return static_cast<int>(pool.layout().groups.size()); }
  const LayerSpan& span(int group) const {
    return pool.layout().groups[static_cast<std::size_t>(group)].span;
  }
  bool is_windowed(int group) const { return span(group).kind != SpanKind::standard; }
  void check_mode();  // warns once where the pool's KV mode may not be snapshotted
  Salt& salt(const std::string& name);  // made where there is none
  const Salt* find_salt(const std::string& name) const;
  void update_idle(Salt& salt);

  // prompt_match.cpp
  struct Neighbour {
    Node* node = nullptr;
    Position length = 0;  // of the common prefix, above 0 where there is a node
  };
  Neighbour nearest_child(const Node& parent, std::span<const TokenId> tokens) const;
  Route route(Salt& salt, std::span<const TokenId> tokens) const;
  static Route route_to(Node* node);
  // Per group the earliest position from which on all is there up to the end of a node's block.
  using Since = std::vector<Position>;
  Since since(const Node& node, const Since* before) const;
  // The deepest position in [at_least, from] of the node's block that can be resumed; 0: none.
  Position deepest_in_block(const Node& node, const Since& since, Position from,
                            Position at_least) const;
  // The deepest position in [at_least, from] that can be resumed; 0: none. The route is cut to the
  // blocks of that position; its last block may become a sibling that begins alike and has the
  // pages.
  Position deepest_restorable(Route& route, std::span<const TokenId> tokens, Position from,
                              Position at_least) const;
  bool is_stranded(Node* leaf) const;
  bool was_evicted(const Salt& salt, std::span<const TokenId> tokens, Position from) const;
  void touch_match(const Route& route, Position length);
  SequenceCache shared_sequence(const Route& route, Position length) const;

  // prompt_publish.cpp
  Node* publish_block(Node* parent, std::span<const TokenId> tokens, SequenceCache& cache);
  Node* publish_tail(Node* parent, std::span<const TokenId> tokens, SequenceCache& cache);
  Node* find_child(Node* parent, std::span<const TokenId> tokens) const;
  template <class Fits>
  Node* find_owner(const Node& parent, const SequenceCache& cache, Fits&& fits) const;
  Node* find_covering(Node* parent, std::span<const TokenId> tokens,
                      const SequenceCache& cache) const;
  Node* find_prefix_leaf(Node* parent, std::span<const TokenId> tokens,
                         const SequenceCache& cache) const;
  bool shares_page(const Node& node, const SequenceCache& cache) const;
  bool covers(const Node& node, const SequenceCache& cache) const;
  bool can_extend(const Node& leaf, const SequenceCache& cache) const;
  Node* add_node(Node* parent, std::span<const TokenId> tokens);
  void extend_leaf(Node* leaf, std::span<const TokenId> tokens, const SequenceCache& cache);
  void take_pages(Node* node, SequenceCache& cache, bool gives_way, const Node* leaf);
  void absorb_leaf(Node* leaf, Node* into);
  bool has_all_of(const Node& node, const Node& leaf) const;
  void add_mark(Node* node, Node::Mark mark);
  void hold_mark(Node* node, const Node::Mark& mark, bool holds);

  // prompt_evict.cpp
  void touch(Node* node);
  void touch_page(Node* node, int group);
  Node* set_page(Node* node, int group, PageRef page);
  void clear_page(Node* node, int group);
  void queue_page(Node* node, int group);
  void unqueue_page(Node* node, int group);
  void update_leaf_queue(Node* node);
  void change_length(Node* node, Position before, Position after);
  void pin(Node* node);
  void unpin(Node* node);
  void remove_leaf(Node* leaf, bool leaves_ghost);
  bool is_hollow(const Node& node) const;
  void remove_hollow(Node* node, std::uint64_t PromptCacheStats::* counter);
  void evict_leaf(Node* leaf, std::uint64_t PromptCacheStats::* counter);
  void remember_ghost(Salt& salt, std::uint64_t hash);
  bool drop_pages(std::map<std::uint64_t, PagePlace>& queue, std::size_t bytes);
  bool evict_leaves(std::size_t bytes);
  bool frees_something(const Node& leaf) const;
  void clear_subtree(Node* node);

  void count_miss(Salt& salt, MissReason reason);

  // prompt_check.cpp
  void check() const;
  struct Census;
  void check_node(const Node& node, Census& census) const;
};

// Chained over tokens: equal for equal prefixes. Only ever names a miss, so 64 bits suffice.
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
