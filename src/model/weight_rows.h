// Rows of stored matrices as floats, and float rows as rows of another type: what loading needs
// when a matrix does not go into the panels as it is.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/weight_type.h"

namespace reprise {

// A matrix as it lies in the files: [rows, columns] of shape.type, back to back; of affine types
// with scales and biases beside it. With `step` it is stored column by column (floats only): step
// elements from one column to the next.
struct StoredMatrix {
  kernels::PanelMatrix shape;  // no panels
  std::span<const std::byte> bytes, scales, biases;
  std::size_t step = 0;

  std::size_t row_bytes() const;
  void read_row(int row, float* out) const;  // out: [columns]
};

// Packs panels [begin, end) of `source` as `target` (same extents; the type may differ, then rows
// are converted: to float32, or quantised).
void pack_stored(const StoredMatrix& source, const kernels::PanelMatrix& target, int begin, int end,
                 std::uint8_t* panels);

// Floats of a stored vector (F32, F16, BF16).
std::vector<float> read_floats(kernels::WeightType type, std::span<const std::byte> bytes);

}  // namespace reprise
