// Small shared vocabulary of the AVX2 matrix kernels: loads, broadcasts, compile-time unrolling.
//
// AVX2 code stands in target regions (pragmas), not behind compiler flags, and calls nothing of
// std:: there: a function that is emitted weakly from such a file could be linked into code that
// must run on a CPU without AVX2. So every header is included before a region begins.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <immintrin.h>
#include <utility>

#include "kernels/inline.h"
#include "kernels/weight_type.h"

// Compilers reassociate integer vector adds (GCC 12 then spills every product of an unrolled dot
// product). Passing an accumulator through REPRISE_PIN after each add keeps it in its register and
// the adds in source order.
#define REPRISE_PIN(v) asm("" : "+x"(v))
// Stops the compiler from moving spills of partial sums into the next unrolled loop.
#define REPRISE_FENCE() asm volatile("" ::: "memory")
// The parameter list of a lambda for unroll().
#define REPRISE_UNROLLED(i) \
  ([[maybe_unused]] auto i) __attribute__((always_inline, target("avx2,fma,f16c")))

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprise::kernels::avx2 {

#include "kernels/unroll.inc"

using Bytes = __m256i;
inline constexpr int kVectorBytes = 32;

REPRISE_INLINE __m256i load_bytes(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
REPRISE_INLINE void store_bytes(void* p, __m256i v) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), v);
}
REPRISE_INLINE Bytes bytes_of(int value) {
  return _mm256_set1_epi8(static_cast<char>(value));
}
REPRISE_INLINE Bytes repeat16(__m128i x) {
  return _mm256_broadcastsi128_si256(x);
}
REPRISE_INLINE Bytes and_bits(Bytes a, Bytes b) {
  return _mm256_and_si256(a, b);
}
// a | (x & mask)
REPRISE_INLINE Bytes or_masked(Bytes a, Bytes x, Bytes mask) {
  return _mm256_or_si256(a, _mm256_and_si256(x, mask));
}
template <int N>
REPRISE_INLINE Bytes shift_left(Bytes x) {
  return _mm256_slli_epi16(x, N);
}
template <int N>
REPRISE_INLINE Bytes shift_right(Bytes x) {
  return _mm256_srli_epi16(x, N);
}
// One group of four bytes to all eight lanes: a pure load.
REPRISE_INLINE __m256i broadcast4(const void* p) {
  std::int32_t x;
  __builtin_memcpy(&x, p, sizeof x);
  return _mm256_set1_epi32(x);
}

// Eight 16-bit floats, side by side, as floats.
REPRISE_INLINE __m256 load_halves(const void* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
REPRISE_INLINE __m256 load_bfloats(const void* p) {
  const __m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}

// The 16 sums of one row and panel to their place; outputs beyond `count` are not the matrix's.
REPRISE_INLINE void store_outputs(const float* sums, float* out, int count) {
  if (count >= kPanelRows) {
    _mm256_storeu_ps(out, _mm256_loadu_ps(sums));
    _mm256_storeu_ps(out + 8, _mm256_loadu_ps(sums + 8));
  } else {
    for (int i = 0; i < count; i++) out[i] = sums[i];
  }
}

}  // namespace reprise::kernels::avx2
#pragma GCC pop_options
