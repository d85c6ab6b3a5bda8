// The AVX2 matrix multiplies, one translation unit a weight type (compile time).
#pragma once
#include "kernels/matmul_call.h"

namespace reprise::kernels::avx2 {

MultiplyPanels multiply_f32, multiply_f16, multiply_bf16;
MultiplyPanels multiply_q4_0, multiply_q4_1, multiply_q5_0, multiply_q5_1, multiply_q8_0;
MultiplyPanels multiply_q2_k, multiply_q3_k, multiply_q4_k, multiply_q5_k, multiply_q6_k;
MultiplyPanels multiply_iq4_nl, multiply_iq4_xs;
MultiplyPanels multiply_mlx2, multiply_mlx3, multiply_mlx4, multiply_mlx5, multiply_mlx6,
    multiply_mlx8;

}  // namespace reprise::kernels::avx2
