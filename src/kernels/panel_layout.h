// What the panels of all weight types have in common, and the little that packing them needs.
//
// A panel stores 16 output rows, block after block along k; a block covers kBlock values of k (the
// file format's own block): first all 16 rows' scales, then the weights. The unit of arithmetic is
// the step: four consecutive k of 16 rows = 64 bytes [row][4]. So one multiply of a vector with a
// broadcast of four activations serves 8 rows, and no sum ever crosses lanes. High bits come before
// nibbles, so that a block is touched in ascending order: behind them reading from memory was a
// quarter slower.
//
// A layout is a struct of constants and static functions, plain C++ without vector instructions:
//   kType, kBlock, kFileBytes, kPanelBytes   a row's block in the file, 16 rows' in a panel
//   pack_row(file, row, block)               a row's file block to its places, lossless
//   weight(block, row, i)                    the weight as the file format defines it
// and, for the integer types, what the scalar matmul (the specification) works from:
//   kFinish, kZero, kSubColumns, scale(), offset(), quant(), sub_scale(), sub_minimum()
// MLX layouts (panel_affine.h) also hold the type of their scales, so theirs are not all static.
#pragma once
#include <cstdint>
#include <cstring>

#include "kernels/math.h"
#include "kernels/weight_type.h"

namespace reprise::kernels {

// How a block's exact integer sums become a float addition, in this order (a: activations):
enum class Finish : std::uint8_t {
  scale,    // acc = fma(isum, d * scale(a), acc)
  bias,     // acc = fma(m, sum(a), acc), then as `scale`
  minimum,  // acc = fma(-msum, dmin * scale(a), acc), then as `scale`
};

inline std::uint16_t read_u16(const std::uint8_t* p) {
  std::uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
inline std::uint32_t read_u32(const std::uint8_t* p) {
  std::uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Byte of (row, k) within consecutive steps.
constexpr int step_byte(int row, int k) {
  return (k / 4) * 64 + row * 4 + k % 4;
}

// Two-byte floats of the 16 rows stand side by side, `at` bytes into a block.
inline float read_half(const std::uint8_t* block, int at, int row) {
  return half_to_float(read_u16(block + at + 2 * row));
}
inline void put_half(std::uint8_t* block, int at, int row, const std::uint8_t* file) {
  std::memcpy(block + at + 2 * row, file, 2);
}

}  // namespace reprise::kernels
