// The AVX2 matrix multiply: from the weight type to its translation unit. Plain code, no target
// region.
#include "kernels/matmul_avx2.h"

#include "base/check.h"
#include "kernels/matmul.h"

namespace reprise::kernels::avx2 {

namespace {

MultiplyPanels* multiply_of(WeightType type) {
  switch (type) {
    case WeightType::f32:
      return multiply_f32;
    case WeightType::f16:
      return multiply_f16;
    case WeightType::bf16:
      return multiply_bf16;
    case WeightType::q4_0:
      return multiply_q4_0;
    case WeightType::q4_1:
      return multiply_q4_1;
    case WeightType::q5_0:
      return multiply_q5_0;
    case WeightType::q5_1:
      return multiply_q5_1;
    case WeightType::q8_0:
      return multiply_q8_0;
    case WeightType::q4_k:
      return multiply_q4_k;
    case WeightType::q5_k:
      return multiply_q5_k;
    case WeightType::q6_k:
      return multiply_q6_k;
  }
  return nullptr;
}

}  // namespace

void matmul(const PanelMatrix& weights, const std::uint8_t* activations, int rows, int panel_begin,
            int panel_end, float* out, std::size_t out_stride, std::uint8_t* scratch) {
  MultiplyPanels* multiply = multiply_of(weights.type);
  CHECK(multiply != nullptr);
  const MatmulCall call = {weights.panels, activations, weights.rows, weights.columns,
                           rows,           out,         out_stride};
  multiply(call, panel_begin, panel_end, scratch);
}

}  // namespace reprise::kernels::avx2
