// CHECKs of everything that the trie keeps twice: counts, queues, owners, marks, lengths, hashes.
#include "kv/prompt_trie.h"

namespace reprise {

struct PromptCache::Trie::Census {
  std::size_t nodes = 0, entries = 0;
  std::size_t loose = 0, marked = 0, queued_leaves = 0, owned = 0;
  int pins = 0;
  std::size_t idle = 0;
  std::vector<std::size_t> pages;
  std::map<std::pair<const Node*, int>, std::uint32_t>
      marks;  // recounted from the marks themselves
};

void PromptCache::Trie::check_node(const Node& node, Census& census) const {
  census.pins += node.pins;
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
  const bool is_whole = node.tokens.size() == kPagePositions;
  CHECK(is_whole || (node.children.empty() && node.pins == 0));
  std::uint64_t hash = node.parent->prefix_hash;
  for (const TokenId token : node.tokens) hash = extend_prefix_hash(hash, token);
  CHECK(hash == node.prefix_hash);
  CHECK(node.is_queued == (node.children.empty() && node.pins == 0));
  if (node.is_queued) {
    const auto found = leaves.find({!node.is_stranded, node.used});
    CHECK(found != leaves.end() && found->second == &node);
    CHECK(!is_hollow(node));
    census.queued_leaves++;
  }
  for (const Node::Mark& mark : node.marks) {
    CHECK(node.start < mark.position && mark.position <= node.end());
    for (int group = 0; group < groups(); group++) {
      const PositionRange needed = span(group).needed(mark.position);
      if (!is_windowed(group) || needed.is_empty()) continue;
      for (const Node* it = &node; !it->is_root() && it->end() > needed.begin; it = it->parent)
        census.marks[{it, group}]++;
    }
  }
  for (int group = 0; group < groups(); group++) {
    const Node::Slot& slot = node.slot(group);
    if (!slot.page) continue;
    census.pages[static_cast<std::size_t>(group)]++;
    census.owned++;
    CHECK(slot.page.group() == group);
    CHECK(slot.page.written() >= static_cast<int>(node.tokens.size()));
    CHECK(owners.at(slot.page.data()) == &node);
    if (!is_windowed(group)) continue;
    const auto& queue = slot.marks > 0 ? marked_pages : loose_pages;
    const auto found = queue.find(slot.used);
    CHECK(found != queue.end() && found->second.node == &node && found->second.group == group);
    (slot.marks > 0 ? census.marked : census.loose)++;
  }
}

void PromptCache::Trie::check() const {
  Census all;
  for (const auto& [name, salt] : salts) {
    Census census;
    census.pages.resize(static_cast<std::size_t>(groups()));
    std::vector<const Node*> open = {&salt->root};
    std::vector<const Node*> nodes;
    while (!open.empty()) {
      const Node* node = open.back();
      open.pop_back();
      check_node(*node, census);
      nodes.push_back(node);
      for (const auto& child : node->children) open.push_back(child.get());
    }
    for (const Node* node : nodes) {
      for (int group = 0; group < groups() && !node->is_root(); group++) {
        const auto counted = census.marks.find({node, group});
        CHECK(node->slot(group).marks == (counted == census.marks.end() ? 0 : counted->second));
      }
    }
    CHECK(census.nodes == salt->nodes && census.entries == salt->entries);
    CHECK(census.pages == salt->pages);
    for (const auto& [node, orphan] : orphans) {
      if (orphan->salt == salt.get()) census.pins += orphan->pins;
    }
    CHECK(census.pins == salt->pins && salt->name == name);
    CHECK((salt->idle_since != 0) == (salt->nodes == 0 && salt->pins == 0));
    if (salt->idle_since != 0) {
      CHECK(idle_salts.at(salt->idle_since) == salt.get());
      all.idle++;
    }
    CHECK(salt->ghosts.size() == salt->ghost_set.size());
    CHECK(salt->ghosts.size() <= options.ghosts_per_salt);
    const PromptCacheStats& counters = salt->counters;
    std::uint64_t counted = counters.hits;
    for (const std::uint64_t misses : counters.misses) counted += misses;
    CHECK(counted == counters.lookups);
    all.loose += census.loose;
    all.marked += census.marked;
    all.queued_leaves += census.queued_leaves;
    all.owned += census.owned;
    all.pins += census.pins;
  }
  for (const auto& [node, orphan] : orphans) {
    CHECK(orphan->is_orphan && orphan->pins > 0);
  }
  CHECK(all.loose == loose_pages.size() && all.marked == marked_pages.size());
  CHECK(all.queued_leaves == leaves.size() && all.owned == owners.size());
  CHECK(all.pins == pins);
  CHECK(all.idle == idle_salts.size());
  CHECK(all.idle <= std::max<std::size_t>(options.idle_salts_max, 1));
}

}  // namespace reprise
