// How keys and values of 64 consecutive positions lie in memory, for one layer and one kv head:
//   keys   [4][head_dim][16]        16 positions side by side, so a score needs no horizontal sum
//   values [value_dim / 16][64][16] 16 dimensions side by side, positions contiguous
// Values follow the keys. In int8, the scales of the 64 places (f32) follow the keys, and those of
// the values follow the values: element = int8 * scale of its place. Places that were never written
// are zero.
#pragma once
#include <cstddef>
#include <cstdint>

namespace reprise::kernels {

enum class KvType : std::uint8_t { f16, bf16, f32, int8 };

inline constexpr int kPagePositions = 64;
inline constexpr int kHeadDimMax = 512;  // head dims are multiples of 16 up to this

constexpr std::size_t element_bytes_of(KvType type) {
  return type == KvType::int8 ? 1 : type == KvType::f32 ? 4 : 2;
}

struct KvShape {
  KvType type = KvType::f16;
  int head_dim = 0;
  int value_dim = 0;

  std::size_t element_bytes() const { return element_bytes_of(type); }
  // Bytes of the scale that one place of the keys, or of the values, has.
  std::size_t scale_bytes() const { return type == KvType::int8 ? 4 : 0; }
  // Bytes of one place: its elements and, behind them, its scale.
  std::size_t key_row_bytes() const {
    return element_bytes() * static_cast<std::size_t>(head_dim) + scale_bytes();
  }
  std::size_t value_row_bytes() const {
    return element_bytes() * static_cast<std::size_t>(value_dim) + scale_bytes();
  }
  std::size_t keys_bytes() const { return kPagePositions * key_row_bytes(); }
  std::size_t values_bytes() const { return kPagePositions * value_row_bytes(); }
  std::size_t block_bytes() const { return keys_bytes() + values_bytes(); }

  // Bytes from a block's start to the scale of a place of its keys, or of its values.
  std::size_t key_scale_offset(int place) const {
    return element_bytes() * kPagePositions * static_cast<std::size_t>(head_dim) +
           scale_bytes() * static_cast<std::size_t>(place);
  }
  std::size_t value_scale_offset(int place) const {
    return keys_bytes() + element_bytes() * kPagePositions * static_cast<std::size_t>(value_dim) +
           scale_bytes() * static_cast<std::size_t>(place);
  }

  // Element indices within the keys and within the values.
  std::size_t key_index(int place, int d) const {
    const auto row = static_cast<std::size_t>(place / 16) * static_cast<std::size_t>(head_dim) +
                     static_cast<std::size_t>(d);
    return row * 16 + static_cast<std::size_t>(place % 16);
  }
  static std::size_t value_index(int place, int d) {
    const auto row =
        static_cast<std::size_t>(d / 16) * kPagePositions + static_cast<std::size_t>(place);
    return row * 16 + static_cast<std::size_t>(d % 16);
  }
  bool operator==(const KvShape&) const = default;
};

}  // namespace reprise::kernels
