// The AVX2 matrix multiply of every weight type.
#include "kernels/matmul_avx2.h"

#include "base/check.h"
#include "kernels/matmul.h"

namespace reprise::kernels::avx2 {

#include "kernels/matmul_dispatch.inc"

}  // namespace reprise::kernels::avx2
