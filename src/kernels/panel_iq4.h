// Panels of IQ4_NL and IQ4_XS: four-bit codes of sixteen uneven values. Source of the file blocks
// and of the values: ggml's block_iq4_nl, block_iq4_xs, kvalues_iq4nl.
#pragma once
#include "kernels/panel_q32.h"

namespace reprise::kernels {

// A code's value; with kIq4Zero added it is an unsigned byte.
inline constexpr int kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr int kIq4Zero = 128;

// x = d * value. Panel block: 16 x f16 d, 256 bytes of codes (4 steps).
struct PanelIQ4_NL : PanelOf32<WeightType::iq4_nl, kIq4Zero, Finish::scale> {
  static constexpr int kNibblesAt = kWeightsAt;
  static constexpr int kPanelBytes = kNibblesAt + 256;
  static constexpr int kFileBytes = kPanelBytes / kPanelRows;

  static int quant(const std::uint8_t* block, int row, int k) {
    return kIq4Values[nibble(block + kNibblesAt, row, k)] + kIq4Zero;
  }
  static float weight(const std::uint8_t* block, int row, int k) {
    return weight_of(block, row, quant(block, row, k));
  }
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    put_scales(block, row, file);
    put_nibbles(block + kNibblesAt, row, file + 2);
  }
};

// x = d * (sc - 32) * value, sc six bits per 32 columns. [16 x f16 d][16 x u16 top bits of sc: bits
// 2i, 2i + 1 are sub-block i's][16 x u32 low bits: bits 4i .. 4i + 3][8][4 steps] codes.
struct PanelIQ4_XS {
  static constexpr WeightType kType = WeightType::iq4_xs;
  static constexpr Finish kFinish = Finish::scale;
  static constexpr int kZero = kIq4Zero;
  static constexpr int kBlock = 256;
  static constexpr int kSubColumns = 32;
  static constexpr int kTopBitsAt = 32;
  static constexpr int kLowBitsAt = 64;
  static constexpr int kWeightsAt = 128;
  static constexpr int kPanelBytes = kWeightsAt + 8 * 256;
  static constexpr int kFileBytes = kPanelBytes / kPanelRows;

  static float scale(const std::uint8_t* block, int row) { return read_half(block, 0, row); }
  static float offset(const std::uint8_t*, int) { return 0.0f; }
  static int sub_scale(const std::uint8_t* block, int row, int sub) {
    const int top = read_u16(block + kTopBitsAt + 2 * row) >> (2 * sub) & 3;
    const int low = static_cast<int>(read_u32(block + kLowBitsAt + 4 * row) >> (4 * sub) & 15);
    return (low | top << 4) - 32;
  }
  static int sub_minimum(const std::uint8_t*, int, int) { return 0; }
  static int quant(const std::uint8_t* block, int row, int k) {
    const std::uint8_t* codes = block + kWeightsAt + k / 32 * 256;
    const int code = codes[step_byte(row, k % 16)] >> (k % 32 / 16 * 4) & 15;
    return kIq4Values[code] + kIq4Zero;
  }
  static float weight(const std::uint8_t* block, int row, int k) {
    const float d = scale(block, row) * static_cast<float>(sub_scale(block, row, k / 32));
    return d * static_cast<float>(quant(block, row, k) - kZero);
  }
  // File: d, u16 top bits, 4 bytes of low bits, 128 bytes of codes (16 a sub-block).
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    put_half(block, 0, row, file);
    put_half(block, kTopBitsAt, row, file + 2);
    std::memcpy(block + kLowBitsAt + 4 * row, file + 4, 4);
    for (int k = 0; k < 128; k++) {
      block[kWeightsAt + k / 16 * 256 + step_byte(row, k % 16)] = file[8 + k];
    }
  }
};

static_assert(PanelIQ4_NL::kFileBytes == 18 && PanelIQ4_XS::kFileBytes == 136);

}  // namespace reprise::kernels
