// A unit: 32 columns of 16 rows as unsigned integers of 2..8 bits, the weights of the MLX types and
// of Q2_K and Q3_K. It is a sequence of planes, high bits first, laid out like those of the other
// types:
//   3, 5 bit     [16 rows][4], the top bit: bit s of byte [row][i] belongs to k = 4s + i
//   2, 3, 6 bit  [2][16 rows][4], two bits (6 bit: the top ones): bits 2s, 2s + 1 of byte
//                [half][row][i] belong to k = 16 half + 4s + i
//   4, 5, 6 bit  [4 steps], the low four bits: low nibbles are k = 0..15, high nibbles 16..31
//   8 bit        [8 steps] bytes
#pragma once
#include "kernels/panel_layout.h"

namespace reprise::kernels {

template <int Bits>
struct PanelUnit {
  static constexpr int kBytes = 64 * Bits;
  static constexpr bool kOneBit = Bits == 3 || Bits == 5;
  static constexpr bool kTwoBits = Bits == 2 || Bits == 3 || Bits == 6;
  static constexpr bool kNibbles = Bits == 4 || Bits == 5 || Bits == 6;
  static constexpr int kTwoBitsAt = kOneBit ? 64 : 0;
  static constexpr int kNibblesAt = kTwoBitsAt + (kTwoBits ? 128 : 0);
  // Where the planes' bits belong in the integer.
  static constexpr int kOneBitShift = Bits - 1;
  static constexpr int kTwoBitsShift = Bits == 6 ? 4 : 0;
  static_assert(Bits == 8 || kNibblesAt + (kNibbles ? 256 : 0) == kBytes);

  static int quant(const std::uint8_t* unit, int row, int k) {
    if constexpr (Bits == 8) return unit[step_byte(row, k)];
    int q = 0;
    if constexpr (kOneBit) q |= (unit[row * 4 + k % 4] >> (k / 4) & 1) << kOneBitShift;
    if constexpr (kTwoBits) {
      const int byte = unit[kTwoBitsAt + k / 16 * 64 + row * 4 + k % 4];
      q |= (byte >> (k / 4 % 4 * 2) & 3) << kTwoBitsShift;
    }
    if constexpr (kNibbles) {
      q |= unit[kNibblesAt + step_byte(row, k % 16)] >> (k / 16 * 4) & 15;
    }
    return q;
  }

  // One row's 32 integers to their places.
  static void put_row(std::uint8_t* unit, int row, const std::uint8_t (&q)[32]) {
    if constexpr (Bits == 8) {
      for (int k = 0; k < 32; k++) unit[step_byte(row, k)] = q[k];
    }
    if constexpr (kOneBit) {
      for (int i = 0; i < 4; i++) {
        int bits = 0;
        for (int s = 0; s < 8; s++) bits |= (q[4 * s + i] >> kOneBitShift & 1) << s;
        unit[row * 4 + i] = static_cast<std::uint8_t>(bits);
      }
    }
    if constexpr (kTwoBits) {
      for (int at = 0; at < 8; at++) {
        const std::uint8_t* from = q + at / 4 * 16 + at % 4;
        int bits = 0;
        for (int s = 0; s < 4; s++) bits |= (from[4 * s] >> kTwoBitsShift & 3) << (2 * s);
        unit[kTwoBitsAt + at / 4 * 64 + row * 4 + at % 4] = static_cast<std::uint8_t>(bits);
      }
    }
    if constexpr (kNibbles) {
      for (int k = 0; k < 16; k++) {
        const int pair = (q[k] & 15) | (q[k + 16] & 15) << 4;
        unit[kNibblesAt + step_byte(row, k)] = static_cast<std::uint8_t>(pair);
      }
    }
  }
};

}  // namespace reprise::kernels
