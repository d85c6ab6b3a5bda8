// Weight types: their table of facts, packing into panels, and reading rows back.
#include "kernels/weight_type.h"

#include <iterator>
#include <type_traits>

#include "base/check.h"
#include "kernels/activation_group.h"
#include "kernels/pack_words.h"
#include "kernels/panel_layouts.h"

namespace reprise::kernels {

namespace {

template <class Layout>
constexpr WeightTraits traits_of(const char* name, ActivationFormat activations) {
  static_assert(Layout::kPanelBytes == kPanelRows * Layout::kFileBytes,
                "resident bytes equal the file's");
  return {name, Layout::kBlock, Layout::kFileBytes, activations};
}

template <int Bits>
constexpr WeightTraits affine_traits(const char* name) {
  return {name, 32, PanelAffine<Bits, 32>::kFileBytes, ActivationFormat::int8_group32};
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
    traits_of<PanelQ2_K>("Q2_K", ActivationFormat::int8_group256),
    traits_of<PanelQ3_K>("Q3_K", ActivationFormat::int8_group256),
    traits_of<PanelIQ4_NL>("IQ4_NL", ActivationFormat::int8_group32),
    traits_of<PanelIQ4_XS>("IQ4_XS", ActivationFormat::int8_group256),
    affine_traits<2>("MLX 2-bit"),
    affine_traits<3>("MLX 3-bit"),
    affine_traits<4>("MLX 4-bit"),
    affine_traits<5>("MLX 5-bit"),
    affine_traits<6>("MLX 6-bit"),
    affine_traits<8>("MLX 8-bit"),
};
constexpr int kAffineBits[] = {2, 3, 4, 5, 6, 8};  // of mlx2 .. mlx8, in this order

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
    for (int r = 0; r < kPanelRows; r++) {
      WordPacker<Layout>::pack_row(file[r], r, block);
      file[r] += steps[r];
    }
  }
}

template <class Layout>
void pack_affine_panel(const Layout& layout, const PanelMatrix& shape, const AffineRows& rows,
                       int panel, std::uint8_t* block) {
  static_assert(Layout::kFileBytes <= static_cast<int>(sizeof kZeroBlock));
  const std::size_t size = static_cast<std::size_t>(scale_bytes(shape.scale_type));
  const std::size_t groups = static_cast<std::size_t>(shape.columns / Layout::kBlock);
  const auto* zeros = reinterpret_cast<const std::byte*>(kZeroBlock);
  for (std::size_t group = 0; group < groups; group++, block += block_bytes(layout)) {
    for (int r = 0; r < kPanelRows; r++) {
      const int row = panel * kPanelRows + r;
      if (row >= shape.rows) {
        pack_affine_row(layout, kZeroBlock, zeros, zeros, r, block);
        continue;
      }
      const std::size_t at = static_cast<std::size_t>(row) * groups + group;
      pack_affine_row(layout,
                      reinterpret_cast<const std::uint8_t*>(rows.quants) + at * Layout::kFileBytes,
                      rows.scales + at * size, rows.biases + at * size, r, block);
    }
  }
}

}  // namespace

bool is_affine(WeightType type) {
  return type >= WeightType::mlx2 && type <= WeightType::mlx8;
}

int affine_bits(WeightType type) {
  CHECK(is_affine(type));
  return kAffineBits[static_cast<int>(type) - static_cast<int>(WeightType::mlx2)];
}

std::optional<WeightType> affine_type(int bits) {
  for (int i = 0; i < static_cast<int>(std::size(kAffineBits)); i++) {
    if (kAffineBits[i] == bits) {
      return static_cast<WeightType>(static_cast<int>(WeightType::mlx2) + i);
    }
  }
  return std::nullopt;
}

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
  CHECK(!is_affine(type));
  return file_row_bytes(type, columns) * kPanelRows;
}

std::size_t PanelMatrix::panel_bytes() const {
  if (!is_affine(type)) return kernels::panel_bytes(type, columns);
  return with_affine_layout(*this, [&](const auto& layout) {
    CHECK(columns >= 0 && columns % layout.kBlock == 0);
    return static_cast<std::size_t>(columns / layout.kBlock) * block_bytes(layout);
  });
}

ActivationFormat PanelMatrix::activations() const {
  if (is_affine(type) && group == 64) return ActivationFormat::int8_group64;
  if (is_affine(type) && group == 128) return ActivationFormat::int8_group128;
  return weight_traits(type).activations;
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

void pack_affine_panels(const PanelMatrix& shape, const AffineRows& rows, int panel_begin,
                        int panel_end, std::uint8_t* panels) {
  const std::size_t bytes = shape.panel_bytes();
  with_affine_layout(shape, [&](const auto& layout) {
    for (int panel = panel_begin; panel < panel_end; panel++) {
      pack_affine_panel(layout, shape, rows, panel,
                        panels + static_cast<std::size_t>(panel) * bytes);
    }
  });
}

void unpack_row(const PanelMatrix& matrix, int row, float* out) {
  CHECK(row >= 0 && row < matrix.rows);
  const std::size_t before = static_cast<std::size_t>(row / kPanelRows);
  const std::uint8_t* block = matrix.panels + before * matrix.panel_bytes();
  with_matrix_layout(matrix, [&](const auto& layout) {
    for (int k = 0; k < matrix.columns; k += layout.kBlock, block += block_bytes(layout)) {
      for (int i = 0; i < layout.kBlock; i++) {
        out[k + i] = layout.weight(block, row % kPanelRows, i);
      }
    }
  });
}

// A file block's values are read from place 0 of a panel block: one way to read, one set of bits.
void read_file_row(WeightType type, const std::byte* row, int columns, float* out) {
  CHECK(columns >= 0 && columns % weight_traits(type).block_columns == 0);
  with_layout(type, [&](auto layout) {
    using Layout = decltype(layout);
    std::uint8_t block[Layout::kPanelBytes] = {};
    const auto* file = reinterpret_cast<const std::uint8_t*>(row);
    for (int k = 0; k < columns; k += Layout::kBlock, file += Layout::kFileBytes) {
      Layout::pack_row(file, 0, block);
      for (int i = 0; i < Layout::kBlock; i++) out[k + i] = Layout::weight(block, 0, i);
    }
  });
}

void read_affine_row(const PanelMatrix& shape, const AffineRows& row, float* out) {
  with_affine_layout(shape, [&](const auto& layout) {
    using Layout = std::remove_cvref_t<decltype(layout)>;
    CHECK(shape.columns >= 0 && shape.columns % Layout::kBlock == 0);
    std::uint8_t block[Layout::block_bytes(ScaleType::f32)] = {};
    const auto* quants = reinterpret_cast<const std::uint8_t*>(row.quants);
    std::size_t at = 0;
    for (int k = 0; k < shape.columns; k += Layout::kBlock) {
      layout.pack_row(quants, row.scales + at, row.biases + at, 0, block);
      for (int i = 0; i < Layout::kBlock; i++) out[k + i] = layout.weight(block, 0, i);
      quants += Layout::kFileBytes;
      at += static_cast<std::size_t>(scale_bytes(shape.scale_type));
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
  if (format == ActivationFormat::int8_group64) {
    bytes = n * (k / 64) * sizeof(ActivationGroup<64, 1>);
  }
  if (format == ActivationFormat::int8_group128) {
    bytes = n * (k / 128) * sizeof(ActivationGroup<128, 1>);
  }
  if (format == ActivationFormat::int8_group256) {
    bytes = n * (k / 256) * sizeof(ActivationGroup<256, 1>);
  }
  return (bytes + 63) / 64 * 64;
}

}  // namespace reprise::kernels
