// All panel layouts, and the one switch from a weight type to its layout.
#pragma once
#include "base/check.h"
#include "kernels/panel_float.h"
#include "kernels/panel_k.h"
#include "kernels/panel_q32.h"

namespace reprise::kernels {

// Calls visit(layout), a value of the type's (empty) layout struct.
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
      break;
  }
  CHECK(type == WeightType::q6_k);
  return visit(PanelQ6_K{});
}

}  // namespace reprise::kernels
