// Copies of one thing, used in turn: enough of them, and each use reads from memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/memory.h"

namespace reprise::bench {

// Six times an L3 of 32 MB: between two uses of a copy everything else has passed through it.
inline constexpr std::size_t kFromMemoryBytes = std::size_t{192} << 20;

class Ring {
 public:
  // `from_memory`: copies until they fill kFromMemoryBytes (two at least); else one. The content is
  // `pattern` over and over.
  Ring(const std::uint8_t* pattern, std::size_t pattern_bytes, std::size_t copy_bytes,
       bool from_memory)
      : stride_((copy_bytes + 4095) / 4096 * 4096),
        count_(from_memory ? std::max<std::size_t>(2, (kFromMemoryBytes + stride_ - 1) / stride_)
                           : 1),
        memory_(stride_ * count_) {
    for (std::size_t copy = 0; copy < count_; copy++) {
      std::uint8_t* const start = memory_.data() + copy * stride_;
      for (std::size_t at = 0; at < copy_bytes; at += pattern_bytes) {
        std::memcpy(start + at, pattern, std::min(pattern_bytes, copy_bytes - at));
      }
    }
  }
  const std::uint8_t* next() {
    at_ = at_ + 1 < count_ ? at_ + 1 : 0;
    return memory_.data() + at_ * stride_;
  }

 private:
  std::size_t stride_;
  std::size_t count_;
  MemoryBlock memory_;
  std::size_t at_ = 0;
};

}  // namespace reprise::bench
