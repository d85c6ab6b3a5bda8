// The MLX affine types: what is read back is scale * q + bias of the file's own integers, which a
// second reader takes from the stream of bits; and what mlx itself says.
#include <gtest/gtest.h>

#include "compare.h"
#include "goldens.h"
#include "kernels/weight_type.h"
#include "matrices.h"

namespace reprise::kernels {
namespace {

class AffineTest : public testing::TestWithParam<WeightForm> {};

INSTANTIATE_TEST_SUITE_P(Forms, AffineTest, testing::ValuesIn(affine_forms()),
                         [](const auto& test) { return form_name(test.param); });

// Integer k of a row, bit by bit: bit b of the row is bit b % 32 of its little-endian word b / 32.
int integer_at(const std::byte* row, int bits, int k) {
  int q = 0;
  for (int i = 0; i < bits; i++) {
    const int bit = k * bits + i;
    std::uint32_t word;
    std::memcpy(&word, row + bit / 32 * 4, sizeof word);
    q |= static_cast<int>(word >> (bit % 32) & 1) << i;
  }
  return q;
}

float scale_at(ScaleType type, const std::byte* from, int i) {
  float value;
  std::uint16_t bits;
  if (type == ScaleType::f32) {
    std::memcpy(&value, from + 4 * i, sizeof value);
    return value;
  }
  std::memcpy(&bits, from + 2 * i, sizeof bits);
  return type == ScaleType::f16 ? half_to_float(bits) : bfloat_to_float(bits);
}

TEST_P(AffineTest, WeightsAreScaleTimesIntegerPlusBias) {
  const WeightForm form = GetParam();
  const int columns = 384;
  const FileMatrix file = random_file(form, 37, columns, 30);
  const PackedMatrix packed(file);
  const int bits = affine_bits(form.type);
  std::vector<bool> seen(std::size_t{1} << bits, false);
  bool negative = false;
  for (int row = 0; row < file.rows; row++) {
    const AffineRows from = file.affine_rows(row);
    std::vector<float> want(columns), got(columns);
    for (int k = 0; k < columns; k++) {
      const int q = integer_at(from.quants, bits, k);
      const float scale = scale_at(form.scale_type, from.scales, k / form.group);
      const float product = scale * static_cast<float>(q);
      want[static_cast<std::size_t>(k)] =
          product + scale_at(form.scale_type, from.biases, k / form.group);
      seen[static_cast<std::size_t>(q)] = true;
      negative = negative || scale < 0;
    }
    unpack_row(packed.matrix, row, got.data());
    EXPECT_EQ(first_difference(got, want), -1) << "row " << row;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0) << "every integer occurs";
  EXPECT_TRUE(negative);
}

TEST_P(AffineTest, ResidentBytesAreTheFiles) {
  const int rows = 48;
  const int columns = 640;
  const FileMatrix file = random_file(GetParam(), rows, columns, 31);
  const PanelMatrix shape = GetParam().shape(rows, columns);
  EXPECT_EQ(shape.panel_bytes() * 3, file.weights.size() + file.scales.size() + file.biases.size());
}

TEST(Affine, TypesHaveTheirNumberOfBits) {
  for (int bits = -1; bits < 20; bits++) {
    const auto type = affine_type(bits);
    const bool legal = (bits >= 2 && bits <= 6) || bits == 8;
    EXPECT_EQ(type.has_value(), legal) << bits;
    if (!type) continue;
    EXPECT_TRUE(is_affine(*type));
    EXPECT_EQ(affine_bits(*type), bits);
    EXPECT_EQ(weight_traits(*type).name, "MLX " + std::to_string(bits) + "-bit");
    EXPECT_EQ(file_row_bytes(*type, 64), static_cast<std::size_t>(8 * bits));
  }
  for (WeightType type : block_weight_types()) EXPECT_FALSE(is_affine(type));
}

TEST(Affine, TheGroupDecidesTheActivations) {
  EXPECT_EQ((PanelMatrix{WeightType::mlx4, 1, 128, nullptr, 32}.activations()),
            ActivationFormat::int8_group32);
  EXPECT_EQ((PanelMatrix{WeightType::mlx4, 1, 128, nullptr, 64}.activations()),
            ActivationFormat::int8_group64);
  EXPECT_EQ((PanelMatrix{WeightType::mlx4, 1, 128, nullptr, 128}.activations()),
            ActivationFormat::int8_group128);
}

TEST(Affine, RowsReadBackEqualThoseOfMlx) {
  constexpr int kRows = 8;
  constexpr int kColumns = 384;
  constexpr int kGroup = 64;
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    const WeightForm form = {*affine_type(bits), kGroup, ScaleType::f32};
    const std::string name = "quantize_mlx" + std::to_string(bits) + "_g64";
    const std::vector<std::byte> parts = read_golden(name + ".bin");
    const std::vector<float> want = floats_of(read_golden(name + ".f32"));
    const std::ptrdiff_t quants = kRows * kColumns * bits / 8;
    const std::ptrdiff_t scales = kRows * kColumns / kGroup * 4;
    ASSERT_EQ(parts.size(), static_cast<std::size_t>(quants + 2 * scales));
    const auto begin = parts.begin();
    const FileMatrix file = {form,
                             kRows,
                             kColumns,
                             {begin, begin + quants},
                             {begin + quants, begin + quants + scales},
                             {begin + quants + scales, parts.end()}};
    const PackedMatrix packed(file);
    std::vector<float> got(want.size());
    for (int row = 0; row < kRows; row++) unpack_row(packed.matrix, row, &got[row * kColumns]);
    EXPECT_EQ(first_difference(got, want), -1) << name;
  }
}

}  // namespace
}  // namespace reprise::kernels
