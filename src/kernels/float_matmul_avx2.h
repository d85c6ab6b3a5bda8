// The AVX2 matrix multiply of F32, F16 and BF16 weights with float activations: panels
// [columns][16], one fma chain over ascending k per output, as in matmul_scalar.cpp. A chain waits
// four cycles for each fma, so few rows take several panels at once: six to eight chains in flight.
#pragma once
#include "kernels/activation_group.h"
#include "kernels/kernels.h"
#include "kernels/matmul_avx2.h"
#include "kernels/panel_float.h"
#include "kernels/panel_vectors_avx2.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprise::kernels::avx2 {

inline constexpr int kFloatStreamTiles = 2;   // up to here weights are converted anew for each tile
inline constexpr int kFloatTilesAtOnce = 32;  // tiles that share converted weights
inline constexpr int kFloatColumns = 256;     // columns converted at a time: 16 KiB, half of L1

inline constexpr int kPrefetchBytes = 2048;

struct FloatScratch {
  alignas(64) float converted[kFloatColumns][kPanelRows];
  alignas(64) float sums[kFloatTilesAtOnce][kTileRows][kPanelRows];
};
static_assert(sizeof(FloatScratch) <= kMatmulScratchBytes);

// Rows 8v .. 8v + 7 of a panel's column.
template <class Layout>
REPRISE_INLINE __m256 load_weights(const std::uint8_t* column, int v) {
  if constexpr (Layout::kType == WeightType::f32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(column) + 8 * v);
  } else if constexpr (Layout::kType == WeightType::f16) {
    return load_halves(column + 16 * v);
  } else {
    return load_bfloats(column + 16 * v);
  }
}

// `columns` columns of Panels panels, `panel_size` bytes apart, times Rows rows of x, x_stride
// apart; sums: [Panels][Rows][16], added to.
template <class Layout, int Rows, int Panels>
__attribute__((noinline)) void add_columns(const std::uint8_t* panels, std::size_t panel_size,
                                           const float* x, std::size_t x_stride, int columns,
                                           float* sums) {
  __m256 acc[Panels][Rows][2];
  unroll<Panels>([&] REPRISE_UNROLLED(p) {
    unroll<Rows>([&] REPRISE_UNROLLED(j) {
      acc[p][j][0] = _mm256_loadu_ps(sums + (p * Rows + j) * kPanelRows);
      acc[p][j][1] = _mm256_loadu_ps(sums + (p * Rows + j) * kPanelRows + 8);
    });
  });
  for (int k = 0; k < columns; k++) {
    __m256 value[Rows];
    unroll<Rows>([&] REPRISE_UNROLLED(j) {
      value[j] = _mm256_broadcast_ss(x + static_cast<std::size_t>(j) * x_stride + k);
    });
    unroll<Panels>([&] REPRISE_UNROLLED(p) {
      const std::uint8_t* column = panels + static_cast<std::size_t>(p) * panel_size +
                                   static_cast<std::size_t>(k) * Layout::kPanelBytes;
      // One stream of 16-bit weights outruns the hardware's prefetcher (measured at four rows:
      // 21 -> 36 GMAC/s); several streams, and weights in L1, do not gain.
      if constexpr (Panels == 1 && Layout::kType != WeightType::f32) {
        _mm_prefetch(reinterpret_cast<const char*>(column + kPrefetchBytes), _MM_HINT_T0);
      }
      const __m256 w0 = load_weights<Layout>(column, 0);
      const __m256 w1 = load_weights<Layout>(column, 1);
      unroll<Rows>([&] REPRISE_UNROLLED(j) {
        acc[p][j][0] = _mm256_fmadd_ps(value[j], w0, acc[p][j][0]);
        acc[p][j][1] = _mm256_fmadd_ps(value[j], w1, acc[p][j][1]);
      });
    });
  }
  unroll<Panels>([&] REPRISE_UNROLLED(p) {
    unroll<Rows>([&] REPRISE_UNROLLED(j) {
      _mm256_storeu_ps(sums + (p * Rows + j) * kPanelRows, acc[p][j][0]);
      _mm256_storeu_ps(sums + (p * Rows + j) * kPanelRows + 8, acc[p][j][1]);
    });
  });
}

REPRISE_INLINE const float* tile_values(const MatmulCall& call, int tile) {
  return reinterpret_cast<const float*>(call.activations) +
         static_cast<std::size_t>(tile * kTileRows) * static_cast<std::size_t>(call.columns);
}

// `rows` is the tile's.
REPRISE_INLINE void store_sums(const MatmulCall& call, int tile, int rows, int panel,
                               const float* sums) {
  const int first = panel * kPanelRows;
  float* to = call.out + static_cast<std::size_t>(tile * kTileRows) * call.out_stride + first;
  for (int j = 0; j < rows; j++, to += call.out_stride) {
    store_outputs(sums + j * kPanelRows, to, call.outputs - first);
  }
}

