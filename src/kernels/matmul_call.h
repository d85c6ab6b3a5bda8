// What the vector ISAs' matrix multiplies are called with, one function a weight type.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/weight_type.h"

namespace reprise::kernels {

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

}  // namespace reprise::kernels
