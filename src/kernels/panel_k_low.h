// Panels of Q2_K and Q3_K: blocks of 256 columns with an integer scale per 16 columns, the weights
// in eight units (panel_unit.h). Source of the file blocks: ggml's block_q2_K, block_q3_K.
#pragma once
#include "kernels/panel_k.h"
#include "kernels/panel_unit.h"

namespace reprise::kernels {

// Both keep column k's two low bits in byte k / 128 * 32 + k % 32 of `file`, bits 2 (k / 32 % 4).
inline std::uint8_t file_low_bits(const std::uint8_t* file, int unit, int k) {
  return file[unit / 4 * 32 + k] >> (unit % 4 * 2) & 3;
}

// x = d * sc * q - dmin * mn, sc and mn four bits per 16 columns. [16 x f16 d][16 x f16 dmin]
// [4][16 rows] 4 x u8: sc in the low nibble, mn in the high; then the units.
struct PanelQ2_K {
  static constexpr WeightType kType = WeightType::q2_k;
  static constexpr Finish kFinish = Finish::minimum;
  static constexpr int kZero = 0;
  static constexpr int kBlock = 256;
  static constexpr int kSubColumns = 16;
  static constexpr int kSubScalesAt = 64;
  static constexpr int kWeightsAt = kSubScalesAt + 4 * 64;
  static constexpr int kPanelBytes = kWeightsAt + 8 * PanelUnit<2>::kBytes;
  static constexpr int kFileBytes = kPanelBytes / kPanelRows;

  static float scale(const std::uint8_t* block, int row) { return read_half(block, 0, row); }
  static float offset(const std::uint8_t* block, int row) { return read_half(block, 32, row); }
  static int sub_scale(const std::uint8_t* block, int row, int sub) {
    return block[sub_scale_byte(row, sub)] & 15;
  }
  static int sub_minimum(const std::uint8_t* block, int row, int sub) {
    return block[sub_scale_byte(row, sub)] >> 4;
  }
  static int quant(const std::uint8_t* block, int row, int k) {
    return PanelUnit<2>::quant(block + kWeightsAt + k / 32 * PanelUnit<2>::kBytes, row, k % 32);
  }
  static float weight(const std::uint8_t* block, int row, int k) {
    const float d = scale(block, row) * static_cast<float>(sub_scale(block, row, k / 16));
    const float minimum = offset(block, row) * static_cast<float>(sub_minimum(block, row, k / 16));
    return d * static_cast<float>(quant(block, row, k)) - minimum;
  }
  // File: 16 bytes sc and mn, 64 bytes q, d, dmin.
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    put_half(block, 0, row, file + 80);
    put_half(block, 32, row, file + 82);
    for (int sub = 0; sub < 16; sub++) block[sub_scale_byte(row, sub)] = file[sub];
    for (int unit = 0; unit < 8; unit++) {
      std::uint8_t q[32];
      for (int k = 0; k < 32; k++) q[k] = file_low_bits(file + 16, unit, k);
      PanelUnit<2>::put_row(block + kWeightsAt + unit * PanelUnit<2>::kBytes, row, q);
    }
  }

 private:
  static constexpr int sub_scale_byte(int row, int sub) {
    return kSubScalesAt + sub / 4 * 64 + row * 4 + sub % 4;
  }
};

// x = d * (sc - 32) * (q - 4), sc six bits per 16 columns. [16 x f16 d][3][16 rows] u32: the
// six-bit numbers are sc; then the units.
struct PanelQ3_K {
  static constexpr WeightType kType = WeightType::q3_k;
  static constexpr Finish kFinish = Finish::scale;
  static constexpr int kZero = 4;
  static constexpr int kBlock = 256;
  static constexpr int kSubColumns = 16;
  static constexpr int kWordsAt = 32;
  static constexpr int kWeightsAt = kWordsAt + 3 * 64;
  static constexpr int kPanelBytes = kWeightsAt + 8 * PanelUnit<3>::kBytes;
  static constexpr int kFileBytes = kPanelBytes / kPanelRows;

  static float scale(const std::uint8_t* block, int row) { return read_half(block, 0, row); }
  static float offset(const std::uint8_t*, int) { return 0.0f; }
  static int sub_scale(const std::uint8_t* block, int row, int sub) {
    return six_bits(block + kWordsAt, row, sub) - 32;
  }
  static int sub_minimum(const std::uint8_t*, int, int) { return 0; }
  static int quant(const std::uint8_t* block, int row, int k) {
    return PanelUnit<3>::quant(block + kWeightsAt + k / 32 * PanelUnit<3>::kBytes, row, k % 32);
  }
  static float weight(const std::uint8_t* block, int row, int k) {
    const float d = scale(block, row) * static_cast<float>(sub_scale(block, row, k / 16));
    return d * static_cast<float>(quant(block, row, k) - kZero);
  }
  // File: 32 bytes of top bits (bit k / 32 of byte k % 32), 64 bytes of low bits, 12 of sc, d.
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    const std::uint8_t* packed = file + 96;
    put_half(block, 0, row, file + 108);
    int numbers[16];
    for (int i = 0; i < 16; i++) {
      const int low = packed[i % 8] >> (i / 8 * 4) & 15;
      numbers[i] = low | (packed[8 + i % 4] >> (i / 4 * 2) & 3) << 4;
    }
    put_six_bits(block + kWordsAt, row, numbers);
    for (int unit = 0; unit < 8; unit++) {
      std::uint8_t q[32];
      for (int k = 0; k < 32; k++) {
        const int top = file[k] >> unit & 1;
        q[k] = static_cast<std::uint8_t>(file_low_bits(file + 32, unit, k) | top << 2);
      }
      PanelUnit<3>::put_row(block + kWeightsAt + unit * PanelUnit<3>::kBytes, row, q);
    }
  }
};

static_assert(PanelQ2_K::kFileBytes == 84 && PanelQ3_K::kFileBytes == 110);

}  // namespace reprise::kernels
