// Replies in the trie: how one went on from where a prompt left it.
#include "kv/prompt_trie.h"

namespace reprise {
namespace {

using Node = PromptCache::Node;

// A reply below a block: its tokens from some place on, up to its end.
struct Reply {
  std::uint64_t used = 0;
  std::vector<TokenId> tokens;
};

// Ends of prompts and of replies: those of messages and branches may lie inside a reply, or where a
// sequence was preempted.
constexpr std::uint8_t kEnds = Node::bit(MarkKind::history_boundary) |
                               Node::bit(MarkKind::prompt_end) |
                               Node::bit(MarkKind::completion_end);

}  // namespace

std::vector<TokenId> PromptCache::sampled_continuation(const CacheScope& scope,
                                                       std::span<const TokenId> tokens,
                                                       const Match& match, std::size_t most) const {
  constexpr int kNodesMax = 64;  // looked at: a lookup's cost must not grow with entries
  const Salt* salt = trie_->find_salt(scope);
  if (salt == nullptr || match.common <= 0 || most == 0) return {};
  const auto common_tokens = tokens.first(static_cast<std::size_t>(match.common));
  const Trie::Route route = trie_->route(*salt, common_tokens);
  if (route.common < match.common) return {};  // given up since
  const Node* last = route.last();
  struct Open {
    const Node* node;
    std::vector<TokenId> tokens;
  };
  std::vector<Open> open;
  const auto block = common_tokens.subspan(static_cast<std::size_t>(last->start));
  if (last->end() == match.common) {
    for (const auto& child : last->children) {
      if (open.size() < kNodesMax) open.push_back({child.get(), {}});
    }
  }
  const Node::Children& siblings = last->parent->children;
  for (auto it = siblings.lower_bound(block);
       it != siblings.end() && open.size() < kNodesMax && is_prefix(block, (*it)->tokens); ++it) {
    if ((*it)->end() > match.common) open.push_back({it->get(), {}});
  }
  Reply best;
  for (int looked_at = 0; !open.empty() && looked_at < kNodesMax; looked_at++) {
    const Open here = std::move(open.back());
    open.pop_back();
    const auto mark = std::ranges::find_if(here.node->marks, [&](const Node::Mark& each) {
      return each.position > match.common && (each.kinds & kEnds) != 0;
    });
    const bool ends = mark != here.node->marks.end();
    if (ends && (!mark->has(MarkKind::completion_end) || here.node->used <= best.used)) continue;
    const Position begin = std::max(match.common, here.node->start) - here.node->start;
    const Position end = (ends ? mark->position : here.node->end()) - here.node->start;
    std::vector<TokenId> reply = here.tokens;
    reply.insert(reply.end(), here.node->tokens.begin() + begin, here.node->tokens.begin() + end);
    if (ends) {
      best = {here.node->used, std::move(reply)};
      continue;
    }
    for (const auto& child : here.node->children) {
      if (open.size() < kNodesMax) open.push_back({child.get(), reply});
    }
  }
  if (best.tokens.size() > most) best.tokens.resize(most);
  return best.tokens;
}

void PromptCache::count_retokenised(const CacheScope& scope, Position at) {
  Salt& salt = trie_->salt(scope);
  salt.counters.retokenised++;
  salt.counters.last_retokenised_at = at;
  trie_->last_retokenised_at = at;
}

}  // namespace reprise
