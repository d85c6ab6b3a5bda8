// Pins: state that stays until a time, whatever else is given up; bounded.
//
// A pin holds every page that resuming at its position needs: the path's full-attention pages and
// the windowed ones. Windowed pages with pins, and leaves with pins, stand in no queue. Bytes are
// counted once however many pins hold a page.
#include "kv/prompt_trie.h"

namespace reprise {

void PromptCache::Trie::count_pinned_page(Salt& salt, int group, bool grows) {
  for (std::size_t* bytes : {&salt.pinned_bytes, &salt.tenant->pinned_bytes, &pinned_bytes}) {
    CHECK(grows || *bytes >= page_bytes(group));
    *bytes = grows ? *bytes + page_bytes(group) : *bytes - page_bytes(group);
  }
}

void PromptCache::Trie::hold_pin(const Pin& pin, bool holds) {
  for (int group = 0; group < groups(); group++) {
    visit_needed(pin.node, group, pin.position, [&](Node* node) {
      Node::Slot& slot = node->slot(group);
      CHECK(holds || slot.pins > 0);
      slot.pins += holds ? 1 : -1;
      const bool changes = slot.pins == (holds ? 1 : 0);
      if (!changes || !slot.page) return;
      count_pinned_page(*node->salt, group, holds);
      unqueue(slot.place, *node->salt);
      queue_page(node, group);
    });
  }
}

std::size_t PromptCache::Trie::bytes_to_pin(const Pin& pin) const {
  std::size_t bytes = 0;
  for (int group = 0; group < groups(); group++) {
    visit_needed(pin.node, group, pin.position, [&](const Node* node) {
      if (node->slot(group).pins == 0) bytes += page_bytes(group);
    });
  }
  return bytes;
}

// Whether some page that the pin holds is not held by a sequence too.
bool PromptCache::Trie::frees_something(const Pin& pin) const {
  bool frees = false;
  for (int group = 0; group < groups() && !frees; group++) {
    visit_needed(pin.node, group, pin.position, [&](const Node* node) {
      const PageRef& page = node->slot(group).page;
      frees = frees || (page && !page.is_shared());
    });
  }
  return frees;
}

void PromptCache::Trie::drop_pin(std::map<Node::PinKey, Pin>::iterator it) {
  const Pin pin = it->second;
  std::erase(pin.node->pins, it->first);
  pins.erase(it);
  hold_pin(pin, false);
  release_leaf(pin.node);
}

void PromptCache::Trie::drop_ended_pins() {
  if (pins.empty()) return;
  const std::int64_t now = now_unix_ms();
  while (!pins.empty() && pins.begin()->first.first <= now) drop_pin(pins.begin());
}

void PromptCache::Trie::drop_pins_of(const Salt& salt) {
  for (auto it = pins.begin(); it != pins.end();) {
    const auto pin = it++;
    if (pin->second.node->salt == &salt) drop_pin(pin);
  }
}

// `to` begins with the tokens of `from` and has its pages.
void PromptCache::Trie::move_pins(Node* from, Node* to) {
  for (const Node::PinKey& key : from->pins) {
    Pin& pin = pins.at(key);
    hold_pin(pin, false);
    pin.node = to;
    hold_pin(pin, true);
    to->pins.push_back(key);
  }
  from->pins.clear();
  update_leaf_queue(from);
  update_leaf_queue(to);
}

// Another block took the node's page: what cannot be resumed any more is not kept either. False:
// its last pin went, and with that perhaps the node (release_leaf).
bool PromptCache::Trie::drop_broken_pins(Node* node) {
  const std::vector<Node::PinKey> keys = node->pins;
  for (std::size_t i = 0; i < keys.size(); i++) {
    const auto it = pins.find(keys[i]);
    if (is_restorable(*it->second.node, it->second.position)) continue;
    const bool is_last = node->pins.size() == 1;
    drop_pin(it);
    if (is_last) return false;
  }
  return true;
}

bool PromptCache::pin(const Path& path, std::span<const TokenId> tokens, Position position,
                      std::int64_t until_unix_ms) {
  if (!trie_->is_storing() || position <= 0 || path.node_->is_orphan) return false;
  CHECK(path.cache_ == this && position <= static_cast<Position>(tokens.size()));
  trie_->drop_ended_pins();
  if (until_unix_ms <= trie_->now_unix_ms()) return false;
  Node* node = trie_->find_on_path(path, tokens, position);
  Salt& salt = *path.node_->salt;
  if (node == nullptr || !trie_->is_restorable(*node, position)) {
    salt.counters.pins_refused++;
    return false;
  }
  const Trie::Pin pin = {node, position};
  const std::vector<Node::PinKey> known = node->pins;
  for (const Node::PinKey& key : known) {
    const auto it = trie_->pins.find(key);
    if (it->second.position != position) continue;
    if (key.first >= until_unix_ms) return true;
    const Node::PinKey longer = {until_unix_ms, ++trie_->clock};
    std::erase(node->pins, key);
    trie_->pins.erase(it);
    trie_->pins.emplace(longer, pin);
    node->pins.push_back(longer);
    return true;
  }
  const std::size_t bytes = trie_->bytes_to_pin(pin);
  if (salt.tenant->pinned_bytes + bytes > trie_->options.pinned_bytes_per_tenant ||
      trie_->pinned_bytes + bytes > trie_->options.pinned_bytes_max) {
    salt.counters.pins_refused++;
    return false;
  }
  const Node::PinKey key = {until_unix_ms, ++trie_->clock};
  trie_->pins.emplace(key, pin);
  node->pins.push_back(key);
  trie_->hold_pin(pin, true);
  trie_->update_leaf_queue(node);
  return true;
}

}  // namespace reprise
