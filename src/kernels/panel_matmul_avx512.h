// The AVX-512/VNNI matrix multiply of all integer weight types: panels of 16 output rows, a lane
// each, against up to eight rows of x, two tiles, at a time. The arithmetic is that of
// matmul_scalar.cpp, to the last bit.
//
// What bounds it on Zen 4 is the pair of pipes that does all multiplies (vpdpbusd, vpmulld,
// vpdpwssd, float multiply and fma), one 64-byte instruction a cycle; loads, adds, shifts and
// conversions are free beside it. So weights are unpacked anew for every eight rows (decoding them
// to L1 first was 8 % slower), and zero points come in as the start of the sums, from a table.
#pragma once
#include "base/check.h"
#include "kernels/activation_group.h"
#include "kernels/kernels.h"
#include "kernels/matmul_avx512.h"
#include "kernels/panel_layout.h"
#include "kernels/panel_rows_avx512.h"
#include "kernels/panel_unpack_avx512.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
namespace reprise::kernels::avx512 {

#include "kernels/panel_block.inc"

template <class T>
REPRISE_INLINE const std::uint8_t* units_of(const std::uint8_t* block, ScaleType type) {
  if constexpr (kScaleTypeVaries<T>) {
    return block + T::header_bytes(type);
  } else {
    return block + T::kWeightsAt;
  }
}

// The units of a block, unpacked as they stream past.
template <class T>
struct Units {
  const std::uint8_t* from;
  template <int R, int S>
  REPRISE_INLINE Bytes get(int group) const {
    return T::template weights<R, S>(from + group * T::kUnitBytes);
  }
};
template <class T>
inline constexpr int kGroups = T::kBlock / 32 / T::kUnroll;

// Steps [First, First + Count) of unit R of a group.
template <class T, int R, int First, int Count, class Rows>
REPRISE_INLINE void add_steps(const Units<T>& units, int group, const Rows& rows, __m512i* sums) {
  const int unit = group * T::kUnroll + R;
  unroll<Count>([&] REPRISE_UNROLLED_512(S) {
    const Bytes w = units.template get<R, First + S>(group);
    unroll<Rows::kRows>([&] REPRISE_UNROLLED_512(J) {
      add_dots(sums[J], w, rows.template q<J>(unit * 8 + First + S));
    });
  });
}

// A unit of a block with sub-blocks: its sums times the rows' integer scales, then times the
// activations' factor.
template <class T, int R, bool kTabled, class Rows>
REPRISE_INLINE void add_unit(const Units<T>& units, const typename T::Scales& scales, int group,
                             const Rows& rows, __m512i* isum) {
  constexpr int kRows = Rows::kRows;
  constexpr int kSubs = 32 / T::kSubColumns;  // of a unit
  const int unit = group * T::kUnroll + R;
  __m512i total[kRows];
  unroll<kSubs>([&] REPRISE_UNROLLED_512(H) {
    const int sub = unit * kSubs + H;
    __m512i part[kRows];
    unroll<kRows>([&] REPRISE_UNROLLED_512(J) { part[J] = rows.template start<kTabled, J>(sub); });
    add_steps<T, R, H * 8 / kSubs, 8 / kSubs>(units, group, rows, part);
    const __m512i scale = load_bytes(scales.sub_scale[sub]);
    unroll<kRows>([&] REPRISE_UNROLLED_512(J) {
      const __m512i scaled = _mm512_mullo_epi32(part[J], scale);
      total[J] = H == 0 ? scaled : _mm512_add_epi32(total[J], scaled);
    });
  });
  unroll<kRows>([&] REPRISE_UNROLLED_512(J) {
    const __m512i factor = rows.template factor<J>(unit);
    isum[J] = _mm512_add_epi32(isum[J], _mm512_mullo_epi32(total[J], factor));
  });
}

// Minimums times the (factored) sums of the activations of their 32 or 16 columns.
template <class T, int J, class Rows>
REPRISE_INLINE __m512i sum_of_minimums(const typename T::Scales& scales, const Rows& rows) {
  __m512i msum = _mm512_setzero_si512();
  if constexpr (T::kSubColumns == 32) {
    unroll<4>([&] REPRISE_UNROLLED_512(i) {
      add_pairs(msum, load_bytes(scales.minimum_pair[i]), rows.template sum32<J>(i));
    });
  } else {
    const __m512i ones = _mm512_set1_epi16(1);
    for (int i = 0; i < 8; i++) {
      const __m512i pair = load_bytes(scales.minimum_pair[i]);
      const __m512i first = _mm512_madd_epi16(broadcast4(rows.template minus_sum<J>(2 * i)), ones);
      const __m512i second =
          _mm512_madd_epi16(broadcast4(rows.template minus_sum<J>(2 * i + 1)), ones);
      const __m512i sums = _mm512_mask_mov_epi16(first, 0xaaaaaaaa, _mm512_slli_epi32(second, 16));
      const __m512i factor = rows.template factor<J>(i);
      const __m512i part = _mm512_mullo_epi32(_mm512_madd_epi16(pair, sums), factor);
      msum = _mm512_sub_epi32(msum, part);
    }
  }
  return msum;
}

// The only float arithmetic: one block's part of 16 outputs (Finish).
template <class T, int J, class Rows>
REPRISE_INLINE __m512 finish(__m512 acc, __m512i isum, const typename T::Scales& scales,
                             const Rows& rows) {
  const __m512 a_scale = _mm512_set1_ps(rows.template scale<J>());
  if constexpr (T::kFinish == Finish::bias) {
    const __m512 a_sum = _mm512_set1_ps(rows.template sum<J>());
    acc = _mm512_fmadd_ps(_mm512_load_ps(scales.offset), a_sum, acc);
  }
  if constexpr (T::kFinish == Finish::minimum) {
    const __m512i msum = sum_of_minimums<T, J>(scales, rows);
    const __m512 d = _mm512_mul_ps(_mm512_load_ps(scales.offset), a_scale);
    acc = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(msum), d, acc);
  }
  const __m512 d = _mm512_mul_ps(_mm512_load_ps(scales.scale), a_scale);
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum), d, acc);
}

