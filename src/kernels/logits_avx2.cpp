// The kernels over logits for AVX2, FMA and F16C. Everything else is included before the
// target region, so that no function of another file is compiled for it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <immintrin.h>

#include "kernels/inline.h"
#include "kernels/logits.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#define REPRISE_ISA avx2
// clang-format off: each file builds on the ones before it
#include "kernels/float8_avx2.h"
#include "kernels/logits.inc"
// clang-format on
#pragma GCC pop_options
