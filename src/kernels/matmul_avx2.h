// The AVX2 matrix multiplies, one translation unit a weight type (compile time).
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/weight_type.h"

namespace reprise::kernels::avx2 {

// One call of the kernel: what all its loops need. out: [rows, out_stride], `outputs` of each
// written.
struct MatmulCall {
  const std::uint8_t* panels;
  const std::uint8_t* activations;
  int outputs;
  int columns;
  int rows;
  float* out;
  std::size_t out_stride;
  int group;             // MLX
  ScaleType scale_type;  // MLX
};

using MultiplyPanels = void(const MatmulCall& call, int panel_begin, int panel_end,
                            std::uint8_t* scratch);

MultiplyPanels multiply_f32, multiply_f16, multiply_bf16;
MultiplyPanels multiply_q4_0, multiply_q4_1, multiply_q5_0, multiply_q5_1, multiply_q8_0;
MultiplyPanels multiply_q2_k, multiply_q3_k, multiply_q4_k, multiply_q5_k, multiply_q6_k;
MultiplyPanels multiply_iq4_nl, multiply_iq4_xs;
MultiplyPanels multiply_mlx2, multiply_mlx3, multiply_mlx4, multiply_mlx5, multiply_mlx6,
    multiply_mlx8;

}  // namespace reprise::kernels::avx2
