// AVX2 unpackers of Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 panels.
#pragma once
#include "kernels/panel_q32.h"
#include "kernels/panel_unpack_avx2.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprise::kernels::avx2 {

template <class Layout>
struct UnpackOf32 : Layout {
  static constexpr int kGroups = 1;
  static constexpr bool kOffsets = Layout::kFinish == Finish::bias;
  using Scales = typename std::conditional<kOffsets, RowScalesAndOffsets, RowScales>::type;

  static constexpr int scale_of_run(int) { return 0; }
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, Scales& scales) {
    unpack_halves(block, scales.scale);
    if constexpr (kOffsets) unpack_halves(block + 32, scales.offset);
  }
};

template <class Layout, int ZeroShift>
struct UnpackOf4Bits : UnpackOf32<Layout> {
  static constexpr int kUnroll = 1;
  static constexpr int kSteps = 8;
  static constexpr int first_step(int) { return 0; }
  static constexpr int run_factor(int) { return 1; }
  static constexpr int zero_shift(int) { return ZeroShift; }
  template <int R, int S, int V>
  static REPRISE_INLINE __m256i weights(const std::uint8_t* block, int) {
    return unit_weights<4, S, V>(block + Layout::kWeightsAt);
  }
};

// One run of eight steps with a zero point, or two of four without.
template <class Layout, int Steps, int ZeroShift>
struct UnpackOf5Bits : UnpackOf32<Layout> {
  static constexpr int kUnroll = 8 / Steps;
  static constexpr int kSteps = Steps;
  static constexpr int first_step(int run) { return run * Steps; }
  static constexpr int run_factor(int) { return 1; }
  static constexpr int zero_shift(int) { return ZeroShift; }
  template <int R, int S, int V>
  static REPRISE_INLINE __m256i weights(const std::uint8_t* block, int) {
    return unit_weights<5, R * Steps + S, V>(block + Layout::kWeightsAt);
  }
};

using UnpackQ4_0 = UnpackOf4Bits<PanelQ4_0, 3>;
using UnpackQ4_1 = UnpackOf4Bits<PanelQ4_1, -1>;
using UnpackQ5_0 = UnpackOf5Bits<PanelQ5_0, 8, 4>;
using UnpackQ5_1 = UnpackOf5Bits<PanelQ5_1, 4, -1>;

// Two runs: the low nibble, and the high nibble - 8, times 16.
struct UnpackQ8_0 : UnpackOf32<PanelQ8_0> {
  static constexpr int kUnroll = 2;
  static constexpr int kSteps = 8;
  static constexpr int first_step(int) { return 0; }
  static constexpr int run_factor(int r) { return r == 0 ? 1 : 16; }
  static constexpr int zero_shift(int r) { return r == 0 ? -1 : 3; }
  template <int R, int S, int V>
  static REPRISE_INLINE __m256i weights(const std::uint8_t* block, int) {
    const __m256i x = unit_weights<8, S, V>(block + kWeightsAt);
    return R == 0 ? low_nibbles(x) : high_nibbles(x);
  }
};

}  // namespace reprise::kernels::avx2
#pragma GCC pop_options
