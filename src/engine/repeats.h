// Which stretches of a text its end repeats.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "base/types.h"

namespace reprise {

class RepeatFinder {
 public:
  // lengths[i]: how many tokens up to tokens[i], it included, are the last ones of `tokens` too, at
  // most as many as stand behind the newest breaker. 0 for the last token itself. Valid until the
  // next call. `breakers` ascend. O(tokens): the Z algorithm (Gusfield 1997, section 1.4) over the
  // reversed tokens.
  std::span<const std::size_t> find(std::span<const TokenId> tokens,
                                    std::span<const TokenId> breakers);

 private:
  std::vector<std::size_t> lengths_;
};

}  // namespace reprise
