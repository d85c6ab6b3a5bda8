// Tokens that no repeated stretch goes over (DRY): those that contain one of a client's strings.
#pragma once
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "text/tokenizer.h"

namespace reprise {

// The table of tokens is searched once for each string; the newest strings' tokens are kept. Any
// thread may use this.
class SequenceBreakers {
 public:
  // The tokenizer must outlive this. `vocabulary`: ids of the model end before it.
  SequenceBreakers(const Tokenizer& tokenizer, int vocabulary);

  // Ascending ids of the tokens whose bytes contain one of the texts (none of them empty).
  std::vector<TokenId> find(std::span<const std::string> texts) const;

 private:
  struct Known {
    std::string text;
    std::vector<TokenId> ids;
  };
  // Holding the mutex.
  const std::vector<TokenId>& find_one(const std::string& text) const;

  const Tokenizer* tokenizer_;
  TokenId end_;
  mutable std::mutex mutex_;
  mutable std::deque<Known> known_;  // newest last
};

}  // namespace reprise
