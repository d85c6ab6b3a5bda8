// Panels of the K-quants: blocks of 256 columns with integer scales per 32 or 16 columns.
// Source of the file blocks: ggml's block_q4_K, block_q5_K, block_q6_K.
#pragma once
#include "kernels/panel_layout.h"

namespace reprise::kernels {

// Sixteen six-bit numbers a row: `words` is [3][16 rows] u32. Byte i of word w (low six bits) is
// number 4w + i; the top two bits of the three bytes i together are number 12 + i.
inline int six_bits(const std::uint8_t* words, int row, int number) {
  const std::uint8_t* word = words + row * 4;
  if (number < 12) return word[number / 4 * 64 + number % 4] & 63;
  const int i = number - 12;
  return word[i] >> 6 | (word[64 + i] >> 6) << 2 | (word[128 + i] >> 6) << 4;
}
inline void put_six_bits(std::uint8_t* words, int row, const int (&numbers)[16]) {
  std::uint8_t* word = words + row * 4;
  for (int i = 0; i < 4; i++) {
    for (int w = 0; w < 3; w++) {
      const int top = numbers[12 + i] >> (2 * w) & 3;
      word[w * 64 + i] = static_cast<std::uint8_t>(numbers[4 * w + i] | top << 6);
    }
  }
}

// The part that Q4_K and Q5_K share: x = d * sc * q - dmin * mn, sc and mn six bits per 32 columns.
// [16 x f16 d][16 x f16 dmin][3][16 rows] u32: six-bit numbers 0..7 are sc, 8..15 are mn.
template <WeightType Type>
struct PanelOfSixBitScales {
  static constexpr WeightType kType = Type;
  static constexpr Finish kFinish = Finish::minimum;
  static constexpr int kZero = 0;
  static constexpr int kBlock = 256;
  static constexpr int kSubColumns = 32;
  static constexpr int kWordsAt = 64;
  static constexpr int kWeightsAt = kWordsAt + 3 * 64;

  static float scale(const std::uint8_t* block, int row) { return read_half(block, 0, row); }
  static float offset(const std::uint8_t* block, int row) { return read_half(block, 32, row); }
  static int sub_scale(const std::uint8_t* block, int row, int sub) {
    return six_bits(block + kWordsAt, row, sub);
  }
  static int sub_minimum(const std::uint8_t* block, int row, int sub) {
    return six_bits(block + kWordsAt, row, 8 + sub);
  }

 protected:
  static float weight_of(const std::uint8_t* block, int row, int sub, int quant) {
    const float d = scale(block, row) * static_cast<float>(sub_scale(block, row, sub));
    const float minimum = offset(block, row) * static_cast<float>(sub_minimum(block, row, sub));
    return d * static_cast<float>(quant) - minimum;
  }
  // `file`: d, dmin, 12 bytes of scales in ggml's packing.
  static void put_scales(std::uint8_t* block, int row, const std::uint8_t* file) {
    put_half(block, 0, row, file);
    put_half(block, 32, row, file + 2);
    const std::uint8_t* packed = file + 4;
    int numbers[16];
    for (int j = 0; j < 4; j++) {
      numbers[j] = packed[j] & 63;
      numbers[8 + j] = packed[4 + j] & 63;
      numbers[4 + j] = (packed[8 + j] & 15) | (packed[j] >> 6) << 4;
      numbers[12 + j] = packed[8 + j] >> 4 | (packed[4 + j] >> 6) << 4;
    }
    put_six_bits(block + kWordsAt, row, numbers);
  }
};

// Then [4 pairs of 32 columns][8 steps] nibbles: low nibbles are the pair's first 32 columns.
struct PanelQ4_K : PanelOfSixBitScales<WeightType::q4_k> {
  static constexpr int kPanelBytes = kWeightsAt + 4 * 512;
  static constexpr int kFileBytes = kPanelBytes / kPanelRows;

  static int quant(const std::uint8_t* block, int row, int k) {
    const std::uint8_t* pair = block + kWeightsAt + k / 64 * 512;
    return pair[step_byte(row, k % 32)] >> (k / 32 % 2 * 4) & 15;
  }
  static float weight(const std::uint8_t* block, int row, int k) {
    return weight_of(block, row, k / 32, quant(block, row, k));
  }
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    put_scales(block, row, file);
    const std::uint8_t* nibbles = file + 16;
    for (int k = 0; k < 128; k++) {
      block[kWeightsAt + k / 32 * 512 + step_byte(row, k % 32)] = nibbles[k];
    }
  }
};

// Then 4 pairs of 32 columns, each {[2][16 rows][4] fifth bits, [8 steps] nibbles}: bit s of byte
// [half][row][i] belongs to k = 4s + i of that half of the pair.
struct PanelQ5_K : PanelOfSixBitScales<WeightType::q5_k> {
  static constexpr int kPairBytes = 128 + 512;
  static constexpr int kPanelBytes = kWeightsAt + 4 * kPairBytes;
  static constexpr int kFileBytes = kPanelBytes / kPanelRows;