// One tile of Rows rows with panels [panel_begin, panel_end), Panels at a time.
template <class Layout, int Rows, int Panels>
void stream_floats(const MatmulCall& call, int tile, int panel_begin, int panel_end) {
  const std::size_t columns = static_cast<std::size_t>(call.columns);
  const std::size_t panel_size = columns * Layout::kPanelBytes;
  const float* x = tile_values(call, tile);
  int panel = panel_begin;
  for (; panel + Panels <= panel_end; panel += Panels) {
    alignas(32) float sums[Panels * Rows * kPanelRows] = {};
    add_columns<Layout, Rows, Panels>(call.panels + static_cast<std::size_t>(panel) * panel_size,
                                      panel_size, x, columns, call.columns, sums);
    for (int p = 0; p < Panels; p++) {
      store_sums(call, tile, Rows, panel + p, sums + p * Rows * kPanelRows);
    }
  }
  if constexpr (Panels > 1) {
    if (panel < panel_end) stream_floats<Layout, Rows, 1>(call, tile, panel, panel_end);
  }
}

// Converted (or F32) weights of some columns of one panel with one tile.
REPRISE_INLINE void add_columns_to_tile(const float* weights, const float* x, std::size_t x_stride,
                                        int columns, int rows, float* sums) {
  const auto* panel = reinterpret_cast<const std::uint8_t*>(weights);
  switch (rows) {
    case 1:
      return add_columns<PanelF32, 1, 1>(panel, 0, x, x_stride, columns, sums);
    case 2:
      return add_columns<PanelF32, 2, 1>(panel, 0, x, x_stride, columns, sums);
    case 3:
      return add_columns<PanelF32, 3, 1>(panel, 0, x, x_stride, columns, sums);
    default:
      return add_columns<PanelF32, 4, 1>(panel, 0, x, x_stride, columns, sums);
  }
}

template <class Layout>
REPRISE_INLINE const float* convert_columns(const std::uint8_t* from, int columns, float* to) {
  if constexpr (Layout::kType == WeightType::f32) {
    return reinterpret_cast<const float*>(from);
  } else {
    for (int k = 0; k < columns; k++) {
      _mm256_store_ps(to + k * kPanelRows, load_weights<Layout>(from + k * Layout::kPanelBytes, 0));
      _mm256_store_ps(to + k * kPanelRows + 8,
                      load_weights<Layout>(from + k * Layout::kPanelBytes, 1));
    }
    return to;
  }
}

// Tiles [tile_begin, tile_end), at most kFloatTilesAtOnce, with one panel.
template <class Layout>
void multiply_converted(const MatmulCall& call, int panel, int tile_begin, int tile_end,
                        FloatScratch& scratch) {
  const std::size_t columns = static_cast<std::size_t>(call.columns);
  const std::uint8_t* from =
      call.panels + static_cast<std::size_t>(panel) * columns * Layout::kPanelBytes;
  std::memset(scratch.sums, 0, sizeof scratch.sums);
  for (int first = 0; first < call.columns; first += kFloatColumns) {
    const int count = smaller(kFloatColumns, call.columns - first);
    const float* weights = convert_columns<Layout>(
        from + static_cast<std::size_t>(first) * Layout::kPanelBytes, count, scratch.converted[0]);
    for (int tile = tile_begin; tile < tile_end; tile++) {
      add_columns_to_tile(weights, tile_values(call, tile) + first, columns, count,
                          tile_rows(call.rows, tile), scratch.sums[tile - tile_begin][0]);
    }
  }
  for (int tile = tile_begin; tile < tile_end; tile++) {
    store_sums(call, tile, tile_rows(call.rows, tile), panel, scratch.sums[tile - tile_begin][0]);
  }
}

template <class Layout>
void multiply_floats(const MatmulCall& call, int panel_begin, int panel_end,
                     std::uint8_t* scratch) {
  const int tiles = tile_count(call.rows);
  if (tiles > kFloatStreamTiles) {
    auto& own = *reinterpret_cast<FloatScratch*>(scratch);
    for (int begin = 0; begin < tiles; begin += kFloatTilesAtOnce) {
      const int end = smaller(tiles, begin + kFloatTilesAtOnce);
      for (int panel = panel_begin; panel < panel_end; panel++) {
        multiply_converted<Layout>(call, panel, begin, end, own);
      }
    }
    return;
  }
  for (int tile = 0; tile < tiles; tile++) {
    switch (tile_rows(call.rows, tile)) {
      case 1:
        stream_floats<Layout, 1, 4>(call, tile, panel_begin, panel_end);
        break;
      case 2:
        stream_floats<Layout, 2, 2>(call, tile, panel_begin, panel_end);
        break;
      case 3:
        stream_floats<Layout, 3, 1>(call, tile, panel_begin, panel_end);
        break;
      default:
        stream_floats<Layout, 4, 1>(call, tile, panel_begin, panel_end);
        break;
    }
  }
}

}  // namespace reprise::kernels::avx2
#pragma GCC pop_options
