// Marks: which windowed pages they hold, how strongly, and places where continuations part.
#include "kv/prompt_trie.h"

namespace reprise {
namespace {

using Node = PromptCache::Node;

auto find_mark(Node& node, Position position) {
  return std::ranges::lower_bound(node.marks, position, {}, &Node::Mark::position);
}
bool has_branch_point(Node& node, Position position) {
  const auto mark = find_mark(node, position);
  return mark != node.marks.end() && mark->position == position &&
         mark->has(MarkKind::branch_point);
}

}  // namespace

// Counts one more, or one less, holder of every windowed page that a mark at the position keeps.
void PromptCache::Trie::hold_range(Node* node, Position position, std::uint32_t Node::Slot::* count,
                                   bool holds) {
  for (int group = 0; group < groups(); group++) {
    if (!is_windowed(group)) continue;
    visit_range(node, marked_range(group, position), [&](Node* each) {
      Node::Slot& slot = each->slot(group);
      CHECK(holds || slot.*count > 0);
      slot.*count += holds ? 1 : -1;
      const bool changes = slot.*count == (holds ? 1 : 0);
      if (!changes) return;
      unqueue(slot.place, *each->salt);
      queue_page(each, group);
    });
  }
}

// In an unfinished block, which goes before the blocks above it, a mark also holds what resuming at
// the block's start needs: there the path ends when the block has gone.
void PromptCache::Trie::hold_mark(Node* node, const Node::Mark& mark, bool holds) {
  const auto count = mark.is_strong ? &Node::Slot::strong : &Node::Slot::weak;
  hold_range(node, mark.position, count, holds);
  if (!node->is_whole() && node->start > 0) hold_range(node->parent, node->start, count, holds);
}

void PromptCache::Trie::set_strength(Node* node, Node::Mark& mark, bool is_strong) {
  if (mark.is_strong == is_strong) return;
  hold_mark(node, mark, false);
  mark.is_strong = is_strong;
  hold_mark(node, mark, true);
}

// A mark that is there already gets one more kind; it is as strong as the stronger. A message's end
// that a prompt says again makes no older mark there one of the new turn.
void PromptCache::Trie::add_mark(Node* node, Node::Mark mark) {
  CHECK(node->start < mark.position && mark.position <= node->end());
  const auto known = find_mark(*node, mark.position);
  if (known != node->marks.end() && known->position == mark.position) {
    known->kinds |= mark.kinds;
    if (mark.kinds != Node::bit(MarkKind::turn_end)) known->turn = std::max(known->turn, mark.turn);
    set_strength(node, *known, known->is_strong || mark.is_strong);
  } else {
    node->marks.insert(known, mark);
    hold_mark(node, mark, true);
  }
  bound_marks(node);
}

void PromptCache::Trie::remove_mark(Node* node, std::size_t index) {
  hold_mark(node, node->marks[index], false);
  node->marks.erase(node->marks.begin() + static_cast<std::ptrdiff_t>(index));
}

// Too many branch points: the oldest ones are not any more. Too many marks: the weak and old go.
void PromptCache::Trie::bound_marks(Node* node) {
  const auto is_branch = [](const Node::Mark& mark) { return mark.has(MarkKind::branch_point); };
  while (std::ranges::count_if(node->marks, is_branch) >
         static_cast<std::ptrdiff_t>(Node::kBranchPointsMax)) {
    std::size_t oldest = node->marks.size();
    for (std::size_t i = 0; i < node->marks.size(); i++) {
      if (!is_branch(node->marks[i])) continue;
      if (oldest == node->marks.size() || node->marks[i].turn < node->marks[oldest].turn)
        oldest = i;
    }
    Node::Mark& mark = node->marks[oldest];
    mark.kinds &= static_cast<std::uint8_t>(~Node::bit(MarkKind::branch_point));
    if (mark.kinds == 0) remove_mark(node, oldest);
  }
  while (node->marks.size() > Node::kMarksMax) {
    const auto first = std::ranges::min_element(node->marks, {}, [](const Node::Mark& mark) {
      return std::pair(mark.is_strong, mark.turn);
    });
    remove_mark(node, static_cast<std::size_t>(first - node->marks.begin()));
  }
}

// Bytes of the windowed pages that a mark at the position keeps.
std::size_t PromptCache::Trie::window_bytes(Position position) const {
  std::size_t bytes = 0;
  for (int group = 0; group < groups(); group++) {
    if (!is_windowed(group)) continue;
    const PositionRange range = marked_range(group, position);
    const Position blocks = (range.end - 1) / kPagePositions - range.begin / kPagePositions + 1;
    bytes += static_cast<std::size_t>(blocks) * page_bytes(group);
  }
  return bytes;
}

// A turn's end was marked at `position`, on the path of `nodes`: marks of earlier turns before it
// become weak, except branch points and kept turns (prompt_trie.h). O(path).
void PromptCache::Trie::settle_turns(std::span<Node* const> nodes, Position position,
                                     std::uint64_t turn) {
  std::size_t full_bytes = 0;  // of a block
  for (int group = 0; group < groups(); group++) {
    if (!is_windowed(group)) full_bytes += page_bytes(group);
  }
  const std::uint8_t only_weak = Node::bit(MarkKind::turn_end) | Node::bit(MarkKind::preempted);
  std::array<Since, 2> rows;  // of this block and of the one before
  rows.fill(Since(static_cast<std::size_t>(groups())));
  Position kept = 0;
  for (std::size_t i = 0; i < nodes.size(); i++) {
    Node* node = nodes[i];
    const Position* since = rows[i % 2].data();
    find_since(*node, i == 0 ? nullptr : rows[(i + 1) % 2].data(), rows[i % 2].data());
    for (Node::Mark& mark : node->marks) {
      if (mark.position >= position) break;
      const bool is_newest = mark.turn == turn && (mark.kinds & ~only_weak) != 0;
      bool is_strong = is_newest || mark.has(MarkKind::branch_point);
      if (!is_strong) {
        const auto blocks = static_cast<std::size_t>((mark.position - kept) / kPagePositions);
        is_strong = full_bytes > 0 && blocks * full_bytes >= window_bytes(mark.position) &&
                    deepest_in_block(*node, since, mark.position, mark.position) > 0;
      }
      set_strength(node, mark, is_strong);
      if (is_strong) kept = mark.position;
    }
  }
}

// The block of the path that holds the position, its unfinished end included; null where that was
// given up since.
PromptCache::Node* PromptCache::Trie::find_on_path(const Path& path,
                                                   std::span<const TokenId> tokens,
                                                   Position position) const {
  if (position <= path.published_)
    return path.blocks_[static_cast<std::size_t>((position - 1) / kPagePositions)];
  CHECK(position - path.published_ <= kPagePositions);
  const auto rest = tokens.subspan(static_cast<std::size_t>(path.published_));
  const auto block = rest.first(std::min<std::size_t>(rest.size(), kPagePositions));
  const Neighbour next = nearest_child(*path.node_, block);
  return next.length < position - path.published_ ? nullptr : next.node;
}

void PromptCache::mark(const Path& path, std::span<const TokenId> tokens, Position position,
                       MarkKind kind) {
  if (!trie_->is_storing() || position <= 0 || path.node_->is_orphan) return;
  CHECK(path.cache_ == this && position <= static_cast<Position>(tokens.size()));
  Node* node = trie_->find_on_path(path, tokens, position);
  if (node == nullptr) return;
  trie_->add_mark(node, {.position = position,
                         .kinds = Node::bit(kind),
                         .is_strong = kind != MarkKind::turn_end,
                         .turn = path.turn_});
  if (kind != MarkKind::prompt_end && kind != MarkKind::completion_end) return;
  std::vector<Node*> nodes(path.blocks_.begin(),
                           path.blocks_.begin() + node->start / kPagePositions);
  nodes.push_back(node);
  trie_->settle_turns(nodes, position, path.turn_);
}

// The node is new, or longer than it was: where it parts from a sibling, or is its parent's second
// child, two continuations part.
void PromptCache::Trie::mark_branch(Node* node) {
  Node* parent = node->parent;
  if (parent->children.size() < 2) return;
  const auto it = parent->children.find(node->tokens);
  Position common = 0;
  bool is_known = false;
  const auto consider = [&](Node* sibling) {
    const Position length = common_prefix(node->tokens, sibling->tokens);
    if (length == static_cast<Position>(sibling->tokens.size()) ||
        length == node->end() - node->start)
      return;  // one goes on from the other
    if (length < common) return;
    if (length > common) is_known = false;
    common = length;
    is_known = is_known || has_branch_point(*sibling, node->start + length);
  };
  if (it != parent->children.begin()) consider(std::prev(it)->get());
  if (std::next(it) != parent->children.end()) consider(std::next(it)->get());
  if (is_known) return;
  const Node::Mark mark = {.position = node->start + common,
                           .kinds = Node::bit(MarkKind::branch_point),
                           .is_strong = true,
                           .turn = ++clock};
  if (common > 0) {
    add_mark(node, mark);
  } else if (!parent->is_root()) {
    add_mark(parent, mark);
  }
}

// An unfinished block goes: its marks' role falls to the end of the block before, if that can be
// resumed.
void PromptCache::Trie::move_tail_marks(Node* tail) {
  Node* parent = tail->parent;
  if (tail->marks.empty() || parent->is_root() || !is_restorable(*parent, parent->end())) return;
  Node::Mark moved = {.position = parent->end(), .kinds = 0, .is_strong = false, .turn = 0};
  constexpr std::uint8_t kMoved = ~Node::bit(MarkKind::branch_point);
  for (const Node::Mark& mark : tail->marks) {
    if ((mark.kinds & kMoved) == 0) continue;
    moved.kinds |= mark.kinds & kMoved;
    moved.is_strong = moved.is_strong || mark.is_strong;
    moved.turn = std::max(moved.turn, mark.turn);
  }
  if (moved.kinds != 0) add_mark(parent, moved);
}

// A leaf goes: siblings that part at the same place mark it on.
void PromptCache::Trie::move_branch_points(Node* leaf) {
  Node::Children& siblings = leaf->parent->children;
  if (siblings.size() < 2) return;
  const auto it = siblings.find(leaf->tokens);
  for (const Node::Mark& mark : leaf->marks) {
    if (!mark.has(MarkKind::branch_point)) continue;
    Node* heir = nullptr;
    const auto consider = [&](Node* sibling) {
      if (common_prefix(leaf->tokens, sibling->tokens) >= mark.position - leaf->start)
        heir = sibling;
    };
    if (it != siblings.begin()) consider(std::prev(it)->get());
    if (std::next(it) != siblings.end()) consider(std::next(it)->get());
    if (heir == nullptr) continue;
    add_mark(heir, {.position = mark.position,
                    .kinds = Node::bit(MarkKind::branch_point),
                    .is_strong = true,
                    .turn = mark.turn});
  }
}

}  // namespace reprise
