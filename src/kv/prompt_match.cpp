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

PromptCache::Trie::Route PromptCache::Trie::route(const Salt& salt,
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

// `before` and `since` have a position for each group; before: those of the parent, or null.
void PromptCache::Trie::find_since(const Node& node, const Position* before,
                                   Position* since) const {
  for (std::size_t g = 0; g < node.slots.size(); g++) {
    const PageRef& page = node.slots[g].page;
    since[g] = std::numeric_limits<Position>::max();
    if (!page) continue;
    since[g] = node.start + page.first();
    if (page.first() == 0 && before != nullptr) since[g] = std::min(since[g], before[g]);
  }
}

// Standard pages are there along the whole path wherever they are in its last block: a node with
// children has its own, whole.
PromptCache::Trie::Since PromptCache::Trie::since(const Node& node) const {
  Since since(static_cast<std::size_t>(groups()), std::numeric_limits<Position>::max());
  for (int group = 0; group < groups(); group++) {
    Position& begin = since[static_cast<std::size_t>(group)];
    const Position least = span(group).needed(node.start + 1).begin;
    for (const Node* it = &node; !it->is_root(); it = it->parent) {
      const PageRef& page = it->slot(group).page;
      if (!page) break;
      begin = it->start + page.first();
      if (page.first() > 0 || begin <= least) break;
      if (is_windowed(group)) continue;
      begin = 0;
      break;
    }
  }
  return since;
}

Position PromptCache::Trie::deepest_in_block(const Node& node, const Position* since, Position from,
                                             Position at_least) const {
  for (Position position = from; position > node.start && position >= at_least; position--) {
    bool is_there = true;
    for (int group = 0; group < groups() && is_there; group++) {
      const PositionRange needed = span(group).needed(position);
      is_there = needed.is_empty() || since[group] <= needed.begin;
    }
    if (is_there) return position;
  }
  return 0;
}

bool PromptCache::Trie::is_restorable(const Node& node, Position position) const {
  return deepest_in_block(node, since(node).data(), position, position) == position;
}

bool PromptCache::Trie::has_restorable(const Node& node) const {
  return deepest_in_block(node, since(node).data(), node.end(), 1) > 0;
}

Position PromptCache::Trie::deepest_restorable(Route& route, std::span<const TokenId> tokens,
                                               Position from, Position at_least) const {
  const auto columns = static_cast<std::size_t>(groups());
  std::vector<Position> rows(route.nodes.size() * columns);
  for (std::size_t i = 0; i < route.nodes.size(); i++) {
    const Position* before = i == 0 ? nullptr : &rows[(i - 1) * columns];
    find_since(*route.nodes[i], before, &rows[i * columns]);
  }
  from = std::min(from, route.common);
  while (!route.nodes.empty() && from >= at_least) {
    const std::size_t last = route.nodes.size() - 1;
    const Node* node = route.nodes[last];
    Position best = deepest_in_block(*node, &rows[last * columns], from, at_least);
    if (best > 0) return best;
    const Position* before = last == 0 ? nullptr : &rows[(last - 1) * columns];
    best = deepest_sibling(route, tokens, before, from, at_least);
    if (best > 0) return best;
    from = std::min(from, node->start);
    route.nodes.pop_back();
  }
  return 0;
}

// Looks at the siblings of the route's last block that begin like the prompt: its last block
// becomes the one with the deepest position in [at_least, from].
Position PromptCache::Trie::deepest_sibling(Route& route, std::span<const TokenId> tokens,
                                            const Position* before, Position from,
                                            Position at_least) const {
  constexpr int kSiblings = 8;  // on each side: a lookup's cost must not grow with entries
  const Node* node = route.nodes.back();
  // All of the prompt's block, whatever `from` is: restore() must come by the siblings that match()
  // came by.
  const auto rest = tokens.subspan(static_cast<std::size_t>(node->start));
  const auto block = rest.first(std::min<std::size_t>(rest.size(), kPagePositions));
  const Position usable = std::max<Position>(from - node->start, 0);
  Position best = 0;
  Since since(static_cast<std::size_t>(groups()));
  // False: no sibling further on begins like the prompt.
  const auto consider = [&](Node* sibling) {
    const Position common = common_prefix(sibling->tokens, block);
    const Position length = std::min(common, usable);
    find_since(*sibling, before, since.data());
    const Position reached =
        deepest_in_block(*sibling, since.data(), node->start + length, at_least);
    if (reached > best) {
      best = reached;
      route.nodes.back() = sibling;
    }
    return common > 0;
  };
  const Node::Children& siblings = node->parent->children;
  if (siblings.size() == 1) return 0;
  const auto middle = siblings.lower_bound(block);
  auto it = middle;
  for (int i = 0; i < kSiblings && it != siblings.end() && consider(it->get()); i++) ++it;
  it = middle;
  for (int i = 0; i < kSiblings && it != siblings.begin() && consider((--it)->get());) i++;
  return best;
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
  const std::int64_t now = now_unix_ms();
  for (Node* node : route.nodes) touch(node, now);
  for (int group = 0; group < groups(); group++) {
    if (!is_windowed(group)) continue;
    visit_needed(route.last(), group, length, [&](Node* node) { touch_page(node, group); });
  }
}

PromptCache::Match PromptCache::match(const CacheScope& scope, std::span<const TokenId> tokens,
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
  Salt& salt = trie_->salt(scope);
  Trie::Route route = trie_->route(salt, tokens);
  match.common = route.common;
  if (route.last() != nullptr) match.stored = route.last()->longest();
  const Position at_least = std::max<Position>(1, trie_->options.min_prefix);
  if (std::min(route.common, limit) >= at_least)
    match.length = trie_->deepest_restorable(route, tokens, limit, at_least);
  if (match.length > 0) {
    trie_->touch_match(route, match.length);
  } else if (trie_->was_evicted(salt, tokens, std::max(route.common, at_least - 1))) {
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

bool PromptCache::restore(const CacheScope& scope, std::span<const TokenId> tokens,
                          const Match& match, SequenceCache& cache, Path& path) {
  CHECK(match.length > 0 && match.length <= static_cast<Position>(tokens.size()));
  Salt& salt = trie_->salt(scope);
  Trie::Route route = trie_->route(salt, tokens);
  CHECK(trie_->deepest_restorable(route, tokens, match.length, match.length) == match.length);
  SequenceCache sequence = trie_->shared_sequence(route, match.length);
  const auto whole_blocks = static_cast<std::size_t>(match.length / kPagePositions);
  Path stands;
  stands.cache_ = this;
  stands.turn_ = path.turn_ != 0 ? path.turn_ : ++trie_->clock;
  stands.blocks_.assign(route.nodes.begin(),
                        route.nodes.begin() + static_cast<std::ptrdiff_t>(whole_blocks));
  stands.node_ = whole_blocks == 0 ? &salt.root : stands.blocks_.back();
  stands.published_ = stands.node_->end();
  trie_->lock(stands.node_);
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
      salt.counters.lookups++;
      trie_->count_miss(salt, MissReason::corrupt);
      return false;
    }
  }
  cache = std::move(sequence);
  path = std::move(stands);
  return true;
}

}  // namespace reprise
