// AVX2 unpackers of Q2_K and Q3_K panels: runs of four steps, one a sub-block of 16 columns.
#pragma once
#include "kernels/panel_k_low.h"
#include "kernels/unpack_k_avx2.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprise::kernels::avx2 {

struct NibbleScales {
  alignas(32) float scale[16];
  alignas(32) float offset[16];                   // dmin
  alignas(32) std::int16_t run_scale[16][16][2];  // as in ByteScales
  alignas(32) std::int16_t minimum[16][16][2];    // the same of the minimums
};

template <class Layout, int Bits, int ZeroShift>
struct UnpackOf16s : Layout {
  static constexpr int kGroups = 8;
  static constexpr int kUnroll = 2;
  static constexpr int kSteps = 4;
  static constexpr int first_step(int run) { return run * 4; }
  static constexpr int scale_of_run(int run) { return run; }
  static constexpr int run_factor(int) { return kRowFactor; }
  static constexpr int zero_shift(int) { return ZeroShift; }
  template <int R, int S, int V>
  static REPRISE_INLINE __m256i weights(const std::uint8_t* block, int g) {
    const std::uint8_t* unit = block + Layout::kWeightsAt + g * PanelUnit<Bits>::kBytes;
    return unit_weights<Bits, R * 4 + S, V>(unit);
  }
};

struct UnpackQ2_K : UnpackOf16s<PanelQ2_K, 2, -1> {
  using Scales = NibbleScales;
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, Scales& scales) {
    unpack_halves(block, scales.scale);
    unpack_halves(block + 32, scales.offset);
    for (int v = 0; v < 2; v++) {
      for (int word = 0; word < 4; word++) {
        const __m256i x = load_bytes(block + kSubScalesAt + word * 64 + v * 32);
        const __m256i scale = low_nibbles(x);
        const __m256i minimum = high_nibbles(x);
        for (int j = 0; j < 4; j++) {
          const __m256i twice = two_bytes(j, j);
          store_bytes(scales.run_scale[4 * word + j][8 * v], _mm256_shuffle_epi8(scale, twice));
          store_bytes(scales.minimum[4 * word + j][8 * v], _mm256_shuffle_epi8(minimum, twice));
        }
      }
    }
  }
};

struct UnpackQ3_K : UnpackOf16s<PanelQ3_K, 3, 2> {
  using Scales = ByteScales;
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, Scales& scales) {
    unpack_halves(block, scales.scale);
    for (int v = 0; v < 2; v++) {
      __m256i numbers[4];
      unpack_six_bits(block + kWordsAt + 32 * v, numbers);
      for (int j = 0; j < 16; j++) {
        const __m256i number = _mm256_shuffle_epi8(numbers[j / 4], two_bytes(j % 4, j % 4));
        store_bytes(scales.run_scale[j][8 * v], _mm256_sub_epi16(number, _mm256_set1_epi16(32)));
      }
    }
  }
};

}  // namespace reprise::kernels::avx2
#pragma GCC pop_options
