// Activations as int8, in tiles of up to four rows, ready to be broadcast against weight panels.
//
// A tile holds `Rows` rows (4; the last tile of a batch the 1..4 left over, so one row alone stays
// contiguous). Along k it is a sequence of groups; a group of four rows is four groups of one row,
// interleaved in units of four bytes. value = scale * q (* factor of its 32 columns, group 256).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/weight_type.h"

namespace reprise::kernels {

// One scale per 32 alone would do for every type; but the K-quants' integer scales allow exact sums
// over 256 columns. One scale per 256 alone would lose accuracy where a few values dominate, hence
// the integer factors 1..8, which multiply the weights' integer scales.

// Groups of 64 and 128 (MLX): weights without a zero point need no other sums.
template <int Columns, int Rows>
struct ActivationGroup {
  std::int8_t q[Columns / 4][Rows][4];
  float scale[Rows];
  float sum[Rows];  // scale * (sum of q)
};

template <int Rows>
struct ActivationGroup<32, Rows> {
  std::int8_t q[8][Rows][4];
  float scale[Rows];
  float sum[Rows];  // scale * (sum of q)
  // Minus the sums of q at k % 4 in {0, 1} and {2, 3}. Shifted left by log2(zero point) it is where
  // the 16-bit sums of products with unsigned weights start, lane for lane.
  std::int16_t minus_sum[1][Rows][2];
};

template <int Rows>
struct ActivationGroup<256, Rows> {
  std::int8_t q[64][Rows][4];
  float scale[Rows];
  std::int16_t minus_sum[16][Rows][2];  // as above, per 16 columns
  std::int16_t factor[8][Rows][2];      // per 32 columns, twice
  std::int16_t sum32[4][Rows][2];       // factor * (sum of q) of the 32 columns 2i and 2i + 1
};

static_assert(sizeof(ActivationGroup<32, 4>) == 4 * sizeof(ActivationGroup<32, 1>));
static_assert(sizeof(ActivationGroup<256, 4>) == 4 * sizeof(ActivationGroup<256, 1>));
static_assert(sizeof(ActivationGroup<64, 4>) == 4 * sizeof(ActivationGroup<64, 1>));
static_assert(sizeof(ActivationGroup<32, 1>) == 44 && sizeof(ActivationGroup<256, 1>) == 372);

constexpr int tile_count(int rows) {
  return (rows + kTileRows - 1) / kTileRows;
}
constexpr int tile_rows(int rows, int tile) {
  return rows - tile * kTileRows < kTileRows ? rows - tile * kTileRows : kTileRows;
}
// Bytes before a tile.
template <int Columns>
constexpr std::size_t tile_offset(int tile, int columns) {
  return static_cast<std::size_t>(tile) * kTileRows * static_cast<std::size_t>(columns / Columns) *
         sizeof(ActivationGroup<Columns, 1>);
}

// A tile of float activations: the rows as they are, back to back.
inline void copy_tile(const float* x, std::size_t x_stride, int rows, int columns, int tile,
                      std::uint8_t* out) {
  const std::size_t row_bytes = static_cast<std::size_t>(columns) * sizeof(float);
  for (int i = 0; i < tile_rows(rows, tile); i++) {
    const std::size_t row = static_cast<std::size_t>(tile * kTileRows + i);
    std::memcpy(out + row * row_bytes, x + row * x_stride, row_bytes);
  }
}

// One row's group out of, and into, place `row` of a group of `rows` rows at `group`.
template <int Columns>
void take_row(const std::uint8_t* group, int rows, int row, ActivationGroup<Columns, 1>& one) {
  std::uint8_t* to = reinterpret_cast<std::uint8_t*>(&one);
  for (int i = 0; i < static_cast<int>(sizeof one) / 4; i++) {
    std::memcpy(to + 4 * i, group + 4 * (i * rows + row), 4);
  }
}
template <int Columns>
void put_row(const ActivationGroup<Columns, 1>& one, std::uint8_t* group, int rows, int row) {
  const std::uint8_t* from = reinterpret_cast<const std::uint8_t*>(&one);
  for (int i = 0; i < static_cast<int>(sizeof one) / 4; i++) {
    std::memcpy(group + 4 * (i * rows + row), from + 4 * i, 4);
  }
}

// A group whose values are not all finite has q = 0 and scale NaN: the row's outputs become NaN.
inline bool is_finite_bits(std::uint32_t absolute_bits) {
  return absolute_bits < 0x7f800000u;
}
template <int Columns>
void set_not_finite(ActivationGroup<Columns, 1>& group) {
  std::memset(&group, 0, sizeof group);
  group.scale[0] = group.sum[0] = __builtin_nanf("");
}
inline void set_not_finite(ActivationGroup<256, 1>& group) {
  std::memset(&group, 0, sizeof group);
  group.scale[0] = __builtin_nanf("");
}

// Groups whose largest magnitude is below this become zeros (127 / largest would overflow).
inline constexpr float kTiniestActivation = 1e-30f;
inline constexpr float kActivationMax = 127.0f;

// Groups 32, 64 and 128: value = scale * q, q = round(value * inverse).
inline float scale_of(float largest) {
  return largest * (1.0f / kActivationMax);
}
inline float inverse_of(float largest) {
  return largest > kTiniestActivation ? kActivationMax / largest : 0.0f;
}

// Group 256: factor = 8 * largest32 / largest rounded up, so that 127 * factor * scale covers the
// 32.
inline float scale_256(float largest) {
  return largest * (1.0f / (kActivationMax * 8));
}
inline float units_256(float largest) {
  return largest > kTiniestActivation ? 8.0f / largest : 0.0f;
}
inline int factor_256(float largest32, float units) {
  // largest32 * units is in [0, 8.000001]; adding just under 1 and truncating rounds it up.
  const int factor = static_cast<int>(largest32 * units + 0.999999f);
  return factor < 1 ? 1 : factor > 8 ? 8 : factor;
}
inline float inverse_256(float units, int factor) {
  return kActivationMax * units / static_cast<float>(factor);
}

}  // namespace reprise::kernels
