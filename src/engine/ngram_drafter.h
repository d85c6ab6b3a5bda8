// Guesses how a sequence goes on from what stands in it already: replies repeat prompts (prompt
// lookup, Saxena 2023; the search is that of LZ77 with hash chains). Only speed depends on it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace reprise {

struct Draft {
  std::vector<TokenId> tokens;  // what may follow; empty: no guess
  int matched = 0;              // tokens before the guess that stand before its source too
};

// Of one sequence, whose tokens are only ever appended to.
class NgramDrafter {
 public:
  static constexpr int kMatchMin = 2;    // shorter matches are no guess
  static constexpr int kMatchMax = 16;   // longer ones are not told apart
  static constexpr int kCandidates = 8;  // newest occurrences of the last two tokens looked at

  // What follows the longest match among the candidates, the newest of equally long ones, at most
  // `most` tokens; where the source reaches the end it repeats. `tokens` begins with those of the
  // call before. O(tokens since that call + most).
  Draft propose(std::span<const TokenId> tokens, std::size_t most);

  std::size_t memory_bytes() const;  // at most 40 bytes a token

 private:
  static constexpr std::int32_t kNone = -1;
  void index(std::span<const TokenId> tokens);
  void grow(std::span<const TokenId> tokens);
  // Where the newest end of this pair stands, or would.
  std::int32_t& slot(std::span<const TokenId> tokens, TokenId first, TokenId second);

  // The pair that ends at e is (tokens[e - 1], tokens[e]). All that end before the last token are
  // here.
  std::vector<std::int32_t> slots_;     // open addressing: newest end of a pair
  std::vector<std::int32_t> previous_;  // by end: the end before of the same pair
  std::size_t pairs_ = 0;               // slots that are taken
};

}  // namespace reprise
