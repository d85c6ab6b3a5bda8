// A hash table of pairs whose keys stand in the sequence itself, and a chain of ends per pair.
#include "engine/ngram_drafter.h"

#include <algorithm>

namespace reprise {
namespace {

constexpr std::size_t kFirstSlots = 64;  // powers of two

std::size_t hash_pair(TokenId first, TokenId second) {
  const std::uint64_t pair =
      std::uint64_t{static_cast<std::uint32_t>(first)} << 32 | static_cast<std::uint32_t>(second);
  const std::uint64_t product = pair * 0x9E3779B97F4A7C15;  // golden ratio
  return static_cast<std::size_t>(product ^ (product >> 32));  // low bits know both tokens
}

// How many tokens up to `end` equal those up to the last one, at most `most`.
int matched_before(std::span<const TokenId> tokens, std::size_t end, int most) {
  const std::size_t last = tokens.size() - 1;
  int matched = 0;
  while (matched < most && static_cast<std::size_t>(matched) <= end &&
         tokens[end - static_cast<std::size_t>(matched)] ==
             tokens[last - static_cast<std::size_t>(matched)]) {
    matched++;
  }
  return matched;
}

}  // namespace

std::int32_t& NgramDrafter::slot(std::span<const TokenId> tokens, TokenId first, TokenId second) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash_pair(first, second) & mask;; at = (at + 1) & mask) {
    const std::int32_t end = slots_[at];
    if (end == kNone) return slots_[at];
    const auto place = static_cast<std::size_t>(end);
    if (tokens[place - 1] == first && tokens[place] == second) return slots_[at];
  }
}

void NgramDrafter::grow(std::span<const TokenId> tokens) {
  std::vector<std::int32_t> old(std::max(kFirstSlots, slots_.size() * 2), kNone);
  std::swap(old, slots_);
  for (const std::int32_t end : old) {
    if (end == kNone) continue;
    const auto place = static_cast<std::size_t>(end);
    slot(tokens, tokens[place - 1], tokens[place]) = end;
  }
}

void NgramDrafter::index(std::span<const TokenId> tokens) {
  if (previous_.empty()) previous_.push_back(kNone);  // no pair ends at the first token
  for (std::size_t end = previous_.size(); end + 1 < tokens.size(); end++) {
    if (pairs_ * 2 >= slots_.size()) grow(tokens);
    std::int32_t& newest = slot(tokens, tokens[end - 1], tokens[end]);
    if (newest == kNone) pairs_++;
    previous_.push_back(newest);
    newest = static_cast<std::int32_t>(end);
  }
}

Draft NgramDrafter::propose(std::span<const TokenId> tokens, std::size_t most) {
  Draft draft;
  if (tokens.size() <= static_cast<std::size_t>(kMatchMin) || most == 0) return draft;
  index(tokens);
  std::int32_t end = slot(tokens, tokens[tokens.size() - 2], tokens.back());
  std::size_t source = 0;
  for (int i = 0; i < kCandidates && end != kNone && draft.matched < kMatchMax; i++) {
    const auto place = static_cast<std::size_t>(end);
    const int matched = matched_before(tokens, place, kMatchMax);
    if (matched > draft.matched) {
      draft.matched = matched;
      source = place + 1;
    }
    end = previous_[place];
  }
  if (draft.matched == 0) return draft;
  draft.tokens.reserve(most);
  for (std::size_t i = 0; i < most; i++) {
    const std::size_t from = source + i;
    draft.tokens.push_back(from < tokens.size() ? tokens[from]
                                                : draft.tokens[from - tokens.size()]);
  }
  return draft;
}

std::size_t NgramDrafter::memory_bytes() const {
  return (slots_.capacity() + previous_.capacity()) * sizeof(std::int32_t);
}

}  // namespace reprise
