// Lookup and restore: which blocks a prompt runs through, and the deepest position of them that
// holds everything that resuming there needs.
#include "kv/prompt_trie.h"

namespace reprise {

// The child with the longest common prefix is one of the neighbours of where the tokens would stand
// in order. Of two alike the one with more pages.
PromptCache::Trie::Neighbour PromptCache::Trie::nearest_child(
    const Node& parent, std::span<const TokenId> tokens) const {
  const auto pages = [](const Node* node) {
    return std::count_if(node->slots.begin(), node->slots.end(),
                         [](const Node::Slot& slot) { return bool(slot.page); });
  };
  Neighbour best;
  const auto consider = [&](Node* child) {
    const Position length = common_prefix(child->tokens, tokens);
    if (length == 0 || length < best.length) return;
    if (length == best.length && pages(child) <= pages(best.node)) return;
    best = {child, length};
  };
  const auto next = parent.children.lower_bound(tokens);
  if (next != parent.children.end()) consider(next->get());
  if (next != parent.children.begin()) consider(std::prev(next)->get());
  return best;
}

PromptCache::Trie::Route PromptCache::Trie::route(Salt& salt,
                                                  std::span<const TokenId> tokens) const {
  Route route;
  const Node* node = &salt.root;
  while (true) {
    const auto rest = tokens.subspan(static_cast<std::size_t>(route.common));
    const auto block = rest.first(std::min<std::size_t>(rest.size(), kPagePositions));
    if (block.empty()) return route;
    const Neighbour next = nearest_child(*node, block);
    if (next.node == nullptr) return route;
    route.nodes.push_back(next.node);
    route.common += next.length;
    if (next.length < kPagePositions) return route;
    node = next.node;
  }
}

// The route from the root to a node, matched whole.
PromptCache::Trie::Route PromptCache::Trie::route_to(Node* node) {
  Route route;
  route.common = node->end();
  for (; !node->is_root(); node = node->parent) route.nodes.push_back(node);
  std::reverse(route.nodes.begin(), route.nodes.end());
  return route;
}

PromptCache::Trie::Since PromptCache::Trie::since(const Node& node, const Since* before) const {
  Since since(static_cast<std::size_t>(groups()), std::numeric_limits<Position>::max());
  for (std::size_t g = 0; g < since.size(); g++) {
    const PageRef& page = node.slots[g].page;
    if (!page) continue;
    since[g] = node.start + page.first();
    if (page.first() == 0 && before != nullptr) since[g] = std::min(since[g], (*before)[g]);
  }
  return since;
}

Position PromptCache::Trie::deepest_in_block(const Node& node, const Since& since, Position from,
                                             Position at_least) const {
  for (Position position = from; position > node.start && position >= at_least; position--) {
    bool is_restorable = true;
    for (int group = 0; group < groups() && is_restorable; group++) {
      const PositionRange needed = span(group).needed(position);
      is_restorable = needed.is_empty() || since[static_cast<std::size_t>(group)] <= needed.begin;
    }
    if (is_restorable) return position;
  }
  return 0;
}

Position PromptCache::Trie::deepest_restorable(Route& route, std::span<const TokenId> tokens,
                                               Position from, Position at_least) const {
  constexpr int kSiblings =
      8;  // looked at on each side: a lookup's cost must not grow with entries
  std::vector<Since> rows;
  for (const Node* node : route.nodes)
    rows.push_back(since(*node, rows.empty() ? nullptr : &rows.back()));
  from = std::min(from, route.common);
  while (!route.nodes.empty() && from >= at_least) {
    Node* node = route.nodes.back();
    Position best = deepest_in_block(*node, rows.back(), from, at_least);
    if (best > 0) return best;
    rows.pop_back();
    const Since* before = rows.empty() ? nullptr : &rows.back();
    // All of the prompt's block, whatever `from` is: restore() must come by the siblings that
    // match() came by.
    const auto rest = tokens.subspan(static_cast<std::size_t>(node->start));
    const auto block = rest.first(std::min<std::size_t>(rest.size(), kPagePositions));
    const Position usable = std::max<Position>(from - node->start, 0);
    // False: no sibling further on begins like the prompt.
    const auto consider = [&](Node* sibling) {
      const Position common = common_prefix(sibling->tokens, block);
      const Position length = std::min(common, usable);
      const Position reached =
          deepest_in_block(*sibling, since(*sibling, before), node->start + length, at_least);
      if (reached > best) {
        best = reached;
        route.nodes.back() = sibling;
      }
      return common > 0;
    };
    const Node::Children& siblings = node->parent->children;
    const auto middle = siblings.lower_bound(block);
    auto it = middle;
    for (int i = 0; i < kSiblings && it != siblings.end() && consider(it->get()); i++) ++it;
    it = middle;
    for (int i = 0; i < kSiblings && it != siblings.begin() && consider((--it)->get());) i++;
    if (best > 0) return best;
    from = std::min(from, node->start);
    route.nodes.pop_back();
  }
  return 0;
}

// Whether no position inside the leaf can be resumed.
bool PromptCache::Trie::is_stranded(Node* leaf) const {
  Since row;
  bool is_first = true;
  for (const Node* node : route_to(leaf).nodes) {
    row = since(*node, is_first ? nullptr : &row);
    is_first = false;
  }
  return deepest_in_block(*leaf, row, leaf->end(), 1) == 0;
}

// Whether a prefix of the prompt that is longer than `from` tokens was evicted.
bool PromptCache::Trie::was_evicted(const Salt& salt, std::span<const TokenId> tokens,
                                    Position from) const {
  if (salt.ghost_set.empty()) return false;
  std::uint64_t hash = kEmptyPrefixHash;
  for (std::size_t i = 0; i < tokens.size(); i++) {
    hash = extend_prefix_hash(hash, tokens[i]);
    if (static_cast<Position>(i) >= from && salt.ghost_set.contains(hash)) return true;
  }
  return false;
}

// The path and the pages that resuming needs were used now.
void PromptCache::Trie::touch_match(const Route& route, Position length) {
  touch(route.last());
  for (int group = 0; group < groups(); group++) {
    if (!is_windowed(group)) continue;
    const PositionRange needed = span(group).needed(length);
    if (needed.is_empty()) continue;
    for (Position block = needed.begin / kPagePositions; block * kPagePositions < needed.end;
         block++) {
      touch_page(route.nodes[static_cast<std::size_t>(block)], group);
    }
  }
}

PromptCache::Match PromptCache::match(const std::string& salt, std::span<const TokenId> tokens,
                                      Position limit) {
  Match match;
  if (!trie_->options.enabled) {
    match.miss = MissReason::disabled;
    return match;
  }
  if (trie_->is_mode_refused) {
    match.miss = MissReason::mode_refused;
    return match;
  }
  Salt& tenant = trie_->salt(salt);
  Trie::Route route = trie_->route(tenant, tokens);
  match.common = route.common;
  if (route.last() != nullptr) match.stored = route.last()->longest();
  const Position at_least = std::max<Position>(1, trie_->options.min_prefix);
  if (std::min(route.common, limit) >= at_least)
    match.length = trie_->deepest_restorable(route, tokens, limit, at_least);
  if (match.length > 0) {
    trie_->touch_match(route, match.length);
  } else if (trie_->was_evicted(tenant, tokens, std::max(route.common, at_least - 1))) {
    match.miss = MissReason::evicted;
  } else if (route.common == 0) {
    match.miss = MissReason::no_candidate;
  } else if (std::min(route.common, limit) < at_least) {
    match.miss = MissReason::prefix_too_short;
  } else {
    match.miss = MissReason::snapshot_diverged;
  }
  return match;
}

// A sequence on the route's own pages.
SequenceCache PromptCache::Trie::shared_sequence(const Route& route, Position length) const {
  const auto blocks = static_cast<std::size_t>((length + kPagePositions - 1) / kPagePositions);
  std::vector<std::vector<PageRef>> pages(static_cast<std::size_t>(groups()));
  for (int group = 0; group < groups(); group++) {
    std::vector<PageRef>& list = pages[static_cast<std::size_t>(group)];
    list.resize(blocks);
    const Position begin = span(group).kept(length).begin;
    for (auto block = static_cast<std::size_t>(begin / kPagePositions); block < blocks; block++)
      list[block] = route.nodes[block]->slot(group).page;
  }
  SequenceCache sequence(pool);
  sequence.adopt(length, std::move(pages));
  return sequence;
}

bool PromptCache::restore(const std::string& salt, std::span<const TokenId> tokens,
                          const Match& match, SequenceCache& cache, Path& path) {
  CHECK(match.length > 0 && match.length <= static_cast<Position>(tokens.size()));
  Salt& tenant = trie_->salt(salt);
  Trie::Route route = trie_->route(tenant, tokens);
  CHECK(trie_->deepest_restorable(route, tokens, match.length, match.length) == match.length);
  SequenceCache sequence = trie_->shared_sequence(route, match.length);
  const auto whole_blocks = static_cast<std::size_t>(match.length / kPagePositions);
  Path stands;
  stands.cache_ = this;
  stands.node_ = whole_blocks == 0 ? &tenant.root : route.nodes[whole_blocks - 1];
  stands.published_ = stands.node_->end();
  trie_->pin(stands.node_);
  if (trie_->options.store == CacheStore::materialised) {
    // `sequence` and `stands` hold on to what is being copied while room is made for the copy.
    const SnapshotWords& words = trie_->options.words;
    const Result<StateSnapshot> snapshot = snapshot_sequence(sequence, words);
    CHECK(snapshot.has_value());  // a refused mode publishes nothing that could be found
    make_room(trie_->pool.layout().sequence_bytes(match.length));
    Result<SequenceCache> restored = restore_sequence(*snapshot, words, trie_->pool);
    if (restored.has_value()) {
      sequence = std::move(*restored);
    } else if (restored.error().code != Errc::exhausted) {
      tenant.counters.lookups++;
      trie_->count_miss(tenant, MissReason::corrupt);
      return false;
    }
  }
  cache = std::move(sequence);
  path = std::move(stands);
  return true;
}

}  // namespace reprise
