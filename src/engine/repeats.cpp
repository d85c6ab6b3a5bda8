// The Z algorithm from the end: box [last - right, last - left) is the furthest match so far.
#include "engine/repeats.h"

#include <algorithm>

namespace reprise {

std::span<const std::size_t> RepeatFinder::find(std::span<const TokenId> tokens,
                                                std::span<const TokenId> breakers) {
  const std::size_t count = tokens.size();
  lengths_.assign(count, 0);
  if (count == 0) return lengths_;
  const auto from_end = [&](std::size_t index) { return tokens[count - 1 - index]; };
  const auto length = [&](std::size_t index) -> std::size_t& {  // by distance from the end
    return lengths_[count - 1 - index];
  };
  std::size_t left = 0, right = 0;  // [left, right) equals the beginning of the reversed tokens
  for (std::size_t index = 1; index < count; index++) {
    std::size_t same = index < right ? std::min(right - index, length(index - left)) : 0;
    while (index + same < count && from_end(same) == from_end(index + same)) same++;
    length(index) = same;
    if (index + same > right) {
      left = index;
      right = index + same;
    }
  }
  if (breakers.empty()) return lengths_;
  std::size_t unbroken = 0;
  while (unbroken < count && !std::ranges::binary_search(breakers, from_end(unbroken))) unbroken++;
  for (std::size_t& each : lengths_) each = std::min(each, unbroken);
  return lengths_;
}

}  // namespace reprise
