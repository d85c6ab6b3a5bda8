// The AVX-512 matrix multiply of every weight type.
#include "kernels/matmul_avx512.h"

#include "base/check.h"
#include "kernels/matmul.h"

namespace reprise::kernels::avx512 {

#include "kernels/matmul_dispatch.inc"

}  // namespace reprise::kernels::avx512
