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

// A weight type and what MLX types need besides.
struct WeightForm {
  WeightType type = WeightType::f32;
  int group = 0;
  ScaleType scale_type = ScaleType::f16;

  PanelMatrix shape(int rows, int columns) const {
    return {type, rows, columns, nullptr, group, scale_type};
  }
};

// The types of GGUF.
inline std::vector<WeightType> block_weight_types() {
  std::vector<WeightType> types;
  for (int i = 0; i < kWeightTypes; i++) {
    const WeightType type = static_cast<WeightType>(i);
    if (!is_affine(type)) types.push_back(type);
  }
  return types;
}
inline std::vector<WeightForm> affine_forms() {
  std::vector<WeightForm> forms;
  for (int i = 0; i < kWeightTypes; i++) {
    const WeightType type = static_cast<WeightType>(i);
    if (!is_affine(type)) continue;
    for (int group : {32, 64, 128}) {
      for (ScaleType scale_type : {ScaleType::f16, ScaleType::bf16, ScaleType::f32}) {
        forms.push_back({type, group, scale_type});
      }
    }
  }
  return forms;
}
inline std::vector<WeightForm> all_weight_forms() {
  std::vector<WeightForm> forms;
  for (WeightType type : block_weight_types()) forms.push_back({type});
  for (const WeightForm& form : affine_forms()) forms.push_back(form);
  return forms;
}

// "Q4_0", "mlx4_g64_bf16": what a test may be called.
inline std::string form_name(const WeightForm& form) {
  if (!is_affine(form.type)) return weight_traits(form.type).name;
  const char* const scale_names[] = {"f16", "bf16", "f32"};
  return "mlx" + std::to_string(affine_bits(form.type)) + "_g" + std::to_string(form.group) + "_" +
         scale_names[static_cast<int>(form.scale_type)];
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
    case WeightType::iq4_nl:
    case WeightType::iq4_xs:
      return {0, -1};
    case WeightType::q4_1:
    case WeightType::q5_1:
    case WeightType::q4_k:
    case WeightType::q5_k:
      return {0, 2};
    case WeightType::q6_k:
      return {208, -1};
    case WeightType::q2_k:
      return {80, 82};
    case WeightType::q3_k:
      return {108, -1};
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

// `count` scales (or biases) of the type, of ordinary size and both signs.
inline std::vector<std::byte> random_scales(ScaleType type, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.01f);
  const std::size_t size = static_cast<std::size_t>(scale_bytes(type));
  std::vector<std::byte> bytes(count * size);
  for (std::size_t i = 0; i < count; i++) {
    const float value = normal(random);
    const std::uint16_t bits =
        type == ScaleType::f16 ? float_to_half(value) : float_to_bfloat(value);
    const void* from = type == ScaleType::f32 ? static_cast<const void*>(&value) : &bits;
    std::memcpy(&bytes[i * size], from, size);
  }
  return bytes;
}

// A matrix as files store it; `scales` and `biases` are MLX's.
struct FileMatrix {
  WeightForm form;
  int rows = 0;
  int columns = 0;
  std::vector<std::byte> weights;
  std::vector<std::byte> scales;
  std::vector<std::byte> biases;

  // From row `row` on; MLX.
  AffineRows affine_rows(int row) const {
    const std::size_t at = static_cast<std::size_t>(row);
    const std::size_t scales_at = at * static_cast<std::size_t>(columns / form.group) *
                                  static_cast<std::size_t>(scale_bytes(form.scale_type));
    return {weights.data() + at * file_row_bytes(form.type, columns), scales.data() + scales_at,
            biases.data() + scales_at};
  }
};

inline FileMatrix random_file(const WeightForm& form, int rows, int columns, unsigned seed,
                              int fill = -1) {
  FileMatrix file = {form, rows, columns, random_file_rows(form.type, rows, columns, seed, fill),
                     {},   {}};
  if (is_affine(form.type)) {
    const std::size_t groups = static_cast<std::size_t>(rows * (columns / form.group));
    file.scales = random_scales(form.scale_type, groups, seed + 100);
    file.biases = random_scales(form.scale_type, groups, seed + 200);
  }
  return file;
}

struct PackedMatrix {
  explicit PackedMatrix(const FileMatrix& file)
      : bytes(file.form.shape(file.rows, file.columns).panel_bytes() *
              static_cast<std::size_t>((file.rows + kPanelRows - 1) / kPanelRows)),
        matrix(file.form.shape(file.rows, file.columns)) {
    matrix.panels = bytes.data();
    pack(file, 0, matrix.panel_count(), bytes.data());
  }
  static void pack(const FileMatrix& file, int panel_begin, int panel_end, std::uint8_t* panels) {
    if (is_affine(file.form.type)) {
      pack_affine_panels(file.form.shape(file.rows, file.columns), file.affine_rows(0), panel_begin,
                         panel_end, panels);
    } else {
      pack_panels(file.form.type, file.weights.data(), file.rows, file.columns, panel_begin,
                  panel_end, panels);
    }
  }
  AlignedBytes bytes;
  PanelMatrix matrix;
};

inline PackedMatrix random_matrix(const WeightForm& form, int rows, int columns, unsigned seed,
                                  int fill = -1) {
  return PackedMatrix(random_file(form, rows, columns, seed, fill));
}

}  // namespace reprise::kernels
