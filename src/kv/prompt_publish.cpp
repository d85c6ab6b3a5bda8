// Publishing blocks and unfinished ends of sequences.
#include "kv/prompt_trie.h"

namespace reprise {
namespace {

// Whether `page` has every place that `other`, a page of the same block, has.
bool holds_all_of(const PageRef& page, const PageRef& other) {
  return !other || (page && page.first() <= other.first());
}

}  // namespace

PromptCache::Node* PromptCache::Trie::find_child(Node* parent,
                                                 std::span<const TokenId> tokens) const {
  const auto found = parent->children.find(tokens);
  return found == parent->children.end() ? nullptr : found->get();
}

// The node that has one of the sequence's own pages of the block below `parent`, if it fits.
template <class Fits>
PromptCache::Node* PromptCache::Trie::find_owner(const Node& parent, const SequenceCache& cache,
                                                 Fits&& fits) const {
  for (int group = 0; group < groups(); group++) {
    const PageRef& page = cache.page(group, parent.end() / kPagePositions);
    if (!page) continue;
    const auto owner = owners.find(page.key());
    if (owner != owners.end() && fits(owner->second)) return owner->second;
  }
  return nullptr;
}

// A child that begins with all these tokens: the one with the sequence's own page (which it must
// not lose to a shorter one), else the shortest, which stands first.
PromptCache::Node* PromptCache::Trie::find_covering(Node* parent, std::span<const TokenId> tokens,
                                                    const SequenceCache& cache) const {
  Node* owner = find_owner(*parent, cache, [&](const Node* node) {
    return node->parent == parent && is_prefix(tokens, node->tokens);
  });
  if (owner != nullptr) return owner;
  const auto found = parent->children.lower_bound(tokens);
  if (found == parent->children.end() || !is_prefix(tokens, (*found)->tokens)) return nullptr;
  return found->get();
}

// An unfinished leaf that these tokens extend: the one with the sequence's own page, else a
// neighbour.
PromptCache::Node* PromptCache::Trie::find_prefix_leaf(Node* parent,
                                                       std::span<const TokenId> tokens,
                                                       const SequenceCache& cache) const {
  const auto is_extended = [&](const Node* node) {
    return node->parent == parent && node->tokens.size() < tokens.size() &&
           is_prefix(node->tokens, tokens);
  };
  if (Node* owner = find_owner(*parent, cache, is_extended); owner != nullptr) return owner;
  const auto next = parent->children.lower_bound(tokens);
  if (next == parent->children.begin()) return nullptr;
  Node* before = std::prev(next)->get();
  return is_extended(before) ? before : nullptr;
}

bool PromptCache::Trie::shares_page(const Node& node, const SequenceCache& cache) const {
  for (int group = 0; group < groups(); group++) {
    const PageRef& own = cache.page(group, node.start / kPagePositions);
    if (own && own == node.slot(group).page) return true;
  }
  return false;
}

// Whether the node has all that the sequence's pages of this block have.
bool PromptCache::Trie::covers(const Node& node, const SequenceCache& cache) const {
  for (int group = 0; group < groups(); group++) {
    const PageRef& own = cache.page(group, node.start / kPagePositions);
    const PageRef& page = node.slot(group).page;
    if (!holds_all_of(page, own)) return false;
  }
  return true;
}

// Whether the sequence's pages have all that the leaf has, so that the leaf may become the longer
// one.
bool PromptCache::Trie::can_extend(const Node& leaf, const SequenceCache& cache) const {
  for (int group = 0; group < groups(); group++) {
    const PageRef& own = cache.page(group, leaf.start / kPagePositions);
    const PageRef& page = leaf.slot(group).page;
    if (!holds_all_of(own, page)) return false;
  }
  return true;
}

// Tells the ancestors that the longest entry at or below `node` changed.
void PromptCache::Trie::change_length(Node* node, Position before, Position after) {
  for (; before != after && node->parent != nullptr; node = node->parent) {
    Node* parent = node->parent;
    const Position parent_before = parent->longest();
    parent->child_lengths.erase(parent->child_lengths.find(before));
    parent->child_lengths.insert(after);
    before = parent_before;
    after = parent->longest();
  }
}

PromptCache::Node* PromptCache::Trie::add_node(Node* parent, std::span<const TokenId> tokens) {
  auto made = std::make_unique<Node>();
  Node* node = made.get();
  node->salt = parent->salt;
  node->parent = parent;
  node->start = parent->end();
  node->tokens.assign(tokens.begin(), tokens.end());
  node->prefix_hash = parent->prefix_hash;
  for (const TokenId token : tokens)
    node->prefix_hash = extend_prefix_hash(node->prefix_hash, token);
  node->slots.resize(static_cast<std::size_t>(groups()));
  Salt& salt = *node->salt;
  salt.nodes++;
  if (parent->is_root() || !parent->children.empty()) salt.entries++;  // else the parent was one
  salt.counters.inserts++;
  const Position before = parent->longest();
  parent->child_lengths.insert(node->end());
  parent->children.insert(std::move(made));
  change_length(parent, before, parent->longest());
  update_leaf_queue(parent);
  return node;
}

// The leaf becomes the longer block, for take_pages to fill with the sequence's pages.
void PromptCache::Trie::extend_leaf(Node* leaf, std::span<const TokenId> tokens,
                                    const SequenceCache& cache) {
  Node* parent = leaf->parent;
  unqueue_leaf(leaf);
  for (const Node::Mark& mark : leaf->marks) hold_mark(leaf, mark, false);  // as of a tail
  auto handle = parent->children.extract(parent->children.find(leaf->tokens));
  const Position before = leaf->end();
  for (std::size_t i = leaf->tokens.size(); i < tokens.size(); i++)
    leaf->prefix_hash = extend_prefix_hash(leaf->prefix_hash, tokens[i]);
  leaf->tokens.assign(tokens.begin(), tokens.end());
  CHECK(parent->children.insert(std::move(handle)).inserted);
  for (const Node::Mark& mark : leaf->marks) hold_mark(leaf, mark, true);
  change_length(leaf, before, leaf->end());
  for (int group = 0; group < groups(); group++) {
    // Others may have gone on differently in the leaf's old page.
    const PageRef& page = leaf->slot(group).page;
    if (page && !(page == cache.page(group, leaf->start / kPagePositions))) clear_page(leaf, group);
  }
  update_leaf_queue(leaf);
}

// Fills the node's missing pages from the sequence. gives_way: where the node has the page, the
// sequence takes it in place of its own. `leaf` is dealt with by the caller, whatever it loses.
void PromptCache::Trie::take_pages(Node* node, SequenceCache& cache, bool gives_way,
                                   const Node* leaf) {
  // Beyond the sequence's end its page may hold what another one wrote.
  if (node->end() > cache.offset()) return;
  const Position block = node->start / kPagePositions;
  for (int group = 0; group < groups(); group++) {
    const PageRef& own = cache.page(group, block);
    const PageRef& page = node->slot(group).page;
    if (!own || own == page) continue;
    if (!page || page.first() > own.first()) {
      Node* before = set_page(node, group, own);
      if (before == nullptr || before == node || before == leaf) continue;
      if (drop_broken_pins(before)) remove_hollow(before, &PromptCacheStats::evictions_lru);
    } else if (gives_way) {
      cache.replace_page(group, block, page);
    }
  }
}

// Whether the node, which begins with the leaf's tokens, makes the leaf superfluous.
bool PromptCache::Trie::has_all_of(const Node& node, const Node& leaf) const {
  for (int group = 0; group < groups(); group++) {
    const PageRef& page = node.slot(group).page;
    const PageRef& other = leaf.slot(group).page;
    if (other && (!page || page.first() > other.first())) return false;
  }
  return true;
}

void PromptCache::Trie::absorb_leaf(Node* leaf, Node* into) {
  for (const Node::Mark& mark : leaf->marks) add_mark(into, mark);
  into->hits += leaf->hits;
  move_pins(leaf, into);
  remove_leaf(leaf, false);
}

// The node is there with its tokens: its pages, and what becomes of the leaf that it goes on from.
PromptCache::Node* PromptCache::Trie::finish_publish(Node* node, Node* leaf, bool is_new,
                                                     SequenceCache& cache, bool gives_way) {
  touch(node, now_unix_ms());
  take_pages(node, cache, gives_way, leaf);
  if (leaf != nullptr && leaf != node && has_all_of(*node, *leaf)) {
    absorb_leaf(leaf, node);
  } else if (leaf != nullptr) {
    drop_broken_pins(leaf);
  }
  if (is_new) mark_branch(node);
  return node;
}

PromptCache::Node* PromptCache::Trie::publish_block(Node* parent, std::span<const TokenId> tokens,
                                                    SequenceCache& cache) {
  Node* node = find_child(parent, tokens);
  Node* leaf = find_prefix_leaf(parent, tokens, cache);
  const bool is_new = node == nullptr;
  if (is_new && leaf != nullptr && (shares_page(*leaf, cache) || can_extend(*leaf, cache))) {
    extend_leaf(leaf, tokens, cache);
    node = leaf;
  }
  if (node == nullptr) node = add_node(parent, tokens);
  return finish_publish(node, leaf, is_new, cache, true);
}

PromptCache::Node* PromptCache::Trie::publish_tail(Node* parent, std::span<const TokenId> tokens,
                                                   SequenceCache& cache) {
  Node* node = find_covering(parent, tokens, cache);
  if (node != nullptr && node->tokens.size() > tokens.size() && !covers(*node, cache) &&
      !shares_page(*node, cache)) {
    node = nullptr;  // it lacks what we have, and cannot take pages that end before it does
  }
  Node* leaf = find_prefix_leaf(parent, tokens, cache);
  const bool is_new = node == nullptr;
  if (is_new && leaf != nullptr && (shares_page(*leaf, cache) || can_extend(*leaf, cache))) {
    extend_leaf(leaf, tokens, cache);
    node = leaf;
  }
  if (node == nullptr) node = add_node(parent, tokens);
  return finish_publish(node, leaf, is_new, cache, false);
}

void PromptCache::publish(Path& path, std::span<const TokenId> tokens, SequenceCache& cache,
                          bool with_tail) {
  if (!trie_->is_storing()) return;
  CHECK(path.cache_ == this && static_cast<Position>(tokens.size()) >= cache.offset());
  const auto stand_at = [&](Node* node) {
    trie_->lock(node);
    trie_->unlock(path.node_);
    path.node_ = node;
    path.published_ = node->end();
  };
  if (path.node_->is_orphan) {
    path.blocks_.clear();
    stand_at(&path.node_->salt->root);
  }
  while (path.published_ > cache.offset()) {  // the sequence went back
    path.blocks_.pop_back();
    stand_at(path.node_->parent);
  }
  while (path.published_ + kPagePositions <= cache.offset()) {
    const auto start = static_cast<std::size_t>(path.published_);
    Node* node = trie_->publish_block(path.node_, tokens.subspan(start, kPagePositions), cache);
    path.blocks_.push_back(node);
    stand_at(node);
  }
  if (!with_tail || path.published_ == cache.offset()) return;
  const auto start = static_cast<std::size_t>(path.published_);
  const auto length = static_cast<std::size_t>(cache.offset() - path.published_);
  trie_->publish_tail(path.node_, tokens.subspan(start, length), cache);
}

}  // namespace reprise
