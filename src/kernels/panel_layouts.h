// All panel layouts, and the one switch from a weight type to its layout.
#pragma once
#include "base/check.h"
#include "kernels/panel_affine.h"
#include "kernels/panel_float.h"
#include "kernels/panel_iq4.h"
#include "kernels/panel_k.h"
#include "kernels/panel_k_low.h"
#include "kernels/panel_q32.h"

namespace reprise::kernels {

// Calls visit(layout), a value of the type's (empty) layout struct; any type but MLX.
template <class Visit>
auto with_layout(WeightType type, Visit&& visit) {
  switch (type) {
    case WeightType::f32:
      return visit(PanelF32{});
    case WeightType::f16:
      return visit(PanelF16{});
    case WeightType::bf16:
      return visit(PanelBF16{});
    case WeightType::q4_0:
      return visit(PanelQ4_0{});
    case WeightType::q4_1:
      return visit(PanelQ4_1{});
    case WeightType::q5_0:
      return visit(PanelQ5_0{});
    case WeightType::q5_1:
      return visit(PanelQ5_1{});
    case WeightType::q8_0:
      return visit(PanelQ8_0{});
    case WeightType::q4_k:
      return visit(PanelQ4_K{});
    case WeightType::q5_k:
      return visit(PanelQ5_K{});
    case WeightType::q6_k:
      return visit(PanelQ6_K{});
    case WeightType::q2_k:
      return visit(PanelQ2_K{});
    case WeightType::q3_k:
      return visit(PanelQ3_K{});
    case WeightType::iq4_nl:
      return visit(PanelIQ4_NL{});
    default:
      CHECK(type == WeightType::iq4_xs);
      return visit(PanelIQ4_XS{});
  }
}

// The same for every type.
template <class Visit>
auto with_matrix_layout(const PanelMatrix& matrix, Visit&& visit) {
  if (is_affine(matrix.type)) return with_affine_layout(matrix, visit);
  return with_layout(matrix.type, visit);
}

// Bytes of one block of a panel.
template <class Layout>
std::size_t block_bytes(const Layout& layout) {
  if constexpr (requires { layout.scale_type; }) {
    return static_cast<std::size_t>(Layout::block_bytes(layout.scale_type));
  } else {
    return static_cast<std::size_t>(Layout::kPanelBytes);
  }
}

}  // namespace reprise::kernels
