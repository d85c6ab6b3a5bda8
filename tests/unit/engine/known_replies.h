// Drafts out of replies that are known: right ones, and wrong ones now and then.
#pragma once
#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "support/tiny_vocabulary.h"

namespace reprise::testing {

class KnownReplies {
 public:
  // Prompt and reply.
  void add(std::vector<TokenId> tokens) { known_.push_back(std::move(tokens)); }

  // For EngineOptions::draft.
  std::vector<TokenId> draft(std::span<const TokenId> tokens, std::size_t most) {
    std::vector<TokenId> draft;
    for (const std::vector<TokenId>& known : known_) {
      if (known.size() <= tokens.size()) continue;
      if (!std::equal(tokens.begin(), tokens.end(), known.begin())) continue;
      for (std::size_t i = tokens.size(); i < known.size() && draft.size() < most; i++) {
        draft.push_back(random_() % 6 == 0 ? (known[i] + 1) % kTinyVocabulary : known[i]);
      }
      break;
    }
    return draft;
  }

 private:
  std::vector<std::vector<TokenId>> known_;
  std::mt19937 random_{5};
};

}  // namespace reprise::testing
