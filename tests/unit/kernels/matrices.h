// Random matrices of every weight type, packed, for the kernels' tests.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "kernels/math.h"
#include "kernels/weight_type.h"

namespace reprise::kernels {

// Exactly `size` bytes, aligned for the kernels (a sanitizer sees every byte beyond).
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t size)
      : size_(size), data_(static_cast<std::uint8_t*>(::operator new(size, kAlignment))) {
    std::memset(data_.get(), 0xa5, size);
  }
  std::uint8_t* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::uint8_t* p) const { ::operator delete(p, kAlignment); }
  };
  std::size_t size_;
  std::unique_ptr<std::uint8_t, Free> data_;
};

inline std::vector<WeightType> all_weight_types() {
  std::vector<WeightType> types;
  for (int i = 0; i < kWeightTypes; i++) types.push_back(static_cast<WeightType>(i));
  return types;
}

// Where a file block of the type holds halves; -1 for none.
struct HalvesAt {
  int first;
  int second;
};
inline HalvesAt halves_at(WeightType type) {
  switch (type) {
    case WeightType::q4_0:
    case WeightType::q5_0:
    case WeightType::q8_0:
      return {0, -1};
    case WeightType::q4_1:
    case WeightType::q5_1:
    case WeightType::q4_k:
    case WeightType::q5_k:
      return {0, 2};
    case WeightType::q6_k:
      return {208, -1};
    default:
      return {-1, -1};
  }
}

inline void put_half_at(std::byte* block, int at, float value) {
  if (at < 0) return;
  const std::uint16_t half = float_to_half(value);
  std::memcpy(block + at, &half, sizeof half);
}

// Rows as a file stores them: random integers (or all bytes `fill`), scales of ordinary size.
inline std::vector<std::byte> random_file_rows(WeightType type, int rows, int columns,
                                               unsigned seed, int fill = -1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const int block_bytes = weight_traits(type).file_block_bytes;
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * file_row_bytes(type, columns));
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(block_bytes)) {
    std::byte* block = bytes.data() + at;
    for (int i = 0; i < block_bytes; i++) {
      block[i] = static_cast<std::byte>(fill >= 0 ? static_cast<unsigned>(fill) : random());
    }
    put_half_at(block, halves_at(type).first, 0.01f * normal(random));
    put_half_at(block, halves_at(type).second, 0.01f * normal(random));
    const float value = normal(random);
    const std::uint16_t bfloat = float_to_bfloat(value);
    if (type == WeightType::f32) std::memcpy(block, &value, sizeof value);
    if (type == WeightType::f16) put_half_at(block, 0, value);
    if (type == WeightType::bf16) std::memcpy(block, &bfloat, sizeof bfloat);
  }
  return bytes;
}

struct PackedMatrix {
  PackedMatrix(WeightType type, int rows, int columns, const std::vector<std::byte>& file_rows)
      : bytes(panel_bytes(type, columns) *
              static_cast<std::size_t>((rows + kPanelRows - 1) / kPanelRows)),
        matrix{type, rows, columns, bytes.data()} {
    pack_panels(type, file_rows.data(), rows, columns, 0, matrix.panel_count(), bytes.data());
  }
  AlignedBytes bytes;
  PanelMatrix matrix;
};

inline PackedMatrix random_matrix(WeightType type, int rows, int columns, unsigned seed,
                                  int fill = -1) {
  return PackedMatrix(type, rows, columns, random_file_rows(type, rows, columns, seed, fill));
}

inline std::string type_name(WeightType type) {
  return weight_traits(type).name;
}

}  // namespace reprise::kernels
