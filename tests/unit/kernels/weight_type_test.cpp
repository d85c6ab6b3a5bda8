// Weight types: packing is lossless (goldens by gguf-py), sizes are the file's, padding is zero.
#include "kernels/weight_type.h"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "kernels/activation_group.h"
#include "matrices.h"

namespace reprise::kernels {
namespace {

constexpr int kGoldenRows = 3;
constexpr int kGoldenColumns = 512;

std::vector<std::byte> read_golden(const std::string& name) {
  std::ifstream file(std::string(REPRISE_WEIGHT_TYPE_GOLDENS) + "/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

class WeightTypeTest : public testing::TestWithParam<WeightType> {};

INSTANTIATE_TEST_SUITE_P(Types, WeightTypeTest, testing::ValuesIn(all_weight_types()),
                         [](const auto& test) { return type_name(test.param); });

// The golden rows over and over, so that each stands in many places of a panel.
TEST_P(WeightTypeTest, RowsReadBackEqualTheGoldens) {
  const WeightType type = GetParam();
  const std::vector<std::byte> blocks = read_golden(type_name(type) + ".blocks");
  const std::vector<std::byte> floats = read_golden(type_name(type) + ".f32");
  const std::size_t row_bytes = file_row_bytes(type, kGoldenColumns);
  ASSERT_EQ(blocks.size(), kGoldenRows * row_bytes);
  ASSERT_EQ(floats.size(), kGoldenRows * kGoldenColumns * sizeof(float));
  constexpr int kRows = 40;
  std::vector<std::byte> file_rows(kRows * row_bytes);
  for (int row = 0; row < kRows; row++) {
    std::memcpy(&file_rows[static_cast<std::size_t>(row) * row_bytes],
                &blocks[static_cast<std::size_t>(row % kGoldenRows) * row_bytes], row_bytes);
  }
  const PackedMatrix packed(type, kRows, kGoldenColumns, file_rows);
  std::vector<float> row_values(kGoldenColumns);
  for (int row = 0; row < kRows; row++) {
    unpack_row(packed.matrix, row, row_values.data());
    const std::size_t golden = static_cast<std::size_t>(row % kGoldenRows);
    const std::byte* want = &floats[golden * kGoldenColumns * 4];
    EXPECT_EQ(std::memcmp(row_values.data(), want, kGoldenColumns * 4), 0) << "row " << row;
  }
}

TEST_P(WeightTypeTest, PaddingRowsAreZero) {
  const WeightType type = GetParam();
  const int columns = 256;
  const PackedMatrix packed = random_matrix(type, 37, columns, 5);
  const PanelMatrix whole = {type, 48, columns, packed.matrix.panels};
  std::vector<float> values(columns);
  for (int row = 37; row < 48; row++) {
    unpack_row(whole, row, values.data());
    for (float value : values) EXPECT_EQ(value, 0.0f) << "row " << row;
  }
}

TEST_P(WeightTypeTest, PanelsPackInAnyOrder) {
  const WeightType type = GetParam();
  const int columns = 512;
  const std::vector<std::byte> file_rows = random_file_rows(type, 60, columns, 6);
  const PackedMatrix packed(type, 60, columns, file_rows);
  const AlignedBytes other(packed.bytes.size());
  pack_panels(type, file_rows.data(), 60, columns, 3, 4, other.data());
  pack_panels(type, file_rows.data(), 60, columns, 1, 3, other.data());
  pack_panels(type, file_rows.data(), 60, columns, 0, 1, other.data());
  EXPECT_EQ(std::memcmp(packed.bytes.data(), other.data(), other.size()), 0);
}

TEST_P(WeightTypeTest, ResidentBytesAreTheFiles) {
  const WeightType type = GetParam();
  const int columns = 1280;
  EXPECT_EQ(panel_bytes(type, columns) * 4, file_row_bytes(type, columns) * 64);
  EXPECT_EQ(weight_traits(type).block_columns * (columns / weight_traits(type).block_columns),
            columns);
}

TEST(WeightTypes, FileBytes) {
  EXPECT_EQ(file_row_bytes(WeightType::f32, 7), 28u);
  EXPECT_EQ(file_row_bytes(WeightType::bf16, 7), 14u);
  EXPECT_EQ(file_row_bytes(WeightType::q4_1, 640), 400u);
  EXPECT_EQ(file_row_bytes(WeightType::q5_0, 640), 440u);
  EXPECT_EQ(file_row_bytes(WeightType::q8_0, 640), 680u);
  EXPECT_EQ(file_row_bytes(WeightType::q4_k, 2048), 1152u);
  EXPECT_EQ(file_row_bytes(WeightType::q5_k, 2048), 1408u);
  EXPECT_EQ(file_row_bytes(WeightType::q6_k, 2048), 1680u);
}

TEST(WeightTypes, ActivationBytes) {
  EXPECT_EQ(activation_bytes(ActivationFormat::f32, 3, 7), 128u);
  EXPECT_EQ(activation_bytes(ActivationFormat::int8_group32, 1, 640), 896u);
  EXPECT_EQ(activation_bytes(ActivationFormat::int8_group256, 5, 2048),
            (5u * 8u * 372u + 63u) / 64u * 64u);
}

TEST(WeightTypesDeathTest, ColumnsMustBeWholeBlocks) {
  EXPECT_DEATH(file_row_bytes(WeightType::q4_k, 640), "block_columns");
}

}  // namespace
}  // namespace reprise::kernels
