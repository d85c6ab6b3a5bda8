// pack_row of the layouts that most files use, four columns at a time: words in place of single
// bytes and bits. Loading a model is packing; the layouts' own pack_row stays what defines it, and
// a test holds both against each other.
#pragma once
#include "kernels/panel_affine.h"
#include "kernels/panel_k.h"
#include "kernels/panel_q32.h"

namespace reprise::kernels {

// The four bytes of a row in step `step`.
inline void put_word(std::uint8_t* steps, int step, int row, std::uint32_t word) {
  std::memcpy(steps + step * 64 + row * 4, &word, sizeof word);
}
template <int Count>
void put_words(std::uint8_t* steps, int row, const std::uint8_t* bytes, std::uint32_t flip = 0) {
  for (int step = 0; step < Count; step++) {
    put_word(steps, step, row, read_u32(bytes + 4 * step) ^ flip);
  }
}

// Bit `shift` of 32 integers, given as words of four: a plane's word, as in panel_unit.h.
template <class Word>
std::uint32_t gather_bits(Word&& word, int shift) {
  std::uint32_t bits = 0;
  for (int s = 0; s < 8; s++) bits |= (word(s) >> shift & 0x01010101U) << s;
  return bits;
}
// Bits `shift` and `shift` + 1 of 16 integers.
template <class Word>
std::uint32_t gather_pairs(Word&& word, int shift) {
  std::uint32_t bits = 0;
  for (int s = 0; s < 4; s++) bits |= (word(s) >> shift & 0x03030303U) << (2 * s);
  return bits;
}

// Any layout: as it says itself.
template <class Layout>
struct WordPacker {
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    Layout::pack_row(file, row, block);
  }
};

template <>
struct WordPacker<PanelQ8_0> {
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    put_half(block, 0, row, file);
    put_words<8>(block + PanelQ8_0::kWeightsAt, row, file + 2, 0x80808080U);
  }
};

template <WeightType Type, int Zero, Finish Kind>
struct WordPacker<PanelOf4Bits<Type, Zero, Kind>> {
  using Layout = PanelOf4Bits<Type, Zero, Kind>;
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    put_half(block, 0, row, file);
    if (Kind == Finish::bias) put_half(block, 32, row, file + 2);
    put_words<4>(block + Layout::kNibblesAt, row, file + Layout::kFileBytes - 16);
  }
};

template <WeightType Type, int Zero, Finish Kind>
struct WordPacker<PanelOf5Bits<Type, Zero, Kind>> {
  using Layout = PanelOf5Bits<Type, Zero, Kind>;
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    put_half(block, 0, row, file);
    if (Kind == Finish::bias) put_half(block, 32, row, file + 2);
    const std::uint32_t high = read_u32(file + Layout::kFileBytes - 20);
    // Four bits become four bytes: bit i times 2^(7 i) reaches bit 8 i.
    const auto spread = [&](int s) { return (high >> (4 * s) & 15) * 0x00204081U; };
    put_word(block + Layout::kHighAt, 0, row, gather_bits(spread, 0));
    put_words<4>(block + Layout::kNibblesAt, row, file + Layout::kFileBytes - 16);
  }
};

// Q4_K and Q5_K: the scales as the layouts put them.
template <class Layout>
struct SixBitScales : Layout {
  using Layout::put_scales;
};

template <>
struct WordPacker<PanelQ4_K> {
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    SixBitScales<PanelQ4_K>::put_scales(block, row, file);
    put_words<32>(block + PanelQ4_K::kWeightsAt, row, file + 16);
  }
};

template <>
struct WordPacker<PanelQ5_K> {
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    SixBitScales<PanelQ5_K>::put_scales(block, row, file);
    const std::uint8_t* const high = file + 16;
    const auto word = [&](int s) { return read_u32(high + 4 * s); };
    for (int pair = 0; pair < 4; pair++) {
      std::uint8_t* const out = block + PanelQ5_K::kWeightsAt + pair * PanelQ5_K::kPairBytes;
      for (int half = 0; half < 2; half++) {
        put_word(out, half, row, gather_bits(word, 2 * pair + half));
      }
      put_words<8>(out + 128, row, high + 32 + pair * 32);
    }
  }
};

