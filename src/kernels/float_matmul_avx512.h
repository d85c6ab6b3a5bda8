// The AVX-512 matrix multiply of F32, F16 and BF16 weights with float activations: panels
// [columns][16], a vector a column, one fma chain over ascending k per output, as in
// matmul_scalar.cpp. A chain waits four cycles for each fma, so four to eight rows go together; up
// to four rows are AVX2's, which has more chains of half the width.
#pragma once
#include "kernels/activation_group.h"
#include "kernels/kernels.h"
#include "kernels/matmul_avx512.h"
#include "kernels/panel_float.h"
#include "kernels/panel_vectors_avx512.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
namespace reprise::kernels::avx512 {

inline constexpr int kFloatRows = 8;          // of x, together
inline constexpr int kFloatRowsAtOnce = 128;  // rows that meet a panel's columns in L1
inline constexpr int kFloatColumns = 256;     // those columns: at most 16 KiB
inline constexpr int kPrefetchBytes = 2048;

using RowSums = float[kPanelRows];
static_assert(sizeof(RowSums) * (kFloatRowsAtOnce + 3) <= kMatmulScratchBytes);

// A panel's column.
template <class Layout>
REPRISE_INLINE __m512 load_weights(const std::uint8_t* column) {
  if constexpr (Layout::kType == WeightType::f32) {
    return _mm512_loadu_ps(column);
  } else if constexpr (Layout::kType == WeightType::f16) {
    return load_halves(column);
  } else {
    return load_bfloats(column);
  }
}

// `columns` columns of a panel times Rows rows of x, `x_stride` floats apart, added to `sums`.
template <class Layout, int Rows>
__attribute__((noinline)) void add_columns(const std::uint8_t* panel, const float* x,
                                           std::size_t x_stride, int columns, RowSums* sums) {
  __m512 acc[Rows];
  unroll<Rows>([&] REPRISE_UNROLLED_512(j) { acc[j] = _mm512_loadu_ps(sums[j]); });
  for (int k = 0; k < columns; k++) {
    _mm_prefetch(reinterpret_cast<const char*>(panel + kPrefetchBytes), _MM_HINT_T0);
    const __m512 weights = load_weights<Layout>(panel);
    panel += Layout::kPanelBytes;
    unroll<Rows>([&] REPRISE_UNROLLED_512(j) {
      const float value = x[static_cast<std::size_t>(j) * x_stride + static_cast<std::size_t>(k)];
      acc[j] = _mm512_fmadd_ps(_mm512_set1_ps(value), weights, acc[j]);
    });
  }
  unroll<Rows>([&] REPRISE_UNROLLED_512(j) { _mm512_storeu_ps(sums[j], acc[j]); });
}

// How many of the `rows` rows that are left, more than three, go next: never less than four.
REPRISE_INLINE int next_rows(int rows) {
  if (rows <= kFloatRows) return rows;
  return rows < kFloatRows + 4 ? (rows + 1) / 2 : kFloatRows;
}
template <class Layout>
REPRISE_INLINE void add_rows(const std::uint8_t* panel, const float* x, std::size_t x_stride,
                             int columns, int rows, RowSums* sums) {
  switch (rows) {
    case 4:
      return add_columns<Layout, 4>(panel, x, x_stride, columns, sums);
    case 5:
      return add_columns<Layout, 5>(panel, x, x_stride, columns, sums);
    case 6:
      return add_columns<Layout, 6>(panel, x, x_stride, columns, sums);
    case 7:
      return add_columns<Layout, 7>(panel, x, x_stride, columns, sums);
    default:
      return add_columns<Layout, 8>(panel, x, x_stride, columns, sums);
  }
}

// Rows [begin, end), 4 .. kFloatRowsAtOnce + 3 of them, with one panel.
template <class Layout>
void multiply_panel(const MatmulCall& call, int panel, int begin, int end, RowSums* sums) {
  const std::size_t columns = static_cast<std::size_t>(call.columns);
  const std::uint8_t* from =
      call.panels + static_cast<std::size_t>(panel) * columns * Layout::kPanelBytes;
  const float* x = reinterpret_cast<const float*>(call.activations);
  std::memset(sums, 0, sizeof(RowSums) * static_cast<std::size_t>(end - begin));
  const int at_once = end - begin <= kFloatRows ? call.columns : kFloatColumns;
  for (int first = 0; first < call.columns; first += at_once) {
    const int count = smaller(at_once, call.columns - first);
    for (int row = begin; row < end;) {
      const int rows = next_rows(end - row);
      add_rows<Layout>(from + static_cast<std::size_t>(first) * Layout::kPanelBytes,
                       x + static_cast<std::size_t>(row) * columns + first, columns, count, rows,
                       sums + (row - begin));
      row += rows;
    }
  }
  const int output = panel * kPanelRows;
  for (int row = begin; row < end; row++) {
    store_outputs(_mm512_loadu_ps(sums[row - begin]),
                  call.out + static_cast<std::size_t>(row) * call.out_stride + output,
                  call.outputs - output);
  }
}

// Five rows or more.
template <class Layout>
void multiply_floats(const MatmulCall& call, int panel_begin, int panel_end,
                     std::uint8_t* scratch) {
  for (int begin = 0; begin < call.rows;) {
    const bool last = call.rows - begin < kFloatRowsAtOnce + 4;
    const int end = last ? call.rows : begin + kFloatRowsAtOnce;
    for (int panel = panel_begin; panel < panel_end; panel++) {
      multiply_panel<Layout>(call, panel, begin, end, reinterpret_cast<RowSums*>(scratch));
    }
    begin = end;
  }
}

}  // namespace reprise::kernels::avx512
#pragma GCC pop_options
