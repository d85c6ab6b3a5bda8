// One hash table from (node, token) to the child.
#include "cli/token_tree.h"

#include <algorithm>

namespace reprise {
namespace {

std::uint64_t edge(std::uint32_t node, TokenId token) {
  return std::uint64_t{node} << 32 | static_cast<std::uint32_t>(token);
}

}  // namespace

void TokenTree::add(std::span<const TokenId> tokens, int time) {
  std::uint32_t node = 0;
  for (const TokenId token : tokens) {
    const auto next = static_cast<std::uint32_t>(nodes_.size());
    const auto [entry, is_new] = children_.try_emplace(edge(node, token), next);
    if (is_new) {
      nodes_[node].has_children = true;
      nodes_.push_back(Node{time});
    }
    node = entry->second;
  }
}

std::size_t TokenTree::common_prefix(std::span<const TokenId> tokens, int time) const {
  std::uint32_t node = 0;
  for (std::size_t length = 0; length < tokens.size(); length++) {
    const auto child = children_.find(edge(node, tokens[length]));
    if (child == children_.end() || nodes_[child->second].born >= time) return length;
    node = child->second;
  }
  return tokens.size();
}

std::size_t TokenTree::leaves() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      nodes_.begin() + 1, nodes_.end(), [](const Node& node) { return !node.has_children; }));
}

}  // namespace reprise
