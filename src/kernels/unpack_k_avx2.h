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

// A vpshufb control that takes from every 32-bit lane the bytes named in `pattern` (a byte >= 0x80
// gives zero): byte i of the lane's result is byte (pattern >> 8i & 3) of the lane.
REPRISE_INLINE __m256i lane_shuffle(std::uint32_t pattern) {
  const __m128i lanes = _mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c);
  return _mm256_add_epi8(_mm256_set1_epi32(static_cast<int>(pattern)),
                         _mm256_broadcastsi128_si256(lanes));
}
// Bytes a and b of every lane, zero-extended to 16 bits each. 0x80 + 12 is still a zero.
REPRISE_INLINE __m256i two_bytes(int a, int b) {
  return lane_shuffle(0x80008000u | static_cast<std::uint32_t>(b) << 16 |
                      static_cast<std::uint32_t>(a));
}

// The 16 six-bit numbers of rows 8v .. 8v + 7 (panel_k.h): byte i of lane r of numbers[w] is number
// 4w + i of row 8v + r.
REPRISE_INLINE void unpack_six_bits(const std::uint8_t* words, int v, __m256i (&numbers)[4]) {
  const __m256i six = _mm256_set1_epi8(63);
  const __m256i word0 = load_bytes(words + 32 * v);
  const __m256i word1 = load_bytes(words + 64 + 32 * v);
  const __m256i word2 = load_bytes(words + 128 + 32 * v);
  __m256i top = _mm256_and_si256(_mm256_srli_epi16(word0, 6), _mm256_set1_epi8(3));
  top = _mm256_or_si256(top, _mm256_and_si256(_mm256_srli_epi16(word1, 4), _mm256_set1_epi8(12)));
  top = _mm256_or_si256(top, _mm256_and_si256(_mm256_srli_epi16(word2, 2), _mm256_set1_epi8(48)));
  numbers[0] = _mm256_and_si256(word0, six);
  numbers[1] = _mm256_and_si256(word1, six);
  numbers[2] = _mm256_and_si256(word2, six);
  numbers[3] = top;
}

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
      unpack_six_bits(block + Layout::kWordsAt, v, numbers);
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
    const __m256i x = load_bytes(block + kWeightsAt + g * 512 + S * 64 + V * 32);
    return R == 0 ? low_nibbles(x) : high_nibbles(x);
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
    constexpr int kHalf = R / 2;
    constexpr int kStep = R % 2 * 4 + S;
    const std::uint8_t* pair = block + kWeightsAt + g * kPairBytes;
    const __m256i x = load_bytes(pair + 128 + kStep * 64 + V * 32);
    const __m256i high = shift<4 - kStep>(load_bytes(pair + kHalf * 64 + V * 32));
    return _mm256_or_si256(kHalf == 0 ? low_nibbles(x) : high_nibbles(x),
                           _mm256_and_si256(high, _mm256_set1_epi8(16)));
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
    const std::uint8_t* pair = block + kWeightsAt + g * kPairBytes;
    const __m256i x = load_bytes(pair + 128 + S * 64 + V * 32);
    const __m256i high = shift<4 - 2 * S>(load_bytes(pair + R * 64 + V * 32));
    return _mm256_or_si256(R == 0 ? low_nibbles(x) : high_nibbles(x),
                           _mm256_and_si256(high, _mm256_set1_epi8(48)));
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
