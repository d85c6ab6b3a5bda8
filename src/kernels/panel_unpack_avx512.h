// The AVX-512 unpackers of all integer weight types. One vpdpbusd multiplies a step, 64 unsigned
// bytes, lane = row of the panel, by four activations of one row of x and adds in 32 bits, where
// nothing overflows: the run that AVX2 needs (panel_unpack_avx2.h) is a whole sub-block here.
//
// An unpacker is a layout plus:
//   kUnroll, kUnitBytes          units of 32 columns are unrolled kUnroll at a time (2: the pairs
//   of
//                                Q4_K and Q5_K), kUnitBytes bytes apart, from kWeightsAt on (MLX:
//                                from behind the block's scales)
//   weights<R, S>(units)         step S, 0..7, of unit R at `units`
//   Scales, unpack_scales(block, scales); MLX: unpack_scales(block, scale_type, scales)
// Scales of blocks with sub-blocks hold sub_scale (32-bit lanes) and perhaps minimum_pair: of the
// sub-blocks 2i and 2i + 1, 16-bit lanes.
#pragma once
#include <type_traits>

#include "kernels/panel_affine.h"
#include "kernels/panel_iq4.h"
#include "kernels/panel_k.h"
#include "kernels/panel_k_low.h"
#include "kernels/panel_q32.h"
#include "kernels/panel_vectors_avx512.h"

namespace reprise::kernels::avx512 {

struct Iq4Bytes {
  alignas(16) std::uint8_t value[16];  // of a code, + kIq4Zero
};
constexpr Iq4Bytes make_iq4_bytes() {
  Iq4Bytes bytes = {};
  for (int i = 0; i < 16; i++) bytes.value[i] = static_cast<std::uint8_t>(kIq4Values[i] + kIq4Zero);
  return bytes;
}
inline constexpr Iq4Bytes kIq4Bytes = make_iq4_bytes();

}  // namespace reprise::kernels::avx512

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
namespace reprise::kernels::avx512 {

#include "kernels/panel_weights.inc"

struct RowScales {
  alignas(64) float scale[16];
};
struct RowScalesAndOffsets {
  alignas(64) float scale[16];
  alignas(64) float offset[16];
};
template <int Subs>
struct SubScales {
  alignas(64) float scale[16];
  alignas(64) std::int32_t sub_scale[Subs][16];
};
template <int Subs>
struct SubScalesAndMinimums {
  alignas(64) float scale[16];
  alignas(64) float offset[16];
  alignas(64) std::int32_t sub_scale[Subs][16];
  alignas(64) std::int16_t minimum_pair[Subs / 2][16][2];
};

REPRISE_INLINE void unpack_halves(const std::uint8_t* from, float* to) {
  _mm512_store_ps(to, load_halves(from));
}
// Sixteen floats of the file's type as floats.
REPRISE_INLINE void unpack_floats(const std::uint8_t* from, ScaleType type, float* to) {
  switch (type) {
    case ScaleType::f16:
      return unpack_halves(from, to);
    case ScaleType::bf16:
      return _mm512_store_ps(to, load_bfloats(from));
    case ScaleType::f32:
      return store_bytes(to, load_bytes(from));
  }
}

// Layouts made of units (panel_unit.h).
template <class Layout, int Bits>
struct UnpackUnits : Layout {
  static constexpr int kUnroll = 1;
  static constexpr int kUnitBytes = PanelUnit<Bits>::kBytes;
  template <int, int S>
  static REPRISE_INLINE Bytes weights(const std::uint8_t* unit) {
    return unit_weights<Bits, S, 0>(unit);
  }
};

template <class Layout, int Bits>
struct UnpackOf32 : UnpackUnits<Layout, Bits> {
  static constexpr bool kOffsets = Layout::kFinish == Finish::bias;
  using Scales = std::conditional_t<kOffsets, RowScalesAndOffsets, RowScales>;
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, Scales& scales) {
    unpack_halves(block, scales.scale);
    if constexpr (kOffsets) unpack_halves(block + 32, scales.offset);
  }
};
using UnpackQ4_0 = UnpackOf32<PanelQ4_0, 4>;
using UnpackQ4_1 = UnpackOf32<PanelQ4_1, 4>;
using UnpackQ5_0 = UnpackOf32<PanelQ5_0, 5>;
using UnpackQ5_1 = UnpackOf32<PanelQ5_1, 5>;
using UnpackQ8_0 = UnpackOf32<PanelQ8_0, 8>;

template <int Bits, int Columns>
struct UnpackAffine : UnpackUnits<PanelAffine<Bits, Columns>, Bits> {
  using Scales = RowScalesAndOffsets;
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, ScaleType type,
                                           Scales& scales) {
    unpack_floats(block, type, scales.scale);
    unpack_floats(block + UnpackAffine::header_bytes(type) / 2, type, scales.offset);
  }
};

// Byte `byte` of every 32-bit lane, as a 32-bit number.
REPRISE_INLINE Bytes lane_byte(Bytes x, int byte) {
  return shuffle_bytes(x, lane_shuffle(0x80808000u | static_cast<std::uint32_t>(byte)));
}

