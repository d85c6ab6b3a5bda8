// CHECKs of everything that the tries keep twice: counts, bytes, queues, owners, marks, pins,
// lengths, hashes.
#include "kv/prompt_trie.h"

namespace reprise {

struct PromptCache::Trie::Census {
  std::size_t nodes = 0, entries = 0;
  std::size_t queued = 0, leaves = 0, owned = 0, pins = 0;
  int paths = 0;
  std::vector<std::size_t> pages;
  std::size_t pinned_bytes = 0;
  // Recounted from the marks and pins themselves.
  struct Holders {
    std::uint32_t strong = 0, weak = 0, pins = 0;
  };
  std::map<std::pair<const Node*, int>, Holders> holders;
};

void PromptCache::Trie::check_marks(const Node& node, Census& census) const {
  const auto count = [&](const Node* from, Position position, auto member, bool windowed_only) {
    for (int group = 0; group < groups(); group++) {
      if (windowed_only && !is_windowed(group)) continue;
      const PositionRange range =
          windowed_only ? marked_range(group, position) : span(group).needed(position);
      if (range.is_empty()) continue;
      for (const Node* it = from; !it->is_root() && it->end() > range.begin; it = it->parent) {
        if (it->start < range.end) census.holders[{it, group}].*member += 1;
      }
    }
  };
  CHECK(node.marks.size() <= Node::kMarksMax);
  std::size_t branch_points = 0;
  Position before = node.start;
  for (const Node::Mark& mark : node.marks) {
    CHECK(before < mark.position && mark.position <= node.end() && mark.kinds != 0);
    before = mark.position;
    const bool is_branch = mark.has(MarkKind::branch_point);
    CHECK(mark.is_strong || !is_branch);
    if (is_branch) branch_points++;
    const auto member = mark.is_strong ? &Census::Holders::strong : &Census::Holders::weak;
    count(&node, mark.position, member, true);
    if (!node.is_whole() && node.start > 0) count(node.parent, node.start, member, true);
  }
  CHECK(branch_points <= Node::kBranchPointsMax);
  for (const Node::PinKey& key : node.pins) {
    const Pin& pin = pins.at(key);
    CHECK(pin.node == &node && node.start < pin.position && pin.position <= node.end());
    CHECK(is_restorable(node, pin.position));
    count(&node, pin.position, &Census::Holders::pins, false);
    census.pins++;
  }
}

void PromptCache::Trie::check_page(const Node& node, int group, Census& census) const {
  const Node::Slot& slot = node.slot(group);
  const auto found = census.holders.find({&node, group});
  const Census::Holders holders = found == census.holders.end() ? Census::Holders{} : found->second;
  CHECK(slot.strong == holders.strong && slot.weak == holders.weak && slot.pins == holders.pins);
  CHECK(slot.place.is_queued == (slot.page && is_windowed(group) && slot.pins == 0));
  // What since() relies on.
  CHECK(is_windowed(group) || node.children.empty() || (slot.page && slot.page.first() == 0));
  if (!slot.page) return;
  census.pages[static_cast<std::size_t>(group)]++;
  census.owned++;
  if (slot.pins > 0) census.pinned_bytes += page_bytes(group);
  CHECK(slot.page.group() == group);
  CHECK(slot.page.written() >= static_cast<int>(node.tokens.size()));
  CHECK(owners.at(slot.page.key()) == &node);
  if (!slot.place.is_queued) return;
  const Giving giving = slot.strong > 0 ? Giving::strong_page
                        : slot.weak > 0 ? Giving::weak_page
                                        : Giving::loose_page;
  const Node::Queue& queue = node.salt->queues[static_cast<std::size_t>(giving)].items;
  const auto place = queue.find(slot.used);
  CHECK(slot.place.giving == giving && place == slot.place.it);
  CHECK(place->second.node == &node && place->second.group == group);
  census.queued++;
}

void PromptCache::Trie::check_node(const Node& node, Census& census) const {
  census.paths += node.paths;
  std::multiset<Position> lengths;
  for (const auto& child : node.children) {
    CHECK(child->parent == &node && child->salt == node.salt);
    CHECK(child->start == node.end());
    CHECK(!child->tokens.empty() && child->tokens.size() <= kPagePositions);
    lengths.insert(child->longest());
  }
  CHECK(lengths == node.child_lengths);
  if (node.is_root()) return;
  census.nodes++;
  if (node.children.empty()) census.entries++;
  CHECK(node.is_whole() || (node.children.empty() && node.paths == 0));
  std::uint64_t hash = node.parent->prefix_hash;
  for (const TokenId token : node.tokens) hash = extend_prefix_hash(hash, token);
  CHECK(hash == node.prefix_hash);
  CHECK(node.place.is_queued == (node.children.empty() && node.paths == 0 && node.pins.empty()));
  check_marks(node, census);
  if (!node.place.is_queued) return;
  CHECK(!is_hollow(node));
  const Giving giving = node.is_stranded  ? Giving::stranded
                        : node.is_whole() ? Giving::leaf
                                          : Giving::tail;
  const Node::Queue& queue = node.salt->queues[static_cast<std::size_t>(giving)].items;
  const auto place = queue.find(node.used);
  CHECK(node.place.giving == giving && place == node.place.it);
  CHECK(place->second.node == &node && place->second.group < 0);
  CHECK(node.age == leaves.find(node.used) && node.age->second == &node);
  census.queued++;
  census.leaves++;
}

void PromptCache::Trie::check_salt(const Salt& salt, Census& census) const {
  census.pages.assign(static_cast<std::size_t>(groups()), 0);
  std::vector<const Node*> nodes = {&salt.root};
  for (std::size_t i = 0; i < nodes.size(); i++) {
    check_node(*nodes[i], census);
    for (const auto& child : nodes[i]->children) nodes.push_back(child.get());
  }
  for (std::size_t i = 1; i < nodes.size(); i++) {
    for (int group = 0; group < groups(); group++) check_page(*nodes[i], group, census);
  }
  CHECK(census.nodes == salt.nodes && census.entries == salt.entries);
  CHECK(census.pages == salt.pages && census.pinned_bytes == salt.pinned_bytes);
  std::size_t bytes = 0;
  for (int group = 0; group < groups(); group++)
    bytes += salt.pages[static_cast<std::size_t>(group)] * page_bytes(group);
  CHECK(bytes == salt.bytes);
  std::size_t queued = 0;
  for (const Salt::GivingQueue& queue : salt.queues) queued += queue.items.size();
  CHECK(queued == census.queued);
  for (const auto& [node, orphan] : orphans) {
    if (orphan->salt == &salt) census.paths += orphan->paths;
  }
  CHECK(census.paths == salt.paths);
  CHECK((salt.idle_since != 0) == (salt.nodes == 0 && salt.paths == 0));
  if (salt.idle_since != 0) CHECK(salt.tenant->idle_salts.at(salt.idle_since) == &salt);
  CHECK(salt.ghosts.size() == salt.ghost_set.size());
  CHECK(salt.ghosts.size() <= options.ghosts_per_salt);
  std::uint64_t counted = salt.counters.hits;
  for (const std::uint64_t misses : salt.counters.misses) counted += misses;
  CHECK(counted == salt.counters.lookups);
}

void PromptCache::Trie::check_tenants() const {
  std::size_t salts_seen = 0, pinned = 0;
  for (const auto& [name, tenant] : tenants) {
    CHECK(tenant->name == name && !tenant->salts.empty());
    CHECK(tenants_by_bytes.at({tenant->bytes, tenant->number}) == tenant.get());
    std::size_t bytes = 0, pinned_here = 0;
    for (const auto& [key, salt] : tenant->salts) {
      CHECK(salt->tenant == tenant.get() && key == std::pair(salt->bytes, salt->number));
      CHECK(salt->scope.tenant == name && find_salt(salt->scope) == salt);
      bytes += salt->bytes;
      pinned_here += salt->pinned_bytes;
      salts_seen++;
    }
    CHECK(bytes == tenant->bytes && pinned_here == tenant->pinned_bytes);
    CHECK(pinned_here <= options.pinned_bytes_per_tenant);
    pinned += pinned_here;
  }
  CHECK(salts_seen == salts.size() && tenants_by_bytes.size() == tenants.size());
  CHECK(pinned == pinned_bytes && pinned <= options.pinned_bytes_max);
}

void PromptCache::Trie::check() const {
  Census all;
  std::size_t idle = 0, remembered = 0;
  for (const auto& [scope, salt] : salts) {
    CHECK(salt->scope == scope);
    Census census;
    check_salt(*salt, census);
    if (salt->idle_since != 0) idle++;
    all.leaves += census.leaves;
    all.owned += census.owned;
    all.pins += census.pins;
    all.paths += census.paths;
  }
  for (const auto& [node, orphan] : orphans) {
    CHECK(orphan->is_orphan && orphan->paths > 0 && orphan->pins.empty());
  }
  CHECK(all.leaves == leaves.size() && all.owned == owners.size() && all.pins == pins.size());
  for (const auto& [name, tenant] : tenants) {
    remembered += tenant->idle_salts.size();
    CHECK(tenant->idle_salts.size() <= std::max<std::size_t>(options.idle_salts_max, 1));
  }
  CHECK(all.paths == paths && idle == remembered);
  check_tenants();
}

}  // namespace reprise
