// The AVX2 matrix multiplies, one translation unit a weight type (compile time).
#pragma once
#include "kernels/matmul_call.h"

namespace reprise::kernels::avx2 {

#include "kernels/matmul_types.inc"

}  // namespace reprise::kernels::avx2
