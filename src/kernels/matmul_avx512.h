// The AVX-512 matrix multiplies, one translation unit a weight type (compile time).
#pragma once
#include "kernels/matmul_call.h"

namespace reprise::kernels::avx512 {

#include "kernels/matmul_types.inc"

}  // namespace reprise::kernels::avx512
