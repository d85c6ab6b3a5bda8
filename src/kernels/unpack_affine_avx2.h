// AVX2 unpackers of the MLX affine types: a unit of 32 columns is one run of eight steps, two of
// four (5 bit), four of two (6 bit), or the low and the high nibbles (8 bit).
#pragma once
#include "kernels/panel_affine.h"
#include "kernels/panel_matmul_avx2.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprise::kernels::avx2 {

// Sixteen floats of the file's type as floats.
REPRISE_INLINE void unpack_floats(const std::uint8_t* from, ScaleType type, float* to) {
  switch (type) {
    case ScaleType::f16:
      return unpack_halves(from, to);
    case ScaleType::bf16:
      _mm256_store_ps(to, load_bfloats(from));
      _mm256_store_ps(to + 8, load_bfloats(from + 16));
      return;
    case ScaleType::f32:
      store_bytes(to, load_bytes(from));
      store_bytes(to + 8, load_bytes(from + 32));
      return;
  }
}

template <int Bits, int Columns>
struct UnpackAffine : PanelAffine<Bits, Columns> {
  using Scales = RowScalesAndOffsets;
  using Unit = PanelUnit<Bits>;
  static constexpr int kGroups = Columns / 32;
  static constexpr int kSteps = Bits == 6 ? 2 : Bits == 5 ? 4 : 8;
  static constexpr int kUnroll = Bits == 8 ? 2 : 8 / kSteps;
  static constexpr int first_step(int run) { return Bits == 8 ? run / 2 * 8 : run * kSteps; }
  static constexpr int run_factor(int r) { return Bits == 8 && r == 1 ? 16 : 1; }
  static constexpr int zero_shift(int) { return -1; }
  template <int R, int S, int V>
  static REPRISE_INLINE __m256i weights(const std::uint8_t* units, int g) {
    const std::uint8_t* unit = units + g * Unit::kBytes;
    if constexpr (Bits == 8) {
      const __m256i x = unit_weights<8, S, V>(unit);
      return R == 0 ? low_nibbles(x) : high_nibbles(x);
    } else {
      return unit_weights<Bits, R * kSteps + S, V>(unit);
    }
  }
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, ScaleType type,
                                           Scales& scales) {
    unpack_floats(block, type, scales.scale);
    unpack_floats(block + UnpackAffine::header_bytes(type) / 2, type, scales.offset);
  }
};

#include "kernels/multiply_affine.inc"

}  // namespace reprise::kernels::avx2
#pragma GCC pop_options
