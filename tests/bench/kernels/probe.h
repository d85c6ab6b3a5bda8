// What one thread of this machine can do at most, measured beside every sample: multiply-adds of
// floats and of bytes, and bytes read from memory. Figures become fractions of it, and a probe that
// falls behind its best shows that somebody else was using the core.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/memory.h"

namespace reprise::bench {

// Thread CPU time: what the guest's scheduler takes away does not count.
double thread_seconds();

// What one look at the machine found; in billions a second.
struct Peaks {
  double fma = 0;     // float multiply-adds
  double int8 = 0;    // byte multiply-adds
  double memory = 0;  // bytes read from memory; 0: not asked for
};

class Probe {
 public:
  // Needs AVX2 and FMA.
  static bool is_supported();

  // With the widest instructions of `isa`: FMA of 8 or 16 floats; vpmaddubsw + vpaddw, the fastest
  // product of bytes that AVX2 has, or vpdpbusd. Takes 0.3 ms, with memory about 2 ms.
  Peaks look(std::string_view isa, bool with_memory);
  // Whether the core's probes were within 8 % of the best so far. Memory has no say: choosing
  // samples by it would choose those whose probe was lucky.
  bool is_quiet(std::string_view isa, const Peaks& peaks) const;

 private:
  double read_memory();

  Peaks best_[2];       // with 256 bits, with 512 bits
  MemoryBlock memory_;  // taken when first asked for
  std::size_t at_ = 0;
  std::uint64_t sink_ = 0;
};

}  // namespace reprise::bench
