// Panels of the float weight types F32, F16, BF16: [columns][16 rows].
#pragma once
#include "kernels/panel_layout.h"

namespace reprise::kernels {

template <WeightType Type>
struct PanelOfFloats {
  static constexpr WeightType kType = Type;
  static constexpr int kBlock = 1;
  static constexpr int kFileBytes = Type == WeightType::f32 ? 4 : 2;
  static constexpr int kPanelBytes = kFileBytes * kPanelRows;

  static float weight(const std::uint8_t* block, int row, int) {
    if constexpr (Type == WeightType::f32) {
      float value;
      std::memcpy(&value, block + 4 * row, sizeof value);
      return value;
    } else if constexpr (Type == WeightType::f16) {
      return half_to_float(read_u16(block + 2 * row));
    } else {
      return bfloat_to_float(read_u16(block + 2 * row));
    }
  }
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    std::memcpy(block + row * kFileBytes, file, kFileBytes);
  }
};

using PanelF32 = PanelOfFloats<WeightType::f32>;
using PanelF16 = PanelOfFloats<WeightType::f16>;
using PanelBF16 = PanelOfFloats<WeightType::bf16>;

}  // namespace reprise::kernels
