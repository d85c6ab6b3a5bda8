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
    case WeightType::q2_k:
      return multiply_q2_k;
    case WeightType::q3_k:
      return multiply_q3_k;
    case WeightType::iq4_nl:
      return multiply_iq4_nl;
    case WeightType::iq4_xs:
      return multiply_iq4_xs;
    case WeightType::mlx2:
      return multiply_mlx2;
    case WeightType::mlx3:
      return multiply_mlx3;
    case WeightType::mlx4:
      return multiply_mlx4;
    case WeightType::mlx5:
      return multiply_mlx5;
    case WeightType::mlx6:
      return multiply_mlx6;
    case WeightType::mlx8:
      return multiply_mlx8;
  }
  return nullptr;
}

}  // namespace

void matmul(const PanelMatrix& weights, const std::uint8_t* activations, int rows, int panel_begin,
            int panel_end, float* out, std::size_t out_stride, std::uint8_t* scratch) {
  MultiplyPanels* multiply = multiply_of(weights.type);
  CHECK(multiply != nullptr);
  CHECK(!is_affine(weights.type) || weights.group == 32 || weights.group == 64 ||
        weights.group == 128);
  const MatmulCall call = {.panels = weights.panels,
                           .activations = activations,
                           .outputs = weights.rows,
                           .columns = weights.columns,
                           .rows = rows,
                           .out = out,
                           .out_stride = out_stride,
                           .group = weights.group,
                           .scale_type = weights.scale_type};
  multiply(call, panel_begin, panel_end, scratch);
}

}  // namespace reprise::kernels::avx2