template <class T, bool kTabled, class Rows>
REPRISE_INLINE void add_block(const std::uint8_t* block, ScaleType scale_type, const Rows& rows,
                              __m512* acc) {
  constexpr int kRows = Rows::kRows;
  typename T::Scales scales;
  unpack_block_scales<T>(block, scale_type, scales);
  const Units<T> units = {units_of<T>(block, scale_type)};
  __m512i isum[kRows];
  if constexpr (T::kBlock == 256) {
    unroll<kRows>([&] REPRISE_UNROLLED_512(J) { isum[J] = _mm512_setzero_si512(); });
    for (int g = 0; g < kGroups<T>; g++) {
      unroll<T::kUnroll>(
          [&] REPRISE_UNROLLED_512(R) { add_unit<T, R, kTabled>(units, scales, g, rows, isum); });
    }
  } else {
    unroll<kRows>([&] REPRISE_UNROLLED_512(J) { isum[J] = rows.template start<kTabled, J>(0); });
    unroll<kGroups<T>>(
        [&] REPRISE_UNROLLED_512(g) { add_steps<T, 0, 0, 8>(units, g, rows, isum); });
  }
  unroll<kRows>(
      [&] REPRISE_UNROLLED_512(J) { acc[J] = finish<T, J>(acc[J], isum[J], scales, rows); });
}

// One panel with one or two tiles: the sums of rows [row, row + A + B) of x to their places.
template <class T, bool kTabled, int A, int B>
__attribute__((noinline)) void multiply_rows(const MatmulCall& call, int panel,
                                             const std::uint8_t* block, TileRows<T, A, B> rows,
                                             int row) {
  __m512 acc[A + B];
  unroll<A + B>([&] REPRISE_UNROLLED_512(J) { acc[J] = _mm512_setzero_ps(); });
  for (int i = 0; i < call.columns / T::kBlock; i++) {
    add_block<T, kTabled>(block, call.scale_type, rows, acc);
    block += block_bytes<T>(call.scale_type);
    rows.next();
  }
  const int first = panel * kPanelRows;
  float* to = call.out + static_cast<std::size_t>(row) * call.out_stride + first;
  unroll<A + B>([&] REPRISE_UNROLLED_512(J) {
    store_outputs(acc[J], to, call.outputs - first);
    to += call.out_stride;
  });
}

// Speed only, never the result.
inline constexpr int kTilesAtOnce = 32;  // tiles that meet a panel before the next: they stay in L2
inline constexpr int kRowsWithTable = 3;  // from here on the table pays
inline constexpr std::size_t kTableBytes = 512 * 1024;
static_assert(kTableBytes <= kMatmulScratchBytes);

// What one call's loops share.
template <class T>
struct Tiles {
  const MatmulCall& call;
  int begin;  // the tile that comes first in the table
  std::int32_t* table;

