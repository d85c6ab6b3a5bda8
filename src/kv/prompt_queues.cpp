// Recency, bytes and locks: what stands in which salt's queue of what is given up, and which salt
// and tenant hold how much.
#include "kv/prompt_trie.h"

namespace reprise {
namespace {

template <class Owner>
void reorder(ByBytes<Owner>& order, Owner& owner, std::size_t bytes_before, std::size_t bytes) {
  auto handle = order.extract({bytes_before, owner.number});
  CHECK(!handle.empty());
  handle.key().first = bytes;
  order.insert(std::move(handle));
}

}  // namespace

// One page of a group more or less in a salt.
void PromptCache::Trie::change_bytes(Salt& salt, int group, bool grows) {
  Tenant& tenant = *salt.tenant;
  const std::size_t change = page_bytes(group);
  const std::size_t salt_before = salt.bytes;
  const std::size_t tenant_before = tenant.bytes;
  if (grows) {
    salt.pages[static_cast<std::size_t>(group)]++;
    salt.bytes += change;
    tenant.bytes += change;
  } else {
    salt.pages[static_cast<std::size_t>(group)]--;
    salt.bytes -= change;
    tenant.bytes -= change;
  }
  reorder(tenant.salts, salt, salt_before, salt.bytes);
  reorder(tenants_by_bytes, tenant, tenant_before, tenant.bytes);
}

void PromptCache::Trie::touch(Node* node, std::int64_t now) {
  unqueue_leaf(node);
  node->used = ++clock;
  node->used_unix_ms = now;
  node->is_stranded = false;
  update_leaf_queue(node);
}

void PromptCache::Trie::touch_page(Node* node, int group) {
  Node::Slot& slot = node->slot(group);
  unqueue(slot.place, *node->salt);
  slot.used = ++clock;
  queue_page(node, group);
}

void PromptCache::Trie::unqueue(Node::Place& place, Salt& salt) {
  if (!place.is_queued) return;
  salt.queues[static_cast<std::size_t>(place.giving)].items.erase(place.it);
  place.is_queued = false;
}

namespace {

// Most enter as the newest: at the queue's end.
void enqueue(PromptCache::Salt& salt, PromptCache::Node::Place& place, Giving giving,
             std::uint64_t used, PromptCache::Node::Item item) {
  PromptCache::Salt::GivingQueue& queue = salt.queues[static_cast<std::size_t>(giving)];
  const std::size_t before = queue.items.size();
  place.it = queue.items.emplace_hint(queue.items.end(), used, item);
  CHECK(queue.items.size() == before + 1);
  place.giving = giving;
  place.is_queued = true;
  queue.scan_from = std::min(queue.scan_from, used);
}

}  // namespace

// In a queue exactly while it is there, windowed and not pinned.
void PromptCache::Trie::queue_page(Node* node, int group) {
  Node::Slot& slot = node->slot(group);
  if (!slot.page || !is_windowed(group) || slot.pins > 0) return;
  const Giving giving = slot.strong > 0 ? Giving::strong_page
                        : slot.weak > 0 ? Giving::weak_page
                                        : Giving::loose_page;
  enqueue(*node->salt, slot.place, giving, slot.used, {node, group});
}

// The node takes the page; where another has it (an unfinished block of the same tokens), that one
// gives it up and is returned.
PromptCache::Node* PromptCache::Trie::set_page(Node* node, int group, PageRef page) {
  const auto owner = owners.find(page.key());
  Node* before = owner == owners.end() ? nullptr : owner->second;
  if (before != nullptr) clear_page(before, group);
  if (node->slot(group).page) clear_page(node, group);
  owners.emplace(page.key(), node);
  change_bytes(*node->salt, group, true);
  Node::Slot& slot = node->slot(group);
  slot.page = std::move(page);
  slot.used = ++clock;
  if (slot.pins > 0) count_pinned_page(*node->salt, group, true);
  queue_page(node, group);
  return before;
}

void PromptCache::Trie::clear_page(Node* node, int group) {
  Node::Slot& slot = node->slot(group);
  unqueue(slot.place, *node->salt);
  owners.erase(slot.page.key());
  change_bytes(*node->salt, group, false);
  if (slot.pins > 0) count_pinned_page(*node->salt, group, false);
  slot.page = PageRef();
}

void PromptCache::Trie::queue_leaf(Node* node) {
  const Giving giving = node->is_stranded  ? Giving::stranded
                        : node->is_whole() ? Giving::leaf
                                           : Giving::tail;
  enqueue(*node->salt, node->place, giving, node->used, {node, -1});
  node->age = leaves.emplace_hint(leaves.end(), node->used, node);
}

void PromptCache::Trie::unqueue_leaf(Node* node) {
  if (!node->place.is_queued) return;
  unqueue(node->place, *node->salt);
  leaves.erase(node->age);
}

// A node that was in no queue may be in one again; windowed pages may have gone meanwhile.
void PromptCache::Trie::release_leaf(Node* node) {
  if (!node->place.is_queued && node->children.empty() && !node->is_root())
    node->is_stranded = !has_restorable(*node);
  update_leaf_queue(node);
  remove_hollow(node, &PromptCacheStats::evictions_lru);
}

// In a queue exactly while it is a leaf at which no sequence stands and nothing is pinned.
void PromptCache::Trie::update_leaf_queue(Node* node) {
  const bool belongs = !node->is_root() && !node->is_orphan && node->children.empty() &&
                       node->paths == 0 && node->pins.empty();
  if (belongs == node->place.is_queued) return;
  if (belongs) {
    queue_leaf(node);
  } else {
    unqueue_leaf(node);
  }
}

void PromptCache::Trie::lock(Node* node) {
  paths++;
  node->paths++;
  node->salt->paths++;
  update_leaf_queue(node);
  if (node->salt->idle_since != 0) update_idle(*node->salt);
}

void PromptCache::Trie::unlock(Node* node) {
  CHECK(node->paths > 0);
  Salt& salt = *node->salt;
  paths--;
  node->paths--;
  salt.paths--;
  if (!node->is_orphan) {
    release_leaf(node);
  } else if (node->paths == 0) {
    orphans.erase(node);
  }
  if (salt.paths == 0) update_idle(salt);
}

}  // namespace reprise
