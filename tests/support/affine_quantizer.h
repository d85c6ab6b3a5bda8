// MLX's affine quantiser, written from its description for tests: independent of the kernels'.
// tools/goldens/tiny_weights.py is the same in numpy and is compared with MLX's own.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::testing {

struct AffineGroup {
  float scale = 0, bias = 0;  // not rounded to the file's type yet
};

// Quantises one group and appends its integers. The edge of larger magnitude is met exactly, so
// that scales may be negative; integers are found with the unrounded scale.
inline AffineGroup quantize_affine_group(std::span<const float> values, int bits,
                                         std::vector<std::uint8_t>& integers) {
  const auto [low, high] = std::ranges::minmax(values);
  const auto bins = static_cast<float>((1 << bits) - 1);
  const bool low_is_edge = std::fabs(low) > std::fabs(high);
  AffineGroup group;
  group.scale = std::max((high - low) / bins, 1e-7F);
  if (!low_is_edge) group.scale = -group.scale;
  const float edge = low_is_edge ? low : high;
  const float steps = std::rint(edge / group.scale);
  if (steps != 0) group = {edge / steps, edge};
  for (const float value : values) {
    const float step = std::rint((value - group.bias) / group.scale);
    integers.push_back(static_cast<std::uint8_t>(std::clamp(step, 0.0F, bins)));
  }
  return group;
}

// Little-endian bit stream, low bits first; a multiple of 32 values a row fills whole words.
inline std::vector<std::byte> pack_affine(std::span<const std::uint8_t> integers, int bits) {
  std::vector<std::byte> bytes(integers.size() * static_cast<std::size_t>(bits) / 8);
  std::size_t at = 0;  // of a bit
  for (const std::uint8_t integer : integers) {
    for (int bit = 0; bit < bits; bit++, at++) {
      if ((integer >> bit) & 1) bytes[at / 8] |= std::byte{1} << (at % 8);
    }
  }
  return bytes;
}

}  // namespace reprise::testing
