// Recency, pins, and giving up: the two queues of windowed pages, the queue of leaves, ghosts.
#include "kv/prompt_trie.h"

namespace reprise {

void PromptCache::Trie::touch(Node* node) {
  const bool was_queued = node->is_queued;
  if (was_queued) leaves.erase({!node->is_stranded, node->used});
  node->is_queued = false;
  node->used = ++clock;
  node->used_unix_ms = now_unix_ms();
  node->is_stranded = false;
  update_leaf_queue(node);
}

void PromptCache::Trie::touch_page(Node* node, int group) {
  unqueue_page(node, group);
  node->slot(group).used = ++clock;
  queue_page(node, group);
}

void PromptCache::Trie::queue_page(Node* node, int group) {
  Node::Slot& slot = node->slot(group);
  if (!slot.page || !is_windowed(group)) return;
  auto& queue = slot.marks > 0 ? marked_pages : loose_pages;
  CHECK(queue.emplace(slot.used, PagePlace{node, group}).second);
}

void PromptCache::Trie::unqueue_page(Node* node, int group) {
  const Node::Slot& slot = node->slot(group);
  if (!slot.page || !is_windowed(group)) return;
  auto& queue = slot.marks > 0 ? marked_pages : loose_pages;
  CHECK(queue.erase(slot.used) == 1);
}

// The node takes the page; where another has it (an unfinished block of the same tokens), that one
// gives it up and is returned.
PromptCache::Node* PromptCache::Trie::set_page(Node* node, int group, PageRef page) {
  const auto owner = owners.find(page.data());
  Node* before = owner == owners.end() ? nullptr : owner->second;
  if (before != nullptr) clear_page(before, group);
  if (node->slot(group).page) clear_page(node, group);
  owners.emplace(page.data(), node);
  node->salt->pages[static_cast<std::size_t>(group)]++;
  node->slot(group).page = std::move(page);
  node->slot(group).used = ++clock;
  queue_page(node, group);
  return before;
}

void PromptCache::Trie::clear_page(Node* node, int group) {
  unqueue_page(node, group);
  PageRef& page = node->slot(group).page;
  owners.erase(page.data());
  node->salt->pages[static_cast<std::size_t>(group)]--;
  page = PageRef();
}

// In the queue exactly while it is a leaf without pins.
void PromptCache::Trie::update_leaf_queue(Node* node) {
  const bool belongs =
      !node->is_root() && !node->is_orphan && node->children.empty() && node->pins == 0;
  if (belongs == node->is_queued) return;
  if (belongs) {
    CHECK(leaves.emplace(std::pair(!node->is_stranded, node->used), node).second);
  } else {
    leaves.erase({!node->is_stranded, node->used});
  }
  node->is_queued = belongs;
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

void PromptCache::Trie::pin(Node* node) {
  pins++;
  node->pins++;
  node->salt->pins++;
  update_leaf_queue(node);
  if (node->salt->idle_since != 0) update_idle(*node->salt);
}

void PromptCache::Trie::unpin(Node* node) {
  CHECK(node->pins > 0);
  Salt& salt = *node->salt;
  pins--;
  node->pins--;
  salt.pins--;
  if (!node->is_orphan) {
    update_leaf_queue(node);
    remove_hollow(node, &PromptCacheStats::evictions_lru);
  } else if (node->pins == 0) {
    orphans.erase(node);
  }
  if (salt.pins == 0) update_idle(salt);
}

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
  CHECK(leaf->children.empty() && leaf->pins == 0 && leaf->parent != nullptr);
  Salt& salt = *leaf->salt;
  Node* parent = leaf->parent;
  for (const Node::Mark& mark : leaf->marks) hold_mark(leaf, mark, false);
  for (int group = 0; group < groups(); group++) {
    if (leaf->slot(group).page) clear_page(leaf, group);
  }
  if (leaf->is_queued) leaves.erase({!leaf->is_stranded, leaf->used});
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
    parent->is_stranded = is_stranded(parent);
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
  if (node.is_root() || node.is_orphan || node.pins > 0 || !node.children.empty()) return false;
  for (const Node::Slot& slot : node.slots) {
    if (slot.page) return false;
  }
  return deepest_in_block(node, since(node, nullptr), node.end(), 1) == 0;
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
  remove_leaf(leaf, true);
  remove_hollow(parent, counter);
}

// Drops pages in the queue's order until there is room for `bytes`. A node that goes with its last
// page may take marks along: pages that only they held move to the other queue.
bool PromptCache::Trie::drop_pages(std::map<std::uint64_t, PagePlace>& queue, std::size_t bytes) {
  for (auto it = queue.begin(); it != queue.end() && pool.available_bytes() < bytes;) {
    const auto [used, place] = *it;
    if (!place.node->slot(place.group).page.is_shared()) {
      place.node->salt->counters.window_pages_dropped++;
      clear_page(place.node, place.group);
      remove_hollow(place.node, &PromptCacheStats::evictions_lru);
    }
    it = queue.upper_bound(used);
  }
  return pool.available_bytes() >= bytes;
}

// Whether removing the leaf frees memory now, or only removes an entry that has no pages at all.
bool PromptCache::Trie::frees_something(const Node& leaf) const {
  bool has_pages = false;
  for (const Node::Slot& slot : leaf.slots) {
    if (!slot.page) continue;
    has_pages = true;
    if (!slot.page.is_shared()) return true;
  }
  return !has_pages;
}

bool PromptCache::Trie::evict_leaves(std::size_t bytes) {
  while (pool.available_bytes() < bytes) {
    const auto found = std::find_if(leaves.begin(), leaves.end(), [&](const auto& entry) {
      return frees_something(*entry.second);
    });
    if (found == leaves.end()) return false;
    evict_leaf(found->second, &PromptCacheStats::evictions_lru);
    // Its marks went with it: what only they held goes before the next leaf.
    if (drop_pages(loose_pages, bytes)) return true;
  }
  return true;
}

bool PromptCache::make_room(std::size_t bytes) {
  if (trie_->pool.available_bytes() >= bytes) return true;
  if (bytes > trie_->pool.budget_bytes()) return false;
  return trie_->drop_pages(trie_->loose_pages, bytes) || trie_->evict_leaves(bytes) ||
         trie_->drop_pages(trie_->marked_pages, bytes) ||
         trie_->drop_pages(trie_->loose_pages, bytes);  // of marks that went in the line before
}

void PromptCache::expire() {
  if (trie_->options.ttl_ms <= 0) return;
  const std::int64_t oldest = trie_->now_unix_ms() - trie_->options.ttl_ms;
  while (true) {
    // Stranded leaves stand first whatever their age, the others by age.
    auto it = trie_->leaves.begin();
    while (it != trie_->leaves.end() && !it->first.first && it->second->used_unix_ms >= oldest)
      ++it;
    if (it == trie_->leaves.end() || it->second->used_unix_ms >= oldest) return;
    trie_->evict_leaf(it->second, &PromptCacheStats::evictions_ttl);
  }
}

// Removes all below `node`; a pinned node lives on, empty, for its paths alone.
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
    if (current->is_queued) leaves.erase({!current->is_stranded, current->used});
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
      if (child->pins == 0) continue;
      child->parent = nullptr;
      child->is_orphan = true;
      child->is_queued = false;
      child->children.clear();
      orphans.emplace(child.get(), std::move(child));
    }
  }
}

PromptCache::ResetOutcome PromptCache::reset(const std::string& salt) {
  const auto found = trie_->salts.find(salt);
  if (found == trie_->salts.end()) return {};
  Salt& tenant = *found->second;
  const std::size_t used = trie_->pool.used_bytes();
  ResetOutcome outcome{0, tenant.entries};
  trie_->clear_subtree(&tenant.root);
  tenant.nodes = 0;
  tenant.entries = 0;
  tenant.ghosts.clear();
  tenant.ghost_set.clear();
  tenant.next_ghost = 0;
  outcome.freed_bytes = used - trie_->pool.used_bytes();
  trie_->update_idle(tenant);
  return outcome;
}

}  // namespace reprise
