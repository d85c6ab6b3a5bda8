// The AVX2 matrix multiplies, one translation unit a weight type (compile time).
#pragma once
#include <cstddef>
#include <cstdint>

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
};

using MultiplyPanels = void(const MatmulCall& call, int panel_begin, int panel_end,
                            std::uint8_t* scratch);

MultiplyPanels multiply_f32, multiply_f16, multiply_bf16;
MultiplyPanels multiply_q4_0, multiply_q4_1, multiply_q5_0, multiply_q5_1, multiply_q8_0;
MultiplyPanels multiply_q4_k, multiply_q5_k, multiply_q6_k;

}  // namespace reprise::kernels::avx2
