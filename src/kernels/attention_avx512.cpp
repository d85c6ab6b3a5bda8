// The attention and the KV store for AVX-512. Everything else is included before the
// target region, so that no function of another file is compiled for it.
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12: its own _mm512_undefined_ps()
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <immintrin.h>

#include "kernels/attention.h"
#include "kernels/elementary_constants.h"
#include "kernels/inline.h"

namespace reprise::kernels::avx512 {
// 24 of 32 registers hold sums.
inline constexpr int kQueryRows = 6;
inline constexpr int kTileSums = 24;
}  // namespace reprise::kernels::avx512

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")
#define REPRISE_ISA avx512
// clang-format off: each file builds on the ones before it
#include "kernels/f32x16_avx512.h"
#include "kernels/elementary.inc"
#include "kernels/attention.inc"
// clang-format on
#pragma GCC pop_options
