// The attention and the KV store for AVX2, FMA and F16C. Everything else is included before the
// target region, so that no function of another file is compiled for it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <immintrin.h>

#include "kernels/attention.h"
#include "kernels/elementary_constants.h"
#include "kernels/inline.h"

namespace reprise::kernels::avx2 {
// 12 of 16 registers hold sums, two a column.
inline constexpr int kQueryRows = 6;
inline constexpr int kTileSums = 6;
}  // namespace reprise::kernels::avx2

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#define REPRISE_ISA avx2
// clang-format off: each file builds on the ones before it
#include "kernels/float8_avx2.h"
#include "kernels/elementary.inc"
#include "kernels/f32x16_pair.inc"
#include "kernels/attention.inc"
// clang-format on
#pragma GCC pop_options
