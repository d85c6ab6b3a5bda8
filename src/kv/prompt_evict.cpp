// Giving up: of whom, what, and in which order; what goes by its age; ghosts.
#include "kv/prompt_trie.h"

namespace reprise {

void PromptCache::Trie::remember_ghost(Salt& salt, std::uint64_t hash) {
  if (options.ghosts_per_salt == 0) return;
  if (salt.ghosts.size() < options.ghosts_per_salt) {
    salt.ghosts.push_back(hash);
  } else {
    std::uint64_t& oldest = salt.ghosts[salt.next_ghost];
    salt.ghost_set.erase(salt.ghost_set.find(oldest));
    oldest = hash;
    salt.next_ghost = (salt.next_ghost + 1) % options.ghosts_per_salt;
  }
  salt.ghost_set.insert(hash);
}

// The parent, where it is a leaf now, is as old as what was last used below it.
void PromptCache::Trie::remove_leaf(Node* leaf, bool leaves_ghost) {
  CHECK(leaf->children.empty() && leaf->paths == 0 && leaf->parent != nullptr);
  CHECK(leaf->pins.empty());
  Salt& salt = *leaf->salt;
  Node* parent = leaf->parent;
  for (const Node::Mark& mark : leaf->marks) hold_mark(leaf, mark, false);
  for (int group = 0; group < groups(); group++) {
    if (leaf->slot(group).page) clear_page(leaf, group);
  }
  unqueue_leaf(leaf);
  if (leaves_ghost) remember_ghost(salt, leaf->prefix_hash);
  salt.nodes--;
  const Position before = parent->longest();
  parent->child_lengths.erase(parent->child_lengths.find(leaf->end()));
  const std::uint64_t used = leaf->used;
  const std::int64_t used_unix_ms = leaf->used_unix_ms;
  parent->children.erase(parent->children.find(leaf->tokens));
  if (parent->children.empty() && !parent->is_root()) {
    if (used > parent->used) {
      parent->used = used;
      parent->used_unix_ms = used_unix_ms;
    }
    parent->is_stranded = !has_restorable(*parent);
  } else {
    salt.entries--;
  }
  change_length(parent, before, parent->longest());
  update_leaf_queue(parent);
  if (salt.nodes == 0) update_idle(salt);
}

// Whether the node is a leaf without pages that has no position to resume at (a chunk edge needs
// none): nothing below or inside it is worth its memory.
bool PromptCache::Trie::is_hollow(const Node& node) const {
  if (node.is_root() || node.is_orphan || !node.children.empty()) return false;
  if (node.paths > 0 || !node.pins.empty()) return false;
  for (const Node::Slot& slot : node.slots) {
    if (slot.page) return false;
  }
  return !has_restorable(node);
}

// Removes the node if it is hollow, and then what that leaves hollow above it.
void PromptCache::Trie::remove_hollow(Node* node, std::uint64_t PromptCacheStats::* counter) {
  while (is_hollow(*node)) {
    Node* parent = node->parent;
    node->salt->counters.*counter += 1;
    remove_leaf(node, true);
    node = parent;
  }
}

void PromptCache::Trie::evict_leaf(Node* leaf, std::uint64_t PromptCacheStats::* counter) {
  Node* parent = leaf->parent;
  leaf->salt->counters.*counter += 1;
  move_branch_points(leaf);
  remove_leaf(leaf, true);
  remove_hollow(parent, counter);
}

void PromptCache::Trie::drop_page(Node* node, int group) {
  node->salt->counters.window_pages_dropped++;
  clear_page(node, group);
  find_stranded(node, group);
  remove_hollow(node, &PromptCacheStats::evictions_lru);
}

// A page of the node has gone: the leaf that needed it, where only one lies within the group's
// window, may have no position to resume at any more.
void PromptCache::Trie::find_stranded(Node* node, int group) {
  const Position reach = node->end() + span(group).size;
  Node* leaf = node;
  while (leaf->children.size() == 1 && leaf->start < reach) leaf = leaf->children.begin()->get();
  if (!leaf->place.is_queued || leaf->is_stranded || has_restorable(*leaf)) return;
  unqueue_leaf(leaf);
  leaf->is_stranded = true;
  queue_leaf(leaf);
}

// Whether giving it up frees memory now (pages that sequences hold too do not), or removes an entry
// that has no pages at all.
bool PromptCache::Trie::frees_something(const Node::Item& item) const {
  if (item.group >= 0) return !item.node->slot(item.group).page.is_shared();
  bool has_pages = false;
  for (const Node::Slot& slot : item.node->slots) {
    if (!slot.page) continue;
    has_pages = true;
    if (!slot.page.is_shared()) return true;
  }
  return !has_pages;
}

// Gives up the first thing of the salt that frees memory. What does not is looked at once an
// attempt.
bool PromptCache::Trie::give_up_one(Salt& salt) {
  for (Salt::GivingQueue& queue : salt.queues) {
    if (queue.attempt != attempt) {
      queue.attempt = attempt;
      queue.scan_from = 0;
    }
    for (auto it = queue.items.lower_bound(queue.scan_from); it != queue.items.end(); ++it) {
      const Node::Item item = it->second;
      queue.scan_from = it->first;
      if (!frees_something(item)) continue;
      if (item.group >= 0) {
        drop_page(item.node, item.group);
        return true;
      }
      if (!item.node->is_whole()) move_tail_marks(item.node);
      evict_leaf(item.node, &PromptCacheStats::evictions_lru);
      return true;
    }
    queue.scan_from = std::numeric_limits<std::uint64_t>::max();
  }
  return false;
}

// Of the tenant with the most bytes, there of the salt with the most.
bool PromptCache::Trie::give_up_one() {
  for (auto by_bytes = tenants_by_bytes.rbegin(); by_bytes != tenants_by_bytes.rend(); ++by_bytes) {
    Tenant& tenant = *by_bytes->second;
    if (tenant.exhausted == attempt) continue;
    for (auto it = tenant.salts.rbegin(); it != tenant.salts.rend(); ++it) {
      Salt& salt = *it->second;
      if (salt.exhausted == attempt) continue;
      if (give_up_one(salt)) return true;
      salt.exhausted = attempt;
    }
    tenant.exhausted = attempt;
  }
  return false;
}

bool PromptCache::Trie::give_up_until(std::size_t bytes) {
  attempt++;
  while (pool.available_bytes() < bytes) {
    if (!give_up_one()) return false;
  }
  return true;
}

bool PromptCache::make_room(std::size_t bytes) {
  if (trie_->pool.available_bytes() >= bytes) return true;
  if (bytes > trie_->pool.budget_bytes()) return false;
  trie_->drop_ended_pins();
  if (trie_->give_up_until(bytes)) return true;
  for (auto it = trie_->pins.begin(); it != trie_->pins.end();) {
    const auto pin = it++;
    if (!trie_->frees_something(pin->second)) continue;
    trie_->drop_pin(pin);
    if (trie_->give_up_until(bytes)) return true;
  }
  return false;
}

void PromptCache::expire() {
  trie_->drop_ended_pins();
  if (trie_->options.ttl_ms <= 0) return;
  const std::int64_t oldest = trie_->now_unix_ms() - trie_->options.ttl_ms;
  while (!trie_->leaves.empty() && trie_->leaves.begin()->second->used_unix_ms < oldest)
    trie_->evict_leaf(trie_->leaves.begin()->second, &PromptCacheStats::evictions_ttl);
}

// Removes all below `node`; where sequences stand a node lives on, empty, for their paths alone.
void PromptCache::Trie::clear_subtree(Node* node) {
  std::vector<Node*> open = {node};
  while (!open.empty()) {
    Node* current = open.back();
    open.pop_back();
    for (const auto& child : current->children) open.push_back(child.get());
    if (current == node) continue;
    for (int group = 0; group < groups(); group++) {
      if (current->slot(group).page) clear_page(current, group);
    }
    unqueue_leaf(current);
    current->marks.clear();
  }
  std::vector<Node::Children> doomed;
  doomed.push_back(std::move(node->children));
  node->children.clear();
  node->child_lengths.clear();
  while (!doomed.empty()) {
    Node::Children children = std::move(doomed.back());
    doomed.pop_back();
    while (!children.empty()) {
      std::unique_ptr<Node> child = std::move(children.extract(children.begin()).value());
      if (!child->children.empty()) doomed.push_back(std::move(child->children));
      if (child->paths == 0) continue;
      child->parent = nullptr;
      child->is_orphan = true;
      child->children.clear();
      orphans.emplace(child.get(), std::move(child));
    }
  }
}

PromptCache::ResetOutcome PromptCache::reset(const CacheScope& scope) {
  const auto found = trie_->salts.find(scope);
  if (found == trie_->salts.end()) return {};
  Salt& salt = *found->second;
  const std::size_t used = trie_->pool.used_bytes();
  ResetOutcome outcome{0, salt.entries};
  trie_->drop_pins_of(salt);
  trie_->clear_subtree(&salt.root);
  salt.nodes = 0;
  salt.entries = 0;
  salt.ghosts.clear();
  salt.ghost_set.clear();
  salt.next_ghost = 0;
  outcome.freed_bytes = used - trie_->pool.used_bytes();
  trie_->update_idle(salt);
  return outcome;
}

}  // namespace reprise
