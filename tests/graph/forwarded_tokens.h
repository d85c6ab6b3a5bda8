// The naive twin of the prompt cache: all token sequences that were ever forwarded, by scope. With
// room for everything, a prompt must be resumed where it leaves the nearest of them.
#pragma once
#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "kv/prompt_cache.h"

namespace reprise::testing {

class ForwardedTokens {
 public:
  void add(const CacheScope& scope, std::vector<TokenId> tokens) {
    sequences_[scope].push_back(std::move(tokens));
  }
  void forget(const CacheScope& scope) { sequences_.erase(scope); }

  // Tokens that the prompt shares with the nearest sequence of its scope.
  Position common(const CacheScope& scope, std::span<const TokenId> prompt) const {
    const auto found = sequences_.find(scope);
    if (found == sequences_.end()) return 0;
    std::ptrdiff_t longest = 0;
    for (const std::vector<TokenId>& tokens : found->second) {
      const auto ends = std::ranges::mismatch(prompt, tokens);
      longest = std::max(longest, ends.in1 - prompt.begin());
    }
    return longest;
  }

 private:
  std::map<CacheScope, std::vector<std::vector<TokenId>>> sequences_;
};

}  // namespace reprise::testing
