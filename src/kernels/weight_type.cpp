// Weight types: their table of facts, packing into panels, and reading rows back.
#include "kernels/weight_type.h"

#include "base/check.h"
#include "kernels/activation_group.h"
#include "kernels/panel_layouts.h"

namespace reprise::kernels {

namespace {

template <class Layout>
constexpr WeightTraits traits_of(const char* name, ActivationFormat activations) {
  static_assert(Layout::kPanelBytes == kPanelRows * Layout::kFileBytes,
                "resident bytes equal the file's");
  return {name, Layout::kBlock, Layout::kFileBytes, activations};
}

constexpr WeightTraits kTraits[kWeightTypes] = {
    traits_of<PanelF32>("F32", ActivationFormat::f32),
    traits_of<PanelF16>("F16", ActivationFormat::f32),
    traits_of<PanelBF16>("BF16", ActivationFormat::f32),
    traits_of<PanelQ4_0>("Q4_0", ActivationFormat::int8_group32),
    traits_of<PanelQ4_1>("Q4_1", ActivationFormat::int8_group32),
    traits_of<PanelQ5_0>("Q5_0", ActivationFormat::int8_group32),
    traits_of<PanelQ5_1>("Q5_1", ActivationFormat::int8_group32),
    traits_of<PanelQ8_0>("Q8_0", ActivationFormat::int8_group32),
    traits_of<PanelQ4_K>("Q4_K", ActivationFormat::int8_group256),
    traits_of<PanelQ5_K>("Q5_K", ActivationFormat::int8_group256),
    traits_of<PanelQ6_K>("Q6_K", ActivationFormat::int8_group256),
};

// What a padding row is packed from; an all-zero block is zero weights in every type.
constexpr std::uint8_t kZeroBlock[PanelQ6_K::kFileBytes] = {};

template <class Layout>
void pack_panel(const std::uint8_t* file_rows, int rows, int columns, int panel,
                std::uint8_t* block) {
  static_assert(Layout::kFileBytes <= static_cast<int>(sizeof kZeroBlock));
  const std::size_t row_bytes =
      static_cast<std::size_t>(columns / Layout::kBlock) * Layout::kFileBytes;
  const std::uint8_t* file[kPanelRows];
  int steps[kPanelRows];
  for (int r = 0; r < kPanelRows; r++) {
    const int row = panel * kPanelRows + r;
    file[r] = row < rows ? file_rows + static_cast<std::size_t>(row) * row_bytes : kZeroBlock;
    steps[r] = row < rows ? Layout::kFileBytes : 0;
  }
  for (int b = 0; b < columns / Layout::kBlock; b++, block += Layout::kPanelBytes) {
    Layout::pack(file, block);
    for (int r = 0; r < kPanelRows; r++) file[r] += steps[r];
  }
}

}  // namespace

const WeightTraits& weight_traits(WeightType type) {
  CHECK(static_cast<int>(type) < kWeightTypes);
  return kTraits[static_cast<int>(type)];
}

std::size_t file_row_bytes(WeightType type, int columns) {
  const WeightTraits& traits = weight_traits(type);
  CHECK(columns >= 0 && columns % traits.block_columns == 0);
  return static_cast<std::size_t>(columns / traits.block_columns) *
         static_cast<std::size_t>(traits.file_block_bytes);
}

std::size_t panel_bytes(WeightType type, int columns) {
  return file_row_bytes(type, columns) * kPanelRows;
}

void pack_panels(WeightType type, const std::byte* file_rows, int rows, int columns,
                 int panel_begin, int panel_end, std::uint8_t* panels) {
  const std::size_t bytes = panel_bytes(type, columns);
  with_layout(type, [&](auto layout) {
    for (int panel = panel_begin; panel < panel_end; panel++) {
      pack_panel<decltype(layout)>(reinterpret_cast<const std::uint8_t*>(file_rows), rows, columns,
                                   panel, panels + static_cast<std::size_t>(panel) * bytes);
    }
  });
}

void unpack_row(const PanelMatrix& matrix, int row, float* out) {
  CHECK(row >= 0 && row < matrix.rows);
  const std::size_t before = static_cast<std::size_t>(row / kPanelRows);
  const std::uint8_t* panel = matrix.panels + before * panel_bytes(matrix.type, matrix.columns);
  with_layout(matrix.type, [&](auto layout) {
    using Layout = decltype(layout);
    const std::uint8_t* block = panel;
    for (int k = 0; k < matrix.columns; k += Layout::kBlock, block += Layout::kPanelBytes) {
      for (int i = 0; i < Layout::kBlock; i++) {
        out[k + i] = Layout::weight(block, row % kPanelRows, i);
      }
    }
  });
}

std::size_t activation_bytes(ActivationFormat format, int rows, int columns) {
  const std::size_t n = static_cast<std::size_t>(rows);
  const std::size_t k = static_cast<std::size_t>(columns);
  std::size_t bytes = n * k * sizeof(float);
  if (format == ActivationFormat::int8_group32) {
    bytes = n * (k / 32) * sizeof(ActivationGroup<32, 1>);
  }
  if (format == ActivationFormat::int8_group256) {
    bytes = n * (k / 256) * sizeof(ActivationGroup<256, 1>);
  }
  return (bytes + 63) / 64 * 64;
}

}  // namespace reprise::kernels
