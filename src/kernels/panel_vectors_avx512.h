// Small shared vocabulary of the AVX-512 matrix kernels: the names of panel_vectors_avx2.h for
// vectors of 64 bytes. A target region, as there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <immintrin.h>
#include <utility>

#include "kernels/inline.h"
#include "kernels/weight_type.h"

#define REPRISE_AVX512 "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c"
// The parameter list of a lambda for unroll().
#define REPRISE_UNROLLED_512(i) \
  ([[maybe_unused]] auto i) __attribute__((always_inline, target(REPRISE_AVX512)))

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
namespace reprise::kernels::avx512 {

#include "kernels/unroll.inc"

using Bytes = __m512i;
inline constexpr int kVectorBytes = 64;

REPRISE_INLINE Bytes load_bytes(const void* p) {
  return _mm512_loadu_si512(p);
}
REPRISE_INLINE void store_bytes(void* p, Bytes v) {
  _mm512_storeu_si512(p, v);
}
REPRISE_INLINE Bytes bytes_of(int value) {
  return _mm512_set1_epi8(static_cast<char>(value));
}
REPRISE_INLINE Bytes repeat16(__m128i x) {
  return _mm512_broadcast_i32x4(x);
}
REPRISE_INLINE Bytes and_bits(Bytes a, Bytes b) {
  return _mm512_and_si512(a, b);
}
// a | (x & mask)
REPRISE_INLINE Bytes or_masked(Bytes a, Bytes x, Bytes mask) {
  return _mm512_ternarylogic_epi32(a, x, mask, 0xf8);
}
template <int N>
REPRISE_INLINE Bytes shift_left(Bytes x) {
  return _mm512_slli_epi16(x, N);
}
template <int N>
REPRISE_INLINE Bytes shift_right(Bytes x) {
  return _mm512_srli_epi16(x, N);
}
REPRISE_INLINE Bytes shuffle_bytes(Bytes x, Bytes control) {
  return _mm512_shuffle_epi8(x, control);
}

using Four [[gnu::may_alias]] = std::int32_t;

// Group of four bytes to all sixteen lanes: a pure load.
REPRISE_INLINE __m512i broadcast4(const void* p) {
  return _mm512_set1_epi32(*static_cast<const Four*>(p));
}
// sum += the dot products of four unsigned weights and the four signed bytes at `four`, a lane
// each. As text, so that the four bytes are broadcast by the instruction itself (GCC 12 would spend
// a register) and the sums stay where they are, added to in the order written.
REPRISE_INLINE void add_dots(__m512i& sum, __m512i weights, const void* four) {
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum)
      : "v"(weights), "m"(*static_cast<const Four*>(four)));
}
// sum += the sums of the products of two 16-bit pairs, a lane each.
REPRISE_INLINE void add_pairs(__m512i& sum, __m512i pairs, const void* pair) {
  asm("vpdpwssd %2%{1to16%}, %1, %0"
      : "+v"(sum)
      : "v"(pairs), "m"(*static_cast<const Four*>(pair)));
}

// Sixteen 16-bit floats, side by side, as floats.
REPRISE_INLINE __m512 load_halves(const void* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
REPRISE_INLINE __m512 load_bfloats(const void* p) {
  const __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}

// The 16 sums of one row and panel to their place; outputs beyond `count` are not the matrix's.
REPRISE_INLINE void store_outputs(__m512 sums, float* out, int count) {
  if (count >= kPanelRows) {
    _mm512_storeu_ps(out, sums);
  } else {
    _mm512_mask_storeu_ps(out, static_cast<__mmask16>((1u << count) - 1), sums);
  }
}

}  // namespace reprise::kernels::avx512
#pragma GCC pop_options
