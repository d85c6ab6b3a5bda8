// Counter-based random numbers: the same key and counter give the same bits, on any thread, in any
// order. Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3
// (Philox4x32-10).
#pragma once
#include <array>
#include <cstdint>

namespace reprise {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// Ten rounds of the bijection; the test holds it against the authors' known answers.
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; round++) {
    const std::uint64_t even = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t odd = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(odd >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(odd),
               static_cast<std::uint32_t>(even >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(even)};
    key[0] += 0x9E3779B9;  // golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

// What the numbers of one place are for: each has its own.
enum class RandomStream : std::uint32_t { draw = 0, xtc = 1 };

// 64 uniform bits: the key is the seed, the counter is {position, choice, stream}.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint32_t choice, std::int64_t position,
                                    RandomStream stream = RandomStream::draw) {
  const auto place = static_cast<std::uint64_t>(position);
  const PhiloxCounter bits =
      philox4x32({static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32),
                  choice, static_cast<std::uint32_t>(stream)},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return std::uint64_t{bits[1]} << 32 | bits[0];
}

}  // namespace reprise
