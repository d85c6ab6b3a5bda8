// Row by row conversion of weights.
#include "model/weight_rows.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/math.h"
#include "kernels/quantize.h"

namespace reprise {
namespace {

using kernels::kPanelRows;
using kernels::PanelMatrix;
using kernels::WeightType;

std::size_t element_bytes(WeightType type) {
  return type == WeightType::f32 ? 4 : 2;
}

float read_float(WeightType type, const std::byte* at) {
  if (type == WeightType::f32) {
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return type == WeightType::f16 ? kernels::half_to_float(bits) : kernels::bfloat_to_float(bits);
}

void write_float(kernels::ScaleType type, float value, std::byte* at) {
  if (type == kernels::ScaleType::f32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const std::uint16_t bits = type == kernels::ScaleType::f16 ? kernels::float_to_half(value)
                                                             : kernels::float_to_bfloat(value);
  std::memcpy(at, &bits, sizeof bits);
}

// Sixteen rows of floats as panel `panel` of an affine target.
void pack_affine(const PanelMatrix& target, const float* rows, int count, int panel,
                 std::uint8_t* panels) {
  const auto columns = static_cast<std::size_t>(target.columns);
  const std::size_t groups = columns / static_cast<std::size_t>(target.group);
  const std::size_t quant_bytes =
      columns * static_cast<std::size_t>(kernels::affine_bits(target.type)) / 8;
  const std::size_t width = static_cast<std::size_t>(kernels::scale_bytes(target.scale_type));
  std::vector<std::byte> quants(quant_bytes * kPanelRows);
  std::vector<std::byte> scales(groups * width * kPanelRows), biases(scales.size());
  std::vector<float> row_scales(groups), row_biases(groups);
  for (int r = 0; r < count; r++) {
    const auto row = static_cast<std::size_t>(r);
    kernels::quantize_row_affine(rows + row * columns, target.columns,
                                 kernels::affine_bits(target.type), target.group,
                                 &quants[row * quant_bytes], row_scales.data(), row_biases.data());
    for (std::size_t g = 0; g < groups; g++) {
      write_float(target.scale_type, row_scales[g], &scales[(row * groups + g) * width]);
      write_float(target.scale_type, row_biases[g], &biases[(row * groups + g) * width]);
    }
  }
  PanelMatrix one = target;
  one.rows = count;
  kernels::pack_affine_panels(one, {quants.data(), scales.data(), biases.data()}, 0, 1,
                              panels + static_cast<std::size_t>(panel) * target.panel_bytes());
}

// Sixteen rows of floats as panel `panel` of a float or Q8_0 target.
void pack_floats(const PanelMatrix& target, const float* rows, int count, int panel,
                 std::uint8_t* panels) {
  const auto columns = static_cast<std::size_t>(target.columns);
  const std::size_t row_bytes = kernels::file_row_bytes(target.type, target.columns);
  std::vector<std::byte> stored(row_bytes * kPanelRows);
  for (int r = 0; r < count; r++) {
    const float* row = rows + static_cast<std::size_t>(r) * columns;
    std::byte* to = &stored[static_cast<std::size_t>(r) * row_bytes];
    if (target.type == WeightType::q8_0) {
      kernels::quantize_row_q8_0(row, target.columns, to);
      continue;
    }
    const auto type = target.type == WeightType::f32   ? kernels::ScaleType::f32
                      : target.type == WeightType::f16 ? kernels::ScaleType::f16
                                                       : kernels::ScaleType::bf16;
    for (std::size_t i = 0; i < columns; i++) {
      write_float(type, row[i], to + i * element_bytes(target.type));
    }
  }
  kernels::pack_panels(target.type, stored.data(), count, target.columns, 0, 1,
                       panels + static_cast<std::size_t>(panel) * target.panel_bytes());
}

}  // namespace

std::size_t StoredMatrix::row_bytes() const {
  if (!kernels::is_affine(shape.type)) return kernels::file_row_bytes(shape.type, shape.columns);
  return static_cast<std::size_t>(shape.columns) *
         static_cast<std::size_t>(kernels::affine_bits(shape.type)) / 8;
}

void StoredMatrix::read_row(int row, float* out) const {
  const auto index = static_cast<std::size_t>(row);
  if (step > 0) {
    const std::size_t width = element_bytes(shape.type);
    for (int i = 0; i < shape.columns; i++) {
      out[i] = read_float(shape.type,
                          bytes.data() + (static_cast<std::size_t>(i) * step + index) * width);
    }
    return;
  }
  const std::byte* quants = bytes.data() + index * row_bytes();
  if (!kernels::is_affine(shape.type)) {
    kernels::read_file_row(shape.type, quants, shape.columns, out);
    return;
  }
  const std::size_t scales_bytes = static_cast<std::size_t>(shape.columns / shape.group) *
                                   static_cast<std::size_t>(kernels::scale_bytes(shape.scale_type));
  const std::size_t at = index * scales_bytes;
  kernels::read_affine_row(shape, {quants, scales.data() + at, biases.data() + at}, out);
}

void pack_stored(const StoredMatrix& source, const PanelMatrix& target, int begin, int end,
                 std::uint8_t* panels) {
  const bool same = target.type == source.shape.type && source.step == 0;
  if (same && kernels::is_affine(target.type)) {
    kernels::pack_affine_panels(target,
                                {source.bytes.data(), source.scales.data(), source.biases.data()},
                                begin, end, panels);
    return;
  }
  if (same) {
    kernels::pack_panels(target.type, source.bytes.data(), target.rows, target.columns, begin, end,
                         panels);
    return;
  }
  const auto columns = static_cast<std::size_t>(target.columns);
  std::vector<float> rows(columns * kPanelRows);
  for (int panel = begin; panel < end; panel++) {
    const int first = panel * kPanelRows;
    const int count = std::min(kPanelRows, target.rows - first);
    for (int r = 0; r < count; r++) {
      source.read_row(first + r, &rows[static_cast<std::size_t>(r) * columns]);
    }
    if (kernels::is_affine(target.type)) {
      pack_affine(target, rows.data(), count, panel, panels);
    } else {
      pack_floats(target, rows.data(), count, panel, panels);
    }
  }
}

std::vector<float> read_floats(WeightType type, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / element_bytes(type));
  for (std::size_t i = 0; i < values.size(); i++) {
    values[i] = read_float(type, bytes.data() + i * element_bytes(type));
  }
  return values;
}

}  // namespace reprise
