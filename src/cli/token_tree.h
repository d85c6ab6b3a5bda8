// The bench's own account of what a prompt cache could hold: a trie of single tokens.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/types.h"

namespace reprise {

class TokenTree {
 public:
  // Adds what has been forwarded; `time` must not fall from call to call.
  void add(std::span<const TokenId> tokens, int time);

  // The longest prefix of `tokens` that was added at a time before `time`.
  std::size_t common_prefix(std::span<const TokenId> tokens, int time) const;

  std::size_t unique_tokens() const { return nodes_.size() - 1; }
  std::size_t leaves() const;

 private:
  struct Node {
    int born = 0;
    bool has_children = false;
  };
  // parent << 32 | token -> child
  std::unordered_map<std::uint64_t, std::uint32_t> children_;
  std::vector<Node> nodes_ = {Node{}};
};

}  // namespace reprise
