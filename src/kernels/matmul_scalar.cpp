// The scalar twin of the matrix multiply: the numeric contract in plain C++. It knows nothing of
// vectors or runs; weights come out of the panel one block of 16 rows at a time.
#include <type_traits>

#include "kernels/activation_group.h"
#include "kernels/kernels.h"
#include "kernels/matmul.h"
#include "kernels/panel_layouts.h"

namespace reprise::kernels::scalar {

namespace {

// Rows of x that share one decoding of a block; their 16 sums each lie in the scratch memory.
constexpr int kRowsAtOnce = 512;
using Sums = float[kPanelRows];
static_assert(sizeof(Sums) * kRowsAtOnce <= kMatmulScratchBytes);

// One block of a panel as plain integers.
template <class Layout>
struct Block {
  static constexpr int kSubs = Layout::kBlock / Layout::kSubColumns;
  float scale[kPanelRows];
  float offset[kPanelRows];
  std::int32_t sub_scale[kSubs][kPanelRows];
  std::int32_t sub_minimum[kSubs][kPanelRows];
  std::int16_t quant[Layout::kBlock][kPanelRows];
};

template <class Layout>
void decode(const Layout& layout, const std::uint8_t* packed, Block<Layout>& block) {
  for (int row = 0; row < kPanelRows; row++) {
    block.scale[row] = layout.scale(packed, row);
    block.offset[row] = layout.offset(packed, row);
    for (int sub = 0; sub < Block<Layout>::kSubs; sub++) {
      block.sub_scale[sub][row] = layout.sub_scale(packed, row, sub);
      block.sub_minimum[sub][row] = layout.sub_minimum(packed, row, sub);
    }
  }
  for (int k = 0; k < Layout::kBlock; k++) {
    for (int row = 0; row < kPanelRows; row++) {
      const int quant = layout.quant(packed, row, k) - Layout::kZero;
      block.quant[k][row] = static_cast<std::int16_t>(quant);
    }
  }
}

template <int Columns>
int factor_of(const ActivationGroup<Columns, 1>& a, int k) {
  if constexpr (Columns == 256) return a.factor[k / 32][0][0];
  return 1;
}

// factor * (sum of q) of a sub-block that has a minimum.
template <int SubColumns>
int sum_of(const ActivationGroup<256, 1>& a, int sub) {
  if constexpr (SubColumns == 32) return a.sum32[sub / 2][0][sub % 2];
  static_assert(SubColumns == 16 || SubColumns == 32);
  return -(a.minus_sum[sub][0][0] + a.minus_sum[sub][0][1]) * a.factor[sub / 2][0][0];
}

// The exact integer sums of one block and one row of x.
template <class Layout>
void integer_sums(const Block<Layout>& block, const ActivationGroup<Layout::kBlock, 1>& a,
                  std::int32_t* isum) {
  for (int row = 0; row < kPanelRows; row++) isum[row] = 0;
  for (int sub = 0; sub < Block<Layout>::kSubs; sub++) {
    std::int32_t part[kPanelRows] = {};
    const int first = sub * Layout::kSubColumns;
    for (int k = first; k < first + Layout::kSubColumns; k++) {
      const std::int16_t q = a.q[k / 4][0][k % 4];
      for (int row = 0; row < kPanelRows; row++) part[row] += block.quant[k][row] * q;
    }
    const int factor = factor_of(a, first);
    for (int row = 0; row < kPanelRows; row++) {
      isum[row] += part[row] * block.sub_scale[sub][row] * factor;
    }
  }
}

template <class Layout>
void add_block(const Block<Layout>& block, const ActivationGroup<Layout::kBlock, 1>& a,
               float* sums) {
  std::int32_t isum[kPanelRows];
  integer_sums<Layout>(block, a, isum);
  for (int row = 0; row < kPanelRows; row++) {
    float acc = sums[row];
    if constexpr (Layout::kFinish == Finish::bias) {
      acc = __builtin_fmaf(block.offset[row], a.sum[0], acc);
    }
    if constexpr (Layout::kFinish == Finish::minimum) {
      std::int32_t msum = 0;
      for (int sub = 0; sub < Block<Layout>::kSubs; sub++) {
        msum += block.sub_minimum[sub][row] * sum_of<Layout::kSubColumns>(a, sub);
      }
      acc = __builtin_fmaf(-static_cast<float>(msum), block.offset[row] * a.scale[0], acc);
    }
    sums[row] = __builtin_fmaf(static_cast<float>(isum[row]), block.scale[row] * a.scale[0], acc);
  }
}

// Rows [row_begin, row_end) of x against one panel of integer weights.
template <class Layout>
void multiply(const Layout& layout, const std::uint8_t* panel, const std::uint8_t* activations,
              int rows, int columns, int row_begin, int row_end, Sums* sums) {
  using Group = ActivationGroup<Layout::kBlock, 1>;
  for (int b = 0; b < columns / Layout::kBlock; b++) {
    Block<Layout> block;
    decode(layout, panel + static_cast<std::size_t>(b) * block_bytes(layout), block);
    for (int m = row_begin; m < row_end; m++) {
      const int tile = m / kTileRows;
      const int width = tile_rows(rows, tile);
      Group a;
      take_row(activations + tile_offset<Layout::kBlock>(tile, columns) +
                   static_cast<std::size_t>(b * width) * sizeof(Group),
               width, m % kTileRows, a);
      add_block<Layout>(block, a, sums[m - row_begin]);
    }
  }
}

// The same for float weights: one fma chain per output, k ascending.
template <class Layout>
void multiply_floats(const std::uint8_t* panel, const std::uint8_t* activations, int columns,
                     int row_begin, int row_end, Sums* sums) {
  for (int k = 0; k < columns; k++) {
    float weights[kPanelRows];
    const std::uint8_t* column = panel + static_cast<std::size_t>(k) * Layout::kPanelBytes;
    for (int row = 0; row < kPanelRows; row++) weights[row] = Layout::weight(column, row, 0);
    for (int m = row_begin; m < row_end; m++) {
      const std::size_t at = static_cast<std::size_t>(m) * static_cast<std::size_t>(columns) +
                             static_cast<std::size_t>(k);
      float x;
      std::memcpy(&x, activations + at * sizeof x, sizeof x);
      float* acc = sums[m - row_begin];
      for (int row = 0; row < kPanelRows; row++) {
        acc[row] = __builtin_fmaf(x, weights[row], acc[row]);
      }
    }
  }
}

}  // namespace

void matmul(const PanelMatrix& weights, const std::uint8_t* activations, int rows, int panel_begin,
            int panel_end, float* out, std::size_t out_stride, std::uint8_t* scratch) {
  const std::size_t bytes = weights.panel_bytes();
  Sums* sums = reinterpret_cast<Sums*>(scratch);
  for (int panel = panel_begin; panel < panel_end; panel++) {
    const std::uint8_t* from = weights.panels + static_cast<std::size_t>(panel) * bytes;
    const int first = panel * kPanelRows;
    const int count = weights.rows - first < kPanelRows ? weights.rows - first : kPanelRows;
    for (int begin = 0; begin < rows; begin += kRowsAtOnce) {
      const int end = rows - begin < kRowsAtOnce ? rows : begin + kRowsAtOnce;
      std::memset(sums, 0, sizeof(Sums) * static_cast<std::size_t>(end - begin));
      with_matrix_layout(weights, [&](const auto& layout) {
        using Layout = std::remove_cvref_t<decltype(layout)>;
        if constexpr (Layout::kBlock == 1) {
          multiply_floats<Layout>(from, activations, weights.columns, begin, end, sums);
        } else {
          multiply(layout, from, activations, rows, weights.columns, begin, end, sums);
        }
      });
      for (int m = begin; m < end; m++) {
        std::memcpy(out + static_cast<std::size_t>(m) * out_stride + first, sums[m - begin],
                    sizeof(float) * static_cast<std::size_t>(count));
      }
    }
  }
}

}  // namespace reprise::kernels::scalar