template <>
struct WordPacker<PanelQ6_K> {
  static void pack_row(const std::uint8_t* file, int row, std::uint8_t* block) {
    put_half(block, 0, row, file + 208);
    put_words<4>(block + PanelQ6_K::kSubScalesAt, row, file + 192);
    for (int pair = 0; pair < 8; pair++) {
      const int quarter = pair % 4;
      const std::uint8_t* const low = file + pair / 4 * 64 + quarter % 2 * 32;
      const std::uint8_t* const high = file + 128 + pair / 4 * 32;
      const int low_shift = quarter / 2 * 4;
      std::uint8_t* const out = block + PanelQ6_K::kWeightsAt + pair * PanelQ6_K::kPairBytes;
      for (int half = 0; half < 2; half++) {
        const auto word = [&](int s) { return read_u32(high + half * 16 + 4 * s); };
        put_word(out, half, row, gather_pairs(word, 2 * quarter));
      }
      for (int step = 0; step < 4; step++) {
        const std::uint32_t first = read_u32(low + 4 * step) >> low_shift & 0x0F0F0F0FU;
        const std::uint32_t second = read_u32(low + 16 + 4 * step) >> low_shift & 0x0F0F0F0FU;
        put_word(out + 128, step, row, first | second << 4);
      }
    }
  }
};

// The planes of a unit (panel_unit.h) from 32 integers, four to a word.
template <int Bits>
void put_unit(std::uint8_t* unit, int row, const std::uint32_t (&q)[8]) {
  using Unit = PanelUnit<Bits>;
  if constexpr (Bits == 8) {
    for (int step = 0; step < 8; step++) put_word(unit, step, row, q[step]);
  }
  if constexpr (Unit::kOneBit) {
    put_word(unit, 0, row, gather_bits([&](int s) { return q[s]; }, Unit::kOneBitShift));
  }
  if constexpr (Unit::kTwoBits) {
    for (int half = 0; half < 2; half++) {
      const auto word = [&](int s) { return q[4 * half + s]; };
      put_word(unit + Unit::kTwoBitsAt, half, row, gather_pairs(word, Unit::kTwoBitsShift));
    }
  }
  if constexpr (Unit::kNibbles) {
    for (int step = 0; step < 4; step++) {
      const std::uint32_t pairs = (q[step] & 0x0F0F0F0FU) | (q[4 + step] & 0x0F0F0F0FU) << 4;
      put_word(unit + Unit::kNibblesAt, step, row, pairs);
    }
  }
}

// Eight integers of `Bits` bits each -> eight bytes: the upper half of each group of bits goes up,
// three times.
template <int Bits>
std::uint64_t spread_to_bytes(std::uint64_t bits) {
  constexpr std::uint64_t kOne = (1U << Bits) - 1, kTwo = (1U << 2 * Bits) - 1;
  constexpr std::uint64_t kFour = (std::uint64_t{1} << 4 * Bits) - 1;
  constexpr std::uint64_t kOnes = kOne * 0x0001000100010001U, kTwos = kTwo * 0x0000000100000001U;
  bits = (bits & kFour) | (bits >> 4 * Bits) << 32;
  bits = (bits & kTwos) | (bits >> 2 * Bits & kTwos) << 16;
  return (bits & kOnes) | (bits >> Bits & kOnes) << 8;
}

// PanelAffine::pack_row.
template <int Bits, int Group>
void pack_affine_row(const PanelAffine<Bits, Group>& layout, const std::uint8_t* quants,
                     const std::byte* scale, const std::byte* bias, int row, std::uint8_t* block) {
  const auto size = static_cast<std::size_t>(scale_bytes(layout.scale_type));
  const int header = layout.header_bytes(layout.scale_type);
  std::memcpy(block + static_cast<std::size_t>(row) * size, scale, size);
  std::memcpy(block + header / 2 + static_cast<std::size_t>(row) * size, bias, size);
  for (int unit = 0; unit < layout.kUnits; unit++) {
    std::uint32_t q[8];
    for (int pair = 0; pair < 4; pair++, quants += Bits) {  // eight integers are `Bits` bytes
      std::uint64_t stream = 0;
      std::memcpy(&stream, quants, Bits);
      stream = spread_to_bytes<Bits>(stream);
      q[2 * pair] = static_cast<std::uint32_t>(stream);
      q[2 * pair + 1] = static_cast<std::uint32_t>(stream >> 32);
    }
    put_unit<Bits>(block + header + unit * PanelUnit<Bits>::kBytes, row, q);
  }
}

}  // namespace reprise::kernels