  static int quant(const std::uint8_t* block, int row, int k) {
    const std::uint8_t* pair = block + kWeightsAt + k / 64 * kPairBytes;
    const int half = k / 32 % 2;
    const int low = pair[128 + step_byte(row, k % 32)] >> (half * 4) & 15;
    return low | (pair[half * 64 + row * 4 + k % 4] >> (k % 32 / 4) & 1) << 4;
  }
  static float weight(const std::uint8_t* block, int row, int k) {
    return weight_of(block, row, k / 32, quant(block, row, k));
  }
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    put_scales(block, row, file);
    const std::uint8_t* high = file + 16;
    const std::uint8_t* nibbles = high + 32;
    for (int pair = 0; pair < 4; pair++) {
      std::uint8_t* out = block + kWeightsAt + pair * kPairBytes;
      for (int k = 0; k < 32; k++) out[128 + step_byte(row, k)] = nibbles[pair * 32 + k];
      for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 4; i++) {
          int bits = 0;
          for (int s = 0; s < 8; s++) bits |= (high[4 * s + i] >> (2 * pair + half) & 1) << s;
          out[half * 64 + row * 4 + i] = static_cast<std::uint8_t>(bits);
        }
      }
    }
  }
};

// x = d * sc * (q - 32), sc int8 per 16 columns. [16 x f16 d][4][16 rows] 4 x i8 sc, then 8 pairs
// of 16 columns, each {[2][16 rows][4] top bits, [4 steps] nibbles}: low nibbles are the pair's
// first 16 columns; bits 2s, 2s + 1 of byte [half][row][i] belong to k = 4s + i of that half of the
// pair.
struct PanelQ6_K {
  static constexpr WeightType kType = WeightType::q6_k;
  static constexpr Finish kFinish = Finish::scale;
  static constexpr int kZero = 32;
  static constexpr int kBlock = 256;
  static constexpr int kSubColumns = 16;
  static constexpr int kSubScalesAt = 32;
  static constexpr int kWeightsAt = kSubScalesAt + 4 * 64;
  static constexpr int kPairBytes = 128 + 256;
  static constexpr int kPanelBytes = kWeightsAt + 8 * kPairBytes;
  static constexpr int kFileBytes = kPanelBytes / kPanelRows;

  static float scale(const std::uint8_t* block, int row) { return read_half(block, 0, row); }
  static float offset(const std::uint8_t*, int) { return 0.0f; }
  static int sub_scale(const std::uint8_t* block, int row, int sub) {
    return static_cast<std::int8_t>(block[kSubScalesAt + sub / 4 * 64 + row * 4 + sub % 4]);
  }
  static int sub_minimum(const std::uint8_t*, int, int) { return 0; }
  static int quant(const std::uint8_t* block, int row, int k) {
    const std::uint8_t* pair = block + kWeightsAt + k / 32 * kPairBytes;
    const int half = k / 16 % 2;
    const int low = pair[128 + step_byte(row, k % 16)] >> (4 * half) & 15;
    return low | (pair[half * 64 + row * 4 + k % 4] >> (k / 4 % 4 * 2) & 3) << 4;
  }
  static float weight(const std::uint8_t* block, int row, int k) {
    const float d = scale(block, row) * static_cast<float>(sub_scale(block, row, k / 16));
    return d * static_cast<float>(quant(block, row, k) - kZero);
  }
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    const std::uint8_t* sub_scales = file + 192;
    put_half(block, 0, row, file + 208);
    for (int sub = 0; sub < 16; sub++) {
      block[kSubScalesAt + sub / 4 * 64 + row * 4 + sub % 4] = sub_scales[sub];
    }
    for (int pair = 0; pair < 8; pair++) pack_pair(file, row, pair, block);
  }

 private:
  // ggml: column k of a half block of 128 has its low bits in nibble (k / 64) of byte k % 64 and
  // its top bits in bits 2 (k / 32) of byte k % 32.
  static void pack_pair(const std::uint8_t* file, int row, int pair, std::uint8_t* block) {
    const int quarter = pair % 4;
    const std::uint8_t* low = file + pair / 4 * 64 + quarter % 2 * 32;
    const std::uint8_t* high = file + 128 + pair / 4 * 32;
    const int low_shift = quarter / 2 * 4;
    std::uint8_t* out = block + kWeightsAt + pair * kPairBytes;
    for (int k = 0; k < 16; k++) {
      const int first = low[k] >> low_shift & 15;
      const int second = low[16 + k] >> low_shift & 15;
      out[128 + step_byte(row, k)] = static_cast<std::uint8_t>(first | second << 4);
    }
    for (int half = 0; half < 2; half++) {
      for (int i = 0; i < 4; i++) {
        int bits = 0;
        for (int s = 0; s < 4; s++) {
          bits |= (high[half * 16 + 4 * s + i] >> (2 * quarter) & 3) << (2 * s);
        }
        out[half * 64 + row * 4 + i] = static_cast<std::uint8_t>(bits);
      }
    }
  }
};

static_assert(PanelQ4_K::kFileBytes == 144 && PanelQ5_K::kFileBytes == 176);
static_assert(PanelQ6_K::kFileBytes == 210);

}  // namespace reprise::kernels
