// Packing by words gives the very bytes that the layouts' own pack_row gives, for every type.
#include "kernels/pack_words.h"

#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/panel_layouts.h"

namespace reprise::kernels {
namespace {

constexpr int kRows = 21;  // a whole panel, and one of five rows and padding
constexpr int kColumns = 512;

std::vector<std::byte> random_bytes(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 24);
  return bytes;
}

TEST(PackWords, EveryFileTypeAsItsLayoutSays) {
  for (int index = 0; index < kWeightTypes; index++) {
    const auto type = static_cast<WeightType>(index);
    if (is_affine(type)) continue;
    SCOPED_TRACE(weight_traits(type).name);
    const std::size_t row_bytes = file_row_bytes(type, kColumns);
    const auto file = random_bytes(kRows * row_bytes, static_cast<std::uint32_t>(index));
    const std::size_t size = 2 * panel_bytes(type, kColumns);
    std::vector<std::uint8_t> packed(size, 0xEE), expected(size, 0);
    pack_panels(type, file.data(), kRows, kColumns, 0, 2, packed.data());
    with_layout(type, [&](auto layout) {
      using Layout = decltype(layout);
      const std::vector<std::uint8_t> zeros(Layout::kFileBytes, 0);
      for (int row = 0; row < 2 * kPanelRows; row++) {
        std::uint8_t* block = expected.data() + row / kPanelRows * panel_bytes(type, kColumns);
        for (int k = 0; k < kColumns; k += Layout::kBlock, block += Layout::kPanelBytes) {
          const auto* from = reinterpret_cast<const std::uint8_t*>(file.data()) +
                             static_cast<std::size_t>(row) * row_bytes +
                             static_cast<std::size_t>(k / Layout::kBlock * Layout::kFileBytes);
          Layout::pack_row(row < kRows ? from : zeros.data(), row % kPanelRows, block);
        }
      }
    });
    EXPECT_EQ(packed, expected);
  }
}

void check_affine(const PanelMatrix& shape) {
  const auto scale_size = static_cast<std::size_t>(scale_bytes(shape.scale_type));
  const auto groups = static_cast<std::size_t>(kColumns / shape.group);
  const auto quant_bytes = static_cast<std::size_t>(kColumns * affine_bits(shape.type) / 8);
  const auto quants = random_bytes(kRows * quant_bytes, 1);
  const auto scales = random_bytes(kRows * groups * scale_size, 2);
  const auto biases = random_bytes(kRows * groups * scale_size, 3);
  const std::size_t size = 2 * shape.panel_bytes();
  std::vector<std::uint8_t> packed(size, 0xEE), expected(size, 0);
  pack_affine_panels(shape, {quants.data(), scales.data(), biases.data()}, 0, 2, packed.data());
  with_affine_layout(shape, [&](const auto& layout) {
    const std::vector<std::uint8_t> zeros(quant_bytes, 0);
    const auto* none = reinterpret_cast<const std::byte*>(zeros.data());
    for (std::size_t row = 0; row < 2 * kPanelRows; row++) {
      std::uint8_t* block = expected.data() + row / kPanelRows * shape.panel_bytes();
      for (std::size_t group = 0; group < groups; group++, block += block_bytes(layout)) {
        const std::size_t at = row * groups + group;
        const bool is_there = row < kRows;
        layout.pack_row(is_there ? reinterpret_cast<const std::uint8_t*>(quants.data()) +
                                       at * (quant_bytes / groups)
                                 : zeros.data(),
                        is_there ? scales.data() + at * scale_size : none,
                        is_there ? biases.data() + at * scale_size : none,
                        static_cast<int>(row) % kPanelRows, block);
      }
    }
  });
  EXPECT_EQ(packed, expected);
}

TEST(PackWords, EveryAffineTypeAsItsLayoutSays) {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      for (const ScaleType scales : {ScaleType::f16, ScaleType::bf16, ScaleType::f32}) {
        SCOPED_TRACE(::testing::Message() << bits << " bits, group " << group);
        PanelMatrix shape{*affine_type(bits), kRows, kColumns};
        shape.group = group;
        shape.scale_type = scales;
        check_affine(shape);
      }
    }
  }
}

}  // namespace
}  // namespace reprise::kernels
