// The trie for people to look at: unbranched runs of blocks. No tokens, no text.
#include <numeric>

#include "kv/prompt_trie.h"

namespace reprise {
namespace {

using Node = PromptCache::Node;

// A run with what decides whether it is shown: the newest use at or below it.
struct Found {
  CacheRun run;
  const Node* last = nullptr;
  std::uint64_t used = 0;
};

void add_block(CacheRun& run, const Node& node, const KvLayout& layout) {
  run.hash = node.prefix_hash;
  run.end = node.end();
  for (const Node::Mark& mark : node.marks) {
    for (int kind = 0; kind < kMarkKinds; kind++) {
      if (mark.has(static_cast<MarkKind>(kind)))
        run.marks.emplace_back(mark.position, static_cast<MarkKind>(kind));
    }
  }
  for (std::size_t group = 0; group < node.slots.size(); group++) {
    if (!node.slots[group].page) continue;
    run.pages[group]++;
    run.bytes += layout.groups[group].page_bytes();
  }
  run.used_unix_ms = std::max(run.used_unix_ms, node.used_unix_ms);
  run.hits += node.hits;
  run.paths += node.paths;
  for (const Node::PinKey& pin : node.pins)
    run.pinned_until_unix_ms = std::max(run.pinned_until_unix_ms, pin.first);
}

// All runs below the root, parents before children.
std::vector<Found> find_runs(const Node& root, const KvLayout& layout) {
  std::vector<Found> found;
  struct Open {
    const Node* first;
    std::size_t parent;
  };
  std::vector<Open> open;
  const auto open_children = [&](const Node& node, std::size_t parent) {
    for (auto it = node.children.rbegin(); it != node.children.rend(); ++it)
      open.push_back({it->get(), parent});
  };
  open_children(root, CacheRun::kNoParent);
  while (!open.empty()) {
    const auto [first, parent] = open.back();
    open.pop_back();
    Found run{.run = {}, .last = first, .used = 0};
    run.run.parent = parent;
    run.run.start = first->start;
    run.run.pages.resize(layout.groups.size());
    for (const Node* node = first;; node = node->children.begin()->get()) {
      add_block(run.run, *node, layout);
      run.last = node;
      run.used = std::max(run.used, node->used);
      if (node->children.size() != 1) break;
    }
    found.push_back(std::move(run));
    open_children(*found.back().last, found.size() - 1);
  }
  for (std::size_t i = found.size(); i-- > 0;) {
    const std::size_t parent = found[i].run.parent;
    if (parent != CacheRun::kNoParent)
      found[parent].used = std::max(found[parent].used, found[i].used);
  }
  return found;
}

}  // namespace

std::vector<CacheRun> PromptCache::tree(const CacheScope& scope, std::size_t most) const {
  const Salt* salt = trie_->find_salt(scope);
  if (salt == nullptr) return {};
  std::vector<Found> found = find_runs(salt->root, trie_->pool.layout());
  // A run was used as lately as what is below it, and stands before it: with a run stays the one
  // that it continues.
  std::vector<std::size_t> order(found.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return found[i].used; });
  order.resize(std::min(order.size(), most));
  std::ranges::sort(order);
  std::vector<std::size_t> index_in_result(found.size(), CacheRun::kNoParent);
  std::vector<CacheRun> runs;
  for (const std::size_t i : order) {
    index_in_result[i] = runs.size();
    if (found[i].run.parent != CacheRun::kNoParent) {
      found[i].run.parent = index_in_result[found[i].run.parent];
      CHECK(found[i].run.parent != CacheRun::kNoParent);
    }
    runs.push_back(std::move(found[i].run));
  }
  return runs;
}

}  // namespace reprise
