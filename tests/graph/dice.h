// The random choices of one graph: the same for the same seed, on every machine.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "base/types.h"

namespace reprise::testing {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  // A whole number in [least, most].
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  std::size_t below(std::size_t count) {
    return static_cast<std::size_t>(random_() % static_cast<std::uint64_t>(count));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class List>
  const auto& pick(const List& list) {
    return list[below(list.size())];
  }
  std::vector<TokenId> tokens(std::int64_t count, int vocabulary) {
    std::vector<TokenId> ids(static_cast<std::size_t>(count));
    for (TokenId& id : ids) id = static_cast<TokenId>(between(0, vocabulary - 1));
    return ids;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace reprise::testing
