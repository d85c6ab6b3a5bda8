// AVX2 unpackers of Q4_K, Q5_K and Q6_K panels.
#pragma once
#include "kernels/panel_k.h"
#include "kernels/panel_unpack_avx2.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprise::kernels::avx2 {

struct SixBitScales {
  alignas(32) float scale[16];
  alignas(32) float offset[16];                     // dmin
  alignas(32) std::int16_t run_scale[8][16][2];     // the row's integer scale, twice per lane
  alignas(32) std::int16_t minimum_pair[4][16][2];  // of sub-blocks 2i and 2i + 1
};
struct ByteScales {
  alignas(32) float scale[16];
  alignas(32) std::int16_t run_scale[16][16][2];
};

template <class Layout>
struct UnpackOfSixBitScales : Layout {
  using Scales = SixBitScales;
  static constexpr int kGroups = 4;
  static constexpr int run_factor(int) { return kRowFactor; }
  static constexpr int zero_shift(int) { return -1; }

  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, Scales& scales) {
    unpack_halves(block, scales.scale);
    unpack_halves(block + 32, scales.offset);
    for (int v = 0; v < 2; v++) {
      __m256i numbers[4];
      unpack_six_bits(block + Layout::kWordsAt + 32 * v, numbers);
      for (int j = 0; j < 8; j++) {
        store_bytes(scales.run_scale[j][8 * v],
                    _mm256_shuffle_epi8(numbers[j / 4], two_bytes(j % 4, j % 4)));
      }
      for (int i = 0; i < 4; i++) {
        store_bytes(scales.minimum_pair[i][8 * v],
                    _mm256_shuffle_epi8(numbers[2 + i / 2], two_bytes(i % 2 * 2, i % 2 * 2 + 1)));
      }
    }
  }
};

struct UnpackQ4_K : UnpackOfSixBitScales<PanelQ4_K> {
  static constexpr int kUnroll = 2;
  static constexpr int kSteps = 8;
  static constexpr int first_step(int run) { return run * 8; }
  static constexpr int scale_of_run(int run) { return run; }
  template <int R, int S, int V>
  static REPRISE_INLINE __m256i weights(const std::uint8_t* block, int g) {
    return pair_weights<4, R * 8 + S, V>(block + kWeightsAt + g * 512);
  }
};

// Runs of four steps: two a sub-block.
struct UnpackQ5_K : UnpackOfSixBitScales<PanelQ5_K> {
  static constexpr int kUnroll = 4;
  static constexpr int kSteps = 4;
  static constexpr int first_step(int run) { return run * 4; }
  static constexpr int scale_of_run(int run) { return run / 2; }
  template <int R, int S, int V>
  static REPRISE_INLINE __m256i weights(const std::uint8_t* block, int g) {
    return pair_weights<5, R * 4 + S, V>(block + kWeightsAt + g * kPairBytes);
  }
};

struct UnpackQ6_K : PanelQ6_K {
  using Scales = ByteScales;
  static constexpr int kGroups = 8;
  static constexpr int kUnroll = 2;
  static constexpr int kSteps = 4;
  static constexpr int first_step(int run) { return run * 4; }
  static constexpr int scale_of_run(int run) { return run; }
  static constexpr int run_factor(int) { return kRowFactor; }
  static constexpr int zero_shift(int) { return 5; }
  template <int R, int S, int V>
  static REPRISE_INLINE __m256i weights(const std::uint8_t* block, int g) {
    return unit_weights<6, R * 4 + S, V>(block + kWeightsAt + g * kPairBytes);
  }
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, Scales& scales) {
    unpack_halves(block, scales.scale);
    for (int v = 0; v < 2; v++) {
      for (int word = 0; word < 4; word++) {
        const __m256i x = load_bytes(block + kSubScalesAt + word * 64 + v * 32);
        for (int j = 0; j < 4; j++) {
          // Byte j of each lane on top of both halves, then down with its sign.
          const std::uint32_t byte = static_cast<std::uint32_t>(j);
          const __m256i control = lane_shuffle(0x00800080u | byte << 24 | byte << 8);
          store_bytes(scales.run_scale[4 * word + j][8 * v],
                      _mm256_srai_epi16(_mm256_shuffle_epi8(x, control), 8));
        }
      }
    }
  }
};

}  // namespace reprise::kernels::avx2
#pragma GCC pop_options
