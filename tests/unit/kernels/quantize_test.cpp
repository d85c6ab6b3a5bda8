// The quantisers give the integers and scales of gguf-py and of mlx (goldens), and stay in bounds.
#include "kernels/quantize.h"

#include <gtest/gtest.h>

#include "compare.h"
#include "goldens.h"
#include "matrices.h"

namespace reprise::kernels {
namespace {

constexpr int kRows = 8;
constexpr int kColumns = 384;

const float* row_of(const std::vector<float>& x, int row) {
  return &x[static_cast<std::size_t>(row * kColumns)];
}

TEST(Quantize, Q8_0BlocksAreThoseOfGgml) {
  const std::vector<float> x = floats_of(read_golden("quantize.f32"));
  const std::vector<std::byte> want = read_golden("quantize_q8_0.blocks");
  ASSERT_EQ(x.size(), static_cast<std::size_t>(kRows * kColumns));
  const std::size_t row_bytes = file_row_bytes(WeightType::q8_0, kColumns);
  ASSERT_EQ(want.size(), kRows * row_bytes);
  std::vector<std::byte> got(want.size());
  for (int row = 0; row < kRows; row++) {
    quantize_row_q8_0(row_of(x, row), kColumns, &got[static_cast<std::size_t>(row) * row_bytes]);
  }
  EXPECT_EQ(got, want);
}

TEST(Quantize, AffineGroupsAreThoseOfMlx) {
  const std::vector<float> x = floats_of(read_golden("quantize.f32"));
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int group : {32, 64, 128}) {
      const std::string name = "quantize_mlx" + std::to_string(bits) + "_g" + std::to_string(group);
      const std::vector<std::byte> want = read_golden(name + ".bin");
      const std::size_t row_bytes = static_cast<std::size_t>(kColumns * bits / 8);
      const std::size_t row_groups = static_cast<std::size_t>(kColumns / group);
      std::vector<std::byte> quants(kRows * row_bytes);
      std::vector<float> scales(kRows * row_groups), biases(kRows * row_groups);
      for (std::size_t row = 0; row < kRows; row++) {
        quantize_row_affine(row_of(x, static_cast<int>(row)), kColumns, bits, group,
                            &quants[row * row_bytes], &scales[row * row_groups],
                            &biases[row * row_groups]);
      }
      const std::size_t scale_size = scales.size() * sizeof(float);
      ASSERT_EQ(want.size(), quants.size() + 2 * scale_size) << name;
      EXPECT_EQ(std::memcmp(quants.data(), want.data(), quants.size()), 0) << name;
      const std::byte* rest = want.data() + quants.size();
      EXPECT_EQ(std::memcmp(scales.data(), rest, scale_size), 0) << name;
      EXPECT_EQ(std::memcmp(biases.data(), rest + scale_size, scale_size), 0) << name;
    }
  }
}

// Values whose 1 / d is infinite, and values that are not finite, must not be undefined behaviour.
TEST(Quantize, AwkwardValuesStayDefined) {
  std::vector<float> x = awkward_values(384, 41);
  for (std::size_t i = 0; i < 32; i++) x[i] = i % 2 == 0 ? 1e-42f : -1e-43f;
  std::vector<std::byte> blocks(file_row_bytes(WeightType::q8_0, kColumns));
  quantize_row_q8_0(x.data(), kColumns, blocks.data());
  std::vector<std::byte> quants(static_cast<std::size_t>(kColumns * 3 / 8));
  std::vector<float> scales(12), biases(12);
  quantize_row_affine(x.data(), kColumns, 3, 32, quants.data(), scales.data(), biases.data());
  EXPECT_EQ(scales[0], -1e-7f) << "a group of next to nothing has the smallest scale";
}

// A file that is quantised on load reads back within half a step.
TEST(Quantize, ValuesReadBackWithinHalfAStep) {
  const std::vector<float> x = normal_values(kColumns, 42);
  std::vector<std::byte> quants(static_cast<std::size_t>(kColumns / 2));
  std::vector<float> scales(6), biases(6), back(kColumns);
  quantize_row_affine(x.data(), kColumns, 4, 64, quants.data(), scales.data(), biases.data());
  const PanelMatrix shape = {WeightType::mlx4, 1, kColumns, nullptr, 64, ScaleType::f32};
  read_affine_row(shape,
                  {quants.data(), reinterpret_cast<const std::byte*>(scales.data()),
                   reinterpret_cast<const std::byte*>(biases.data())},
                  back.data());
  for (std::size_t k = 0; k < back.size(); k++) {
    // The grid contains zero, so its far end may miss the group's by half a step more.
    EXPECT_NEAR(back[k], x[k], std::fabs(scales[k / 64]) * 1.001f) << k;
  }
}

}  // namespace
}  // namespace reprise::kernels