template <class Layout, int Bits>
struct UnpackPairs : Layout {
  static constexpr int kUnroll = 2;
  static constexpr int kUnitBytes = 2 * 64 * Bits;
  using Scales = SubScalesAndMinimums<8>;
  template <int R, int S>
  static REPRISE_INLINE Bytes weights(const std::uint8_t* pair) {
    return pair_weights<Bits, R * 8 + S, 0>(pair);
  }
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, Scales& scales) {
    unpack_halves(block, scales.scale);
    unpack_halves(block + 32, scales.offset);
    Bytes numbers[4];
    unpack_six_bits(block + Layout::kWordsAt, numbers);
    for (int j = 0; j < 8; j++) store_bytes(scales.sub_scale[j], lane_byte(numbers[j / 4], j % 4));
    for (int i = 0; i < 4; i++) {
      store_bytes(scales.minimum_pair[i],
                  shuffle_bytes(numbers[2 + i / 2], two_bytes(i % 2 * 2, i % 2 * 2 + 1)));
    }
  }
};
using UnpackQ4_K = UnpackPairs<PanelQ4_K, 4>;
using UnpackQ5_K = UnpackPairs<PanelQ5_K, 5>;

struct UnpackQ6_K : UnpackUnits<PanelQ6_K, 6> {
  using Scales = SubScales<16>;
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, Scales& scales) {
    unpack_halves(block, scales.scale);
    for (int word = 0; word < 4; word++) {
      const Bytes x = load_bytes(block + kSubScalesAt + word * 64);
      unroll<4>([&] REPRISE_UNROLLED_512(j) {  // up to the lane's top, then down with the sign
        store_bytes(scales.sub_scale[4 * word + j],
                    _mm512_srai_epi32(_mm512_slli_epi32(x, 24 - 8 * j), 24));
      });
    }
  }
};

struct UnpackQ3_K : UnpackUnits<PanelQ3_K, 3> {
  using Scales = SubScales<16>;
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, Scales& scales) {
    unpack_halves(block, scales.scale);
    Bytes numbers[4];
    unpack_six_bits(block + kWordsAt, numbers);
    for (int j = 0; j < 16; j++) {
      const Bytes number = lane_byte(numbers[j / 4], j % 4);
      store_bytes(scales.sub_scale[j], _mm512_sub_epi32(number, _mm512_set1_epi32(32)));
    }
  }
};

struct UnpackQ2_K : UnpackUnits<PanelQ2_K, 2> {
  using Scales = SubScalesAndMinimums<16>;
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, Scales& scales) {
    unpack_halves(block, scales.scale);
    unpack_halves(block + 32, scales.offset);
    for (int word = 0; word < 4; word++) {
      const Bytes x = load_bytes(block + kSubScalesAt + word * 64);
      const Bytes scale = low_nibbles(x);
      const Bytes minimum = high_nibbles(x);
      for (int j = 0; j < 4; j++) {
        store_bytes(scales.sub_scale[4 * word + j], lane_byte(scale, j));
      }
      for (int i = 0; i < 2; i++) {
        store_bytes(scales.minimum_pair[2 * word + i],
                    shuffle_bytes(minimum, two_bytes(2 * i, 2 * i + 1)));
      }
    }
  }
};

REPRISE_INLINE Bytes iq4_values(Bytes codes) {
  const __m128i values = _mm_load_si128(reinterpret_cast<const __m128i*>(kIq4Bytes.value));
  return shuffle_bytes(repeat16(values), codes);
}
struct UnpackIQ4_NL : UnpackOf32<PanelIQ4_NL, 4> {
  template <int, int S>
  static REPRISE_INLINE Bytes weights(const std::uint8_t* unit) {
    return iq4_values(unit_weights<4, S, 0>(unit));
  }
};
struct UnpackIQ4_XS : UnpackUnits<PanelIQ4_XS, 4> {
  using Scales = SubScales<8>;
  template <int, int S>
  static REPRISE_INLINE Bytes weights(const std::uint8_t* unit) {
    return iq4_values(unit_weights<4, S, 0>(unit));
  }
  static REPRISE_INLINE void unpack_scales(const std::uint8_t* block, Scales& scales) {
    unpack_halves(block, scales.scale);
    const __m512i top = _mm512_cvtepu16_epi32(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + kTopBitsAt)));
    const __m512i low = load_bytes(block + kLowBitsAt);
    unroll<8>([&] REPRISE_UNROLLED_512(sub) {
      const __m512i low4 = and_bits(_mm512_srli_epi32(low, 4 * sub), _mm512_set1_epi32(15));
      const __m512i top2 = _mm512_slli_epi32(_mm512_srli_epi32(top, 2 * sub), 4);
      const __m512i number = or_masked(low4, top2, _mm512_set1_epi32(48));
      store_bytes(scales.sub_scale[sub], _mm512_sub_epi32(number, _mm512_set1_epi32(32)));
    });
  }
};

}  // namespace reprise::kernels::avx512
#pragma GCC pop_options