  template <int Rows>
  REPRISE_INLINE const Group<T, Rows>* groups(int tile) const {
    const std::uint8_t* at = call.activations + tile_offset<T::kBlock>(tile, call.columns);
    return reinterpret_cast<const Group<T, Rows>*>(at);
  }
  REPRISE_INLINE std::int32_t* table_of(int tile) const {
    const int values = kStarts<T> * (call.columns / T::kBlock);
    return table +
           static_cast<std::size_t>((tile - begin) * kTileRows) * static_cast<std::size_t>(values);
  }
  template <bool kTabled, int A, int B>
  REPRISE_INLINE void multiply(int panel, const std::uint8_t* weights, int tile) const {
    const TileRows<T, A, B> rows = {groups<A>(tile), groups<B>(tile + 1), table_of(tile),
                                    table_of(tile + 1)};
    multiply_rows<T, kTabled, A, B>(call, panel, weights, rows, tile * kTileRows);
  }
};

// Tiles `tile` and `tile` + 1, if it is below `end`.
template <class T>
REPRISE_INLINE void multiply_pair(const Tiles<T>& tiles, int panel, const std::uint8_t* weights,
                                  int tile, int end) {
  const int a = tile_rows(tiles.call.rows, tile);
  const int b = tile + 1 < end ? tile_rows(tiles.call.rows, tile + 1) : 0;
  switch (a + b) {
    case 1:
      return tiles.template multiply<true, 1, 0>(panel, weights, tile);
    case 2:
      return tiles.template multiply<true, 2, 0>(panel, weights, tile);
    case 3:
      return tiles.template multiply<true, 3, 0>(panel, weights, tile);
    case 4:
      return tiles.template multiply<true, 4, 0>(panel, weights, tile);
    case 5:
      return tiles.template multiply<true, 4, 1>(panel, weights, tile);
    case 6:
      return tiles.template multiply<true, 4, 2>(panel, weights, tile);
    case 7:
      return tiles.template multiply<true, 4, 3>(panel, weights, tile);
    default:
      return tiles.template multiply<true, 4, 4>(panel, weights, tile);
  }
}

template <class T, int Rows>
void fill_tile(const Tiles<T>& tiles, int tile) {
  const Group<T, Rows>* group = tiles.template groups<Rows>(tile);
  std::int32_t* to = tiles.table_of(tile);
  for (int b = 0; b < tiles.call.columns / T::kBlock; b++, to += kStarts<T> * Rows) {
    fill_starts<T, Rows>(group[b], to);
  }
}
template <class T>
void fill_tiles(const Tiles<T>& tiles, int end) {
  for (int tile = tiles.begin; tile < end; tile++) {
    switch (tile_rows(tiles.call.rows, tile)) {
      case 1:
        fill_tile<T, 1>(tiles, tile);
        break;
      case 2:
        fill_tile<T, 2>(tiles, tile);
        break;
      case 3:
        fill_tile<T, 3>(tiles, tile);
        break;
      default:
        fill_tile<T, 4>(tiles, tile);
        break;
    }
  }
}

// Tiles that fit into the table, an even number.
template <class T>
int tiles_at_once(int columns) {
  const std::size_t tile_bytes = sizeof(std::int32_t) * kTileRows *
                                 static_cast<std::size_t>(kStarts<T> * (columns / T::kBlock));
  int tiles = kTilesAtOnce;
  while (tiles > 2 && tile_bytes * static_cast<std::size_t>(tiles) > kTableBytes) tiles /= 2;
  CHECK(tile_bytes * static_cast<std::size_t>(tiles) <= kMatmulScratchBytes);  // 500,000 columns
  return tiles;
}

template <class T>
void multiply_panels(const MatmulCall& call, int panel_begin, int panel_end,
                     std::uint8_t* scratch) {
  const std::size_t panel_size =
      static_cast<std::size_t>(call.columns / T::kBlock) * block_bytes<T>(call.scale_type);
  const int count = tile_count(call.rows);
  const int at_once = tiles_at_once<T>(call.columns);
  for (int begin = 0; begin < count; begin += at_once) {
    const int end = smaller(count, begin + at_once);
    const Tiles<T> tiles = {call, begin, reinterpret_cast<std::int32_t*>(scratch)};
    if constexpr (kStarts<T> > 0) {
      if (call.rows >= kRowsWithTable) fill_tiles(tiles, end);
    }
    for (int p = panel_begin; p < panel_end; p++) {
      const std::uint8_t* panel = call.panels + static_cast<std::size_t>(p) * panel_size;
      if (call.rows == 1) {
        tiles.template multiply<false, 1, 0>(p, panel, begin);
      } else if (call.rows < kRowsWithTable) {
        tiles.template multiply<false, 2, 0>(p, panel, begin);
      } else {
        for (int tile = begin; tile < end; tile += 2) multiply_pair(tiles, p, panel, tile, end);
      }
    }
  }
}

#include "kernels/multiply_affine.inc"

}  // namespace reprise::kernels::avx512
#pragma GCC pop_options
