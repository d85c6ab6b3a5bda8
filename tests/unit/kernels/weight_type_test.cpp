// Weight types: packing is lossless (goldens by gguf-py), sizes are the file's, padding is zero.
#include "kernels/weight_type.h"

#include <gtest/gtest.h>

#include "compare.h"
#include "goldens.h"
#include "kernels/activation_group.h"
#include "matrices.h"

namespace reprise::kernels {
namespace {

constexpr int kGoldenRows = 3;
constexpr int kGoldenColumns = 512;

class BlockTypeTest : public testing::TestWithParam<WeightType> {};

INSTANTIATE_TEST_SUITE_P(Types, BlockTypeTest, testing::ValuesIn(block_weight_types()),
                         [](const auto& test) { return form_name({test.param}); });

// The golden rows over and over, so that each stands in many places of a panel.
TEST_P(BlockTypeTest, RowsReadBackEqualTheGoldens) {
  const WeightType type = GetParam();
  const std::vector<std::byte> blocks = read_golden(form_name({type}) + ".blocks");
  const std::vector<std::byte> floats = read_golden(form_name({type}) + ".f32");
  const std::size_t row_bytes = file_row_bytes(type, kGoldenColumns);
  ASSERT_EQ(blocks.size(), kGoldenRows * row_bytes);
  ASSERT_EQ(floats.size(), kGoldenRows * kGoldenColumns * sizeof(float));
  constexpr int kRows = 40;
  std::vector<std::byte> file_rows(kRows * row_bytes);
  for (int row = 0; row < kRows; row++) {
    std::memcpy(&file_rows[static_cast<std::size_t>(row) * row_bytes],
                &blocks[static_cast<std::size_t>(row % kGoldenRows) * row_bytes], row_bytes);
  }
  const PackedMatrix packed(FileMatrix{{type}, kRows, kGoldenColumns, file_rows, {}, {}});
  std::vector<float> row_values(kGoldenColumns);
  for (int row = 0; row < kRows; row++) {
    unpack_row(packed.matrix, row, row_values.data());
    const std::size_t golden = static_cast<std::size_t>(row % kGoldenRows);
    const std::byte* want = &floats[golden * kGoldenColumns * 4];
    EXPECT_EQ(std::memcmp(row_values.data(), want, kGoldenColumns * 4), 0) << "row " << row;
    read_file_row(type, &file_rows[static_cast<std::size_t>(row) * row_bytes], kGoldenColumns,
                  row_values.data());
    EXPECT_EQ(std::memcmp(row_values.data(), want, kGoldenColumns * 4), 0) << "file row " << row;
  }
}

TEST_P(BlockTypeTest, ResidentBytesAreTheFiles) {
  const WeightType type = GetParam();
  const int columns = 1280;
  EXPECT_EQ(panel_bytes(type, columns) * 4, file_row_bytes(type, columns) * 64);
  EXPECT_EQ((PanelMatrix{type, 33, columns}.panel_bytes()), panel_bytes(type, columns));
  EXPECT_EQ((PanelMatrix{type, 33, columns}.activations()), weight_traits(type).activations);
}

class WeightTypeTest : public testing::TestWithParam<WeightForm> {};

INSTANTIATE_TEST_SUITE_P(Forms, WeightTypeTest, testing::ValuesIn(all_weight_forms()),
                         [](const auto& test) { return form_name(test.param); });

// The bits of a row are the same from the panels and from the file.
TEST_P(WeightTypeTest, ARowFromTheFileEqualsTheRowFromThePanels) {
  const int columns = 1280;
  const FileMatrix file = random_file(GetParam(), 19, columns, 4);
  const PackedMatrix packed(file);
  const std::size_t row_bytes = file_row_bytes(file.form.type, columns);
  for (int row = 0; row < file.rows; row++) {
    std::vector<float> from_panels(columns), from_file(columns);
    unpack_row(packed.matrix, row, from_panels.data());
    if (is_affine(file.form.type)) {
      read_affine_row(file.form.shape(file.rows, columns), file.affine_rows(row), from_file.data());
    } else {
      read_file_row(file.form.type, &file.weights[static_cast<std::size_t>(row) * row_bytes],
                    columns, from_file.data());
    }
    EXPECT_EQ(first_difference(from_panels, from_file), -1) << "row " << row;
  }
}

TEST_P(WeightTypeTest, PaddingRowsAreZero) {
  const int columns = 256;
  const PackedMatrix packed = random_matrix(GetParam(), 37, columns, 5);
  PanelMatrix whole = packed.matrix;
  whole.rows = 48;
  std::vector<float> values(columns);
  for (int row = 37; row < 48; row++) {
    unpack_row(whole, row, values.data());
    for (float value : values) EXPECT_EQ(value, 0.0f) << "row " << row;
  }
}

TEST_P(WeightTypeTest, PanelsPackInAnyOrder) {
  const FileMatrix file = random_file(GetParam(), 60, 512, 6);
  const PackedMatrix packed(file);
  const AlignedBytes other(packed.bytes.size());
  PackedMatrix::pack(file, 3, 4, other.data());
  PackedMatrix::pack(file, 1, 3, other.data());
  PackedMatrix::pack(file, 0, 1, other.data());
  EXPECT_EQ(std::memcmp(packed.bytes.data(), other.data(), other.size()), 0);
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
  EXPECT_EQ(file_row_bytes(WeightType::q2_k, 2048), 672u);
  EXPECT_EQ(file_row_bytes(WeightType::q3_k, 2048), 880u);
  EXPECT_EQ(file_row_bytes(WeightType::iq4_nl, 640), 360u);
  EXPECT_EQ(file_row_bytes(WeightType::iq4_xs, 2048), 1088u);
  EXPECT_EQ(file_row_bytes(WeightType::mlx3, 640), 240u);
}

TEST(WeightTypes, ActivationBytes) {
  EXPECT_EQ(activation_bytes(ActivationFormat::f32, 3, 7), 128u);
  EXPECT_EQ(activation_bytes(ActivationFormat::int8_group32, 1, 640), 896u);
  EXPECT_EQ(activation_bytes(ActivationFormat::int8_group256, 5, 2048),
            (5u * 8u * 372u + 63u) / 64u * 64u);
  EXPECT_EQ(activation_bytes(ActivationFormat::int8_group64, 3, 640), 2176u);   // 3 * 10 * 72
  EXPECT_EQ(activation_bytes(ActivationFormat::int8_group128, 3, 640), 2048u);  // 3 * 5 * 136
}

TEST(WeightTypesDeathTest, ColumnsMustBeWholeBlocks) {
  EXPECT_DEATH(file_row_bytes(WeightType::q4_k, 640), "block_columns");
  EXPECT_DEATH((PanelMatrix{WeightType::mlx4, 16, 96, nullptr, 64}.panel_bytes()), "kBlock");
  EXPECT_DEATH((PanelMatrix{WeightType::mlx4, 16, 96, nullptr, 48}.panel_bytes()), "128");
  EXPECT_DEATH(panel_bytes(WeightType::mlx4, 64), "is_affine");
}

}  // namespace
}  // namespace reprise::kernels
