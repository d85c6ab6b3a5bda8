// Inside the prompt cache: the operations on the tries. Private to prompt_*.cpp.
//
// What a long idle conversation loses under pressure, in this order (prompt_node.h: Giving):
// 1. Windowed pages that no mark holds: places between turns. Nothing that a next turn, an edit of
//    a message or an older branch begins at is lost.
// 2. Windowed pages of earlier turns' marks, except of kept turns: one of them wherever the
//    full-attention pages since the last kept one weigh as much as the windowed pages that it
//    needs. So keeping them at most doubles what a conversation occupies, and it can be cut back in
//    steps.
// 3. Its unfinished block; the position before it can still be resumed, for which its marks held
//    the windowed pages all along.
// 4. Its last block and with it the newest turn's marks. Blocks in which no position can be resumed
//    then go first of all, down to the kept turn before; there the conversation ends now, and is
//    used again from there or shortened further. No page is kept that no lookup can reach.
// 5. The windowed pages of kept turns, newest marks and branch points. In practice these go with
//    their block in 4; alone only where running sequences hold the blocks.
// 6. What is pinned, the pin that ends first of all tenants' before the others.
// Across conversations each step takes the least recently used first, so that those used lately
// come back whole. Across salts and tenants the largest gives first (law L8).
#pragma once
#include <unordered_map>

#include "kv/prompt_node.h"

namespace reprise {

struct PromptCache::Trie {
  Trie(PagePool& pages, PromptCacheOptions chosen, std::function<std::int64_t()> clock_unix_ms);

  PagePool& pool;
  PromptCacheOptions options;
  std::function<std::int64_t()> now_unix_ms;
  bool is_mode_refused = false;  // nothing is published, and every lookup is a miss of that name
  std::map<CacheScope, std::unique_ptr<Salt>> salts;
  std::map<std::string, std::unique_ptr<Tenant>> tenants;
  ByBytes<Tenant> tenants_by_bytes;

  struct Pin {
    Node* node = nullptr;
    Position position = 0;
  };
  std::uint64_t clock = 0;                          // counts uses, and numbers things
  std::uint64_t attempt = 0;                        // counts attempts to make room
  std::map<std::uint64_t, Node*> leaves;            // that are queued, by last use
  std::unordered_map<std::uint64_t, Node*> owners;  // of every page, by its key
  std::map<Node*, std::unique_ptr<Node>> orphans;
  std::map<Node::PinKey, Pin> pins;
  std::size_t pinned_bytes = 0;
  PromptCacheStats forgotten;  // counters of salts that are gone
  Position last_retokenised_at = 0;
  int paths = 0;

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
  std::size_t page_bytes(int group) const {
    return pool.layout().groups[static_cast<std::size_t>(group)].page_bytes();
  }
  bool is_windowed(int group) const { return span(group).kind != SpanKind::standard; }
  bool is_storing() const { return options.enabled && !is_mode_refused; }
  Salt& salt(const CacheScope& scope);  // made where there is none
  const Salt* find_salt(const CacheScope& scope) const;
  void forget_salt(Salt& salt);
  void update_idle(Salt& salt);
  void count_miss(Salt& salt, MissReason reason);

  // prompt_match.cpp
  struct Neighbour {
    Node* node = nullptr;
    Position length = 0;  // of the common prefix, above 0 where there is a node
  };
  Neighbour nearest_child(const Node& parent, std::span<const TokenId> tokens) const;
  Route route(const Salt& salt, std::span<const TokenId> tokens) const;
  // Per group the earliest position from which on all is there up to the end of a node's block.
  using Since = std::vector<Position>;
  void find_since(const Node& node, const Position* before, Position* since) const;
  // The same from the node alone, as far back as its positions need.
  Since since(const Node& node) const;
  // The deepest position in [at_least, from] of the node's block that can be resumed; 0: none.
  Position deepest_in_block(const Node& node, const Position* since, Position from,
                            Position at_least) const;
  bool is_restorable(const Node& node, Position position) const;
  bool has_restorable(const Node& node) const;  // a position in its block
  // The deepest position in [at_least, from] that can be resumed; 0: none. The route is cut to the
  // blocks of that position; its last block may become a sibling that begins alike and has the
  // pages.
  Position deepest_restorable(Route& route, std::span<const TokenId> tokens, Position from,
                              Position at_least) const;
  Position deepest_sibling(Route& route, std::span<const TokenId> tokens, const Position* before,
                           Position from, Position at_least) const;
  bool was_evicted(const Salt& salt, std::span<const TokenId> tokens, Position from) const;
  void touch_match(const Route& route, Position length);
  SequenceCache shared_sequence(const Route& route, Position length) const;

