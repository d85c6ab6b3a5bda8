// Panels of the MLX affine types: x = scale * q + bias, one scale and one bias per group of
// columns. Source: MLX's affine quantization (mlx.core.quantize).
#pragma once
#include "base/check.h"
#include "kernels/panel_unit.h"

namespace reprise::kernels {

inline float read_scale(ScaleType type, const std::uint8_t* scales, int row) {
  switch (type) {
    case ScaleType::f16:
      return half_to_float(read_u16(scales + 2 * row));
    case ScaleType::bf16:
      return bfloat_to_float(read_u16(scales + 2 * row));
    case ScaleType::f32:
      break;
  }
  float scale;
  std::memcpy(&scale, scales + 4 * row, sizeof scale);
  return scale;
}

// One group of columns: [16 scales][16 biases], in the file's type, then its units of 32 columns.
template <int Bits, int Group>
struct PanelAffine {
  using Unit = PanelUnit<Bits>;
  static constexpr Finish kFinish = Finish::bias;
  static constexpr int kZero = 0;
  static constexpr int kBlock = Group;
  static constexpr int kSubColumns = Group;
  static constexpr int kUnits = Group / 32;
  static constexpr int kFileBytes = Group * Bits / 8;  // of one row's integers

  static constexpr int header_bytes(ScaleType type) { return 2 * kPanelRows * scale_bytes(type); }
  static constexpr int block_bytes(ScaleType type) {
    return header_bytes(type) + kUnits * Unit::kBytes;
  }

  ScaleType scale_type = ScaleType::f16;

  float scale(const std::uint8_t* block, int row) const {
    return read_scale(scale_type, block, row);
  }
  float offset(const std::uint8_t* block, int row) const {
    return read_scale(scale_type, block + header_bytes(scale_type) / 2, row);
  }
  int sub_scale(const std::uint8_t*, int, int) const { return 1; }
  int sub_minimum(const std::uint8_t*, int, int) const { return 0; }
  int quant(const std::uint8_t* block, int row, int k) const {
    return Unit::quant(block + header_bytes(scale_type) + k / 32 * Unit::kBytes, row, k % 32);
  }
  float weight(const std::uint8_t* block, int row, int k) const {
    const float product = scale(block, row) * static_cast<float>(quant(block, row, k));
    return product + offset(block, row);
  }

  // `quants`: the group's integers, a stream of bits, low bits first; `scale`, `bias`: one value.
  void pack_row(const std::uint8_t* quants, const std::byte* scale_from, const std::byte* bias_from,
                int row, std::uint8_t* block) const {
    const std::size_t size = static_cast<std::size_t>(scale_bytes(scale_type));
    const int header = header_bytes(scale_type);
    std::memcpy(block + static_cast<std::size_t>(row) * size, scale_from, size);
    std::memcpy(block + header / 2 + static_cast<std::size_t>(row) * size, bias_from, size);
    for (int unit = 0; unit < kUnits; unit++) {
      std::uint8_t q[32];
      for (int k = 0; k < 32; k += 8, quants += Bits) {  // eight integers are `Bits` bytes
        std::uint64_t stream = 0;
        std::memcpy(&stream, quants, Bits);
        for (int i = 0; i < 8; i++) {
          q[k + i] = static_cast<std::uint8_t>(stream >> (Bits * i) & ((1u << Bits) - 1));
        }
      }
      Unit::put_row(block + header + unit * Unit::kBytes, row, q);
    }
  }
};

static_assert(PanelAffine<4, 64>::block_bytes(ScaleType::bf16) == kPanelRows * (32 + 2 + 2));
static_assert(PanelAffine<3, 32>::block_bytes(ScaleType::f32) == kPanelRows * (12 + 4 + 4));

// Calls visit(PanelAffine<bits, group>{scale_type}).
template <int Bits, class Visit>
auto with_affine_group(int group, ScaleType scale_type, Visit&& visit) {
  if (group == 32) return visit(PanelAffine<Bits, 32>{scale_type});
  if (group == 64) return visit(PanelAffine<Bits, 64>{scale_type});
  CHECK(group == 128);
  return visit(PanelAffine<Bits, 128>{scale_type});
}
template <class Visit>
auto with_affine_layout(const PanelMatrix& shape, Visit&& visit) {
  switch (shape.type) {
    case WeightType::mlx2:
      return with_affine_group<2>(shape.group, shape.scale_type, visit);
    case WeightType::mlx3:
      return with_affine_group<3>(shape.group, shape.scale_type, visit);
    case WeightType::mlx4:
      return with_affine_group<4>(shape.group, shape.scale_type, visit);
    case WeightType::mlx5:
      return with_affine_group<5>(shape.group, shape.scale_type, visit);
    case WeightType::mlx6:
      return with_affine_group<6>(shape.group, shape.scale_type, visit);
    default:
      CHECK(shape.type == WeightType::mlx8);
      return with_affine_group<8>(shape.group, shape.scale_type, visit);
  }
}

}  // namespace reprise::kernels
