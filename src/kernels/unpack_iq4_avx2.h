// AVX2 unpackers of IQ4_NL and IQ4_XS panels. A code's value + 128 is a byte; as for Q8_0 it is two
// runs, its low nibble, and its high nibble - 8, times 16. A vpshufb each looks them up.
#pragma once
#include "kernels/panel_iq4.h"
#include "kernels/unpack_k_avx2.h"
#include "kernels/unpack_q32_avx2.h"

namespace reprise::kernels::avx2 {

struct Iq4Nibbles {
  alignas(16) std::uint8_t of_run[2][16];  // low, high
};
constexpr Iq4Nibbles split_iq4_values() {
  Iq4Nibbles nibbles = {};
  for (int i = 0; i < 16; i++) {
    const int value = kIq4Values[i] + kIq4Zero;
    nibbles.of_run[0][i] = static_cast<std::uint8_t>(value & 15);
    nibbles.of_run[1][i] = static_cast<std::uint8_t>(value >> 4);
  }
  return nibbles;
}
inline constexpr Iq4Nibbles kIq4Nibbles = split_iq4_values();

}  // namespace reprise::kernels::avx2

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprise::kernels::avx2 {

// Run R's part of the values of codes (bytes 0..15).
template <int R>
REPRISE_INLINE __m256i iq4_nibbles(__m256i codes) {
  const __m128i table = _mm_load_si128(reinterpret_cast<const __m128i*>(kIq4Nibbles.of_run[R]));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), codes);
}

struct UnpackIQ4_NL : UnpackOf32<PanelIQ4_NL> {
  static constexpr int kUnroll = 2;
  static constexpr int kSteps = 8;
  static constexpr int first_step(int) { return 0; }
  static constexpr int run_factor(int r) { return r == 0 ? 1 : 16; }
  static constexpr int zero_shift(int r) { return r == 0 ? -1 : 3; }
  template <int R, int S, int V>
  static REPRISE_INLINE __m256i weights(const std::uint8_t* block, int) {
    return iq4_nibbles<R>(unit_weights<4, S, V>(block + kWeightsAt));
  }
};

// Two runs a sub-block of 32 columns; the second's integer scale holds the 16.
struct UnpackIQ4_XS : PanelIQ4_XS {
  using Scales = ByteScales;
  static constexpr int kGroups = 8;
  static constexpr int kUnroll = 2;
  static constexpr int kSteps = 8;
  static constexpr int first_step(int run) { return run / 2 * 8; }
  static constexpr int scale_of_run(int run) { return run; }
  static constexpr int run_factor(int) { return kRowFactor; }
  static constexpr int zero_shift(int r) { return r == 0 ? -1 : 3; }
  template <int R, int S, int V>
  static REPRISE_INLINE __m256i weights(const std::uint8_t* block, int g) {
    return iq4_nibbles<R>(unit_weights<4, S, V>(block + kWeightsAt + g * 256));
  }
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, Scales& scales) {
    unpack_halves(block, scales.scale);
    for (int v = 0; v < 2; v++) {
      const __m256i top = _mm256_cvtepu16_epi32(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + kTopBitsAt + 16 * v)));
      const __m256i low = load_bytes(block + kLowBitsAt + 32 * v);
      for (int sub = 0; sub < 8; sub++) {
        const __m256i high4 = _mm256_slli_epi32(
            _mm256_and_si256(_mm256_srli_epi32(top, 2 * sub), _mm256_set1_epi32(3)), 4);
        const __m256i low4 =
            _mm256_and_si256(_mm256_srli_epi32(low, 4 * sub), _mm256_set1_epi32(15));
        const __m256i number = _mm256_or_si256(high4, low4);
        const __m256i twice = _mm256_or_si256(number, _mm256_slli_epi32(number, 16));
        const __m256i scale = _mm256_sub_epi16(twice, _mm256_set1_epi16(32));
        store_bytes(scales.run_scale[2 * sub][8 * v], scale);
        store_bytes(scales.run_scale[2 * sub + 1][8 * v], _mm256_slli_epi16(scale, 4));
      }
    }
  }
};

}  // namespace reprise::kernels::avx2
#pragma GCC pop_options