  // prompt_publish.cpp
  Node* publish_block(Node* parent, std::span<const TokenId> tokens, SequenceCache& cache);
  Node* publish_tail(Node* parent, std::span<const TokenId> tokens, SequenceCache& cache);
  Node* finish_publish(Node* node, Node* leaf, bool is_new, SequenceCache& cache, bool gives_way);
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
  void change_length(Node* node, Position before, Position after);

  // Calls visit(block) for each block of the path that ends at `node` whose page of `group`
  // resuming at `position` needs, the last first.
  template <class Visit>
  void visit_needed(Node* node, int group, Position position, Visit&& visit) const {
    visit_range(node, span(group).needed(position), visit);
  }
  template <class Visit>
  static void visit_range(Node* node, PositionRange range, Visit&& visit) {
    for (; !range.is_empty() && !node->is_root() && node->end() > range.begin;
         node = node->parent) {
      if (node->start < range.end) visit(node);
    }
  }
  // What a mark keeps of a windowed group: what resuming at the position needs, and one before it.
  // The same prompt again resumes there, because its last token is always forwarded; just behind a
  // chunk's edge that needs the whole chunk.
  PositionRange marked_range(int group, Position position) const {
    return {std::min(span(group).needed(position - 1).begin, span(group).needed(position).begin),
            position};
  }

  // prompt_mark.cpp
  Node* find_on_path(const Path& path, std::span<const TokenId> tokens, Position position) const;
  void hold_mark(Node* node, const Node::Mark& mark, bool holds);
  void hold_range(Node* node, Position position, std::uint32_t Node::Slot::* count, bool holds);
  void add_mark(Node* node, Node::Mark mark);
  void remove_mark(Node* node, std::size_t index);
  void bound_marks(Node* node);
  void set_strength(Node* node, Node::Mark& mark, bool is_strong);
  void settle_turns(std::span<Node* const> nodes, Position position, std::uint64_t turn);
  std::size_t window_bytes(Position position) const;
  void mark_branch(Node* node);
  void move_tail_marks(Node* tail);
  void move_branch_points(Node* leaf);

  // prompt_queues.cpp
  void change_bytes(Salt& salt, int group, bool grows);
  void touch(Node* node, std::int64_t now);
  void touch_page(Node* node, int group);
  Node* set_page(Node* node, int group, PageRef page);
  void clear_page(Node* node, int group);
  void queue_page(Node* node, int group);
  void unqueue(Node::Place& place, Salt& salt);
  void queue_leaf(Node* node);
  void unqueue_leaf(Node* node);
  void update_leaf_queue(Node* node);
  void release_leaf(Node* node);
  void lock(Node* node);
  void unlock(Node* node);

  // prompt_evict.cpp
  void remove_leaf(Node* leaf, bool leaves_ghost);
  bool is_hollow(const Node& node) const;
  void remove_hollow(Node* node, std::uint64_t PromptCacheStats::* counter);
  void evict_leaf(Node* leaf, std::uint64_t PromptCacheStats::* counter);
  void drop_page(Node* node, int group);
  void find_stranded(Node* node, int group);
  void remember_ghost(Salt& salt, std::uint64_t hash);
  bool frees_something(const Node::Item& item) const;
  bool give_up_one(Salt& salt);
  bool give_up_one();
  bool give_up_until(std::size_t bytes);
  void clear_subtree(Node* node);

  // prompt_pin.cpp
  void hold_pin(const Pin& pin, bool holds);
  void count_pinned_page(Salt& salt, int group, bool grows);
  std::size_t bytes_to_pin(const Pin& pin) const;
  bool frees_something(const Pin& pin) const;
  void drop_pin(std::map<Node::PinKey, Pin>::iterator it);
  void drop_ended_pins();
  void drop_pins_of(const Salt& salt);
  void move_pins(Node* from, Node* to);
  bool drop_broken_pins(Node* node);

  // prompt_check.cpp
  void check() const;
  struct Census;
  void check_node(const Node& node, Census& census) const;
  void check_marks(const Node& node, Census& census) const;
  void check_page(const Node& node, int group, Census& census) const;
  void check_salt(const Salt& salt, Census& census) const;
  void check_tenants() const;
};

}  // namespace reprise
