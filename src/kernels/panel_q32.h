// Panels of the weight types with one half scale (and perhaps one half offset) per 32 columns:
// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. Source of the file blocks: ggml's block_q4_0 .. block_q8_0.
#pragma once
#include "kernels/panel_layout.h"

namespace reprise::kernels {

// [16 x f16 d] and, with an offset, [16 x f16 m]; then the weights. x = d * (q - kZero) (+ m).
template <WeightType Type, int Zero, Finish Kind>
struct PanelOf32 {
  static constexpr WeightType kType = Type;
  static constexpr Finish kFinish = Kind;
  static constexpr int kZero = Zero;
  static constexpr int kBlock = 32;
  static constexpr int kSubColumns = 32;
  static constexpr int kWeightsAt = Kind == Finish::bias ? 64 : 32;

  static float scale(const std::uint8_t* block, int row) { return read_half(block, 0, row); }
  static float offset(const std::uint8_t* block, int row) {
    return Kind == Finish::bias ? read_half(block, 32, row) : 0.0f;
  }
  static int sub_scale(const std::uint8_t*, int, int) { return 1; }
  static int sub_minimum(const std::uint8_t*, int, int) { return 0; }

 protected:
  static void put_scales(std::uint8_t* block, int row, const std::uint8_t* file) {
    put_half(block, 0, row, file);
    if (Kind == Finish::bias) put_half(block, 32, row, file + 2);
  }
  static float weight_of(const std::uint8_t* block, int row, int quant) {
    const float x = scale(block, row) * static_cast<float>(quant - Zero);
    return Kind == Finish::bias ? x + offset(block, row) : x;
  }
  // Low nibbles are k = 0..15, high nibbles k = 16..31, in the file and here.
  static int nibble(const std::uint8_t* nibbles, int row, int k) {
    return (nibbles[step_byte(row, k % 16)] >> (k / 16 * 4)) & 15;
  }
  static void put_nibbles(std::uint8_t* nibbles, int row, const std::uint8_t* file) {
    for (int k = 0; k < 16; k++) nibbles[step_byte(row, k)] = file[k];
  }
};

// Panel block: scales, 256 bytes of nibbles (4 steps).
template <WeightType Type, int Zero, Finish Kind>
struct PanelOf4Bits : PanelOf32<Type, Zero, Kind> {
  using Base = PanelOf32<Type, Zero, Kind>;
  static constexpr int kNibblesAt = Base::kWeightsAt;
  static constexpr int kPanelBytes = kNibblesAt + 256;
  static constexpr int kFileBytes = kPanelBytes / kPanelRows;

  static int quant(const std::uint8_t* block, int row, int k) {
    return Base::nibble(block + kNibblesAt, row, k);
  }
  static float weight(const std::uint8_t* block, int row, int k) {
    return Base::weight_of(block, row, quant(block, row, k));
  }
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    Base::put_scales(block, row, file);
    Base::put_nibbles(block + kNibblesAt, row, file + kFileBytes - 16);
  }
};

// Panel block: scales, 64 bytes of fifth bits (bit s of byte [row][i] is that of k = 4s + i),
// nibbles.
template <WeightType Type, int Zero, Finish Kind>
struct PanelOf5Bits : PanelOf32<Type, Zero, Kind> {
  using Base = PanelOf32<Type, Zero, Kind>;
  static constexpr int kHighAt = Base::kWeightsAt;
  static constexpr int kNibblesAt = kHighAt + 64;
  static constexpr int kPanelBytes = kNibblesAt + 256;
  static constexpr int kFileBytes = kPanelBytes / kPanelRows;

  static int quant(const std::uint8_t* block, int row, int k) {
    const int high = (block[kHighAt + row * 4 + k % 4] >> (k / 4)) & 1;
    return Base::nibble(block + kNibblesAt, row, k) | high << 4;
  }
  static float weight(const std::uint8_t* block, int row, int k) {
    return Base::weight_of(block, row, quant(block, row, k));
  }
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    Base::put_scales(block, row, file);
    const std::uint32_t high = read_u32(file + kFileBytes - 20);
    std::uint8_t* bits = block + kHighAt + row * 4;
    std::memset(bits, 0, 4);
    for (int k = 0; k < 32; k++) {
      bits[k % 4] = static_cast<std::uint8_t>(bits[k % 4] | ((high >> k) & 1) << (k / 4));
    }
    Base::put_nibbles(block + kNibblesAt, row, file + kFileBytes - 16);
  }
};

using PanelQ4_0 = PanelOf4Bits<WeightType::q4_0, 8, Finish::scale>;
using PanelQ4_1 = PanelOf4Bits<WeightType::q4_1, 0, Finish::bias>;
using PanelQ5_0 = PanelOf5Bits<WeightType::q5_0, 16, Finish::scale>;
using PanelQ5_1 = PanelOf5Bits<WeightType::q5_1, 0, Finish::bias>;

// Panel block: scales, 512 bytes of q + 128 (8 steps).
struct PanelQ8_0 : PanelOf32<WeightType::q8_0, 128, Finish::scale> {
  static constexpr int kPanelBytes = kWeightsAt + 512;
  static constexpr int kFileBytes = kPanelBytes / kPanelRows;

  static int quant(const std::uint8_t* block, int row, int k) {
    return block[kWeightsAt + step_byte(row, k)];
  }
  static float weight(const std::uint8_t* block, int row, int k) {
    return weight_of(block, row, quant(block, row, k));
  }
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    put_scales(block, row, file);
    for (int k = 0; k < 32; k++) block[kWeightsAt + step_byte(row, k)] = file[2 + k] ^ 0x80;
  }
};

static_assert(PanelQ4_0::kFileBytes == 18 && PanelQ4_1::kFileBytes == 20);
static_assert(PanelQ5_0::kFileBytes == 22 && PanelQ5_1::kFileBytes == 24);
static_assert(PanelQ8_0::kFileBytes == 34);

}  // namespace reprise::kernels
