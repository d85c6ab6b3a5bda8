// The AVX2 matrix multiply of all integer weight types: panels of 16 output rows against tiles of
// up to four rows of x. The arithmetic is that of matmul_scalar.cpp, to the last bit.
#pragma once
#include "kernels/activation_group.h"
#include "kernels/kernels.h"
#include "kernels/matmul_avx2.h"
#include "kernels/panel_layout.h"
#include "kernels/panel_unpack_avx2.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprise::kernels::avx2 {

template <class T>
constexpr int kRuns = T::kGroups * T::kUnroll;
template <class T, int Rows>
using Group = ActivationGroup<T::kBlock, Rows>;
#include "kernels/panel_block.inc"

// Where weights() counts from.
template <class T>
REPRISE_INLINE const std::uint8_t* weights_of(const std::uint8_t* block, ScaleType type) {
  if constexpr (kScaleTypeVaries<T>) return block + T::header_bytes(type);
  return block;
}

// The sums of a tile with one panel.
using TileSums = float[kTileRows][kPanelRows];

// Weights unpacked as they stream past.
template <class T>
struct PackedWeights {
  const std::uint8_t* from;
  template <int R, int S, int V>
  REPRISE_INLINE __m256i get(int group) const {
    return T::template weights<R, S, V>(from, group);
  }
};

// Weights of a block that an earlier tile unpacked.
template <class T>
struct alignas(64) DecodedBlock {
  std::uint8_t bytes[kRuns<T>][T::kSteps][2][32];
  typename T::Scales scales;
  template <int R, int S, int V>
  REPRISE_INLINE __m256i get(int group) const {
    return load_bytes(bytes[group * T::kUnroll + R][S][V]);
  }
};

// Weights of a block unpacked as they stream past, and kept for the tiles that follow.
template <class T>
struct KeptWeights {
  const std::uint8_t* from;
  DecodedBlock<T>& to;
  template <int R, int S, int V>
  REPRISE_INLINE __m256i get(int group) const {
    const __m256i x = T::template weights<R, S, V>(from, group);
    store_bytes(to.bytes[group * T::kUnroll + R][S][V], x);
    return x;
  }
};

// The integer factor of a run, for rows 8v .. 8v + 7 of the panel and row j of the tile.
template <class T, int R, int Rows>
REPRISE_INLINE __m256i run_factor(const typename T::Scales& scales, const Group<T, Rows>& a,
                                  int run, int v, int j) {
  if constexpr (T::run_factor(R) != kRowFactor) {
    return _mm256_set1_epi16(T::run_factor(R));
  } else {
    return _mm256_mullo_epi16(load_bytes(scales.run_scale[T::scale_of_run(run)][8 * v]),
                              broadcast4(a.factor[T::first_step(run) / 8][j]));
  }
}

// Where a run's 16-bit sums start: minus the zero point times the sums of the activations.
template <class T, int R, int Rows>
REPRISE_INLINE __m256i run_start(const Group<T, Rows>& a, int run, int j) {
  if constexpr (T::zero_shift(R) < 0) {
    return _mm256_setzero_si256();
  } else {
    // Groups of 32 have one sum, groups of 256 one per 16 columns; a run may cover two of them.
    const int sixteen = T::kBlock == 32 ? 0 : T::first_step(run) / 4;
    __m256i sum = broadcast4(a.minus_sum[sixteen][j]);
    if constexpr (T::kBlock == 256 && T::kSteps == 8) {
      sum = _mm256_add_epi16(sum, broadcast4(a.minus_sum[sixteen + 1][j]));
    }
    return _mm256_slli_epi16(sum, T::zero_shift(R));
  }
}

// One run into the block's 32-bit sums.
template <class T, int R, int Rows, class Weights>
REPRISE_INLINE void add_run(const Weights& weights, const typename T::Scales& scales,
                            const Group<T, Rows>& a, int g, __m256i (&isum)[Rows][2]) {
  constexpr bool kFromZero = T::zero_shift(R) < 0;
  constexpr bool kFirstRun = T::kGroups == 1 && R == 0;
  const int run = g * T::kUnroll + R;
  const auto* q = &a.q[T::first_step(run)];
  // Lane r of part[j][v]: row 8v + r of the panel, row j of the tile, k % 4 in {0, 1} and {2, 3}.
  __m256i part[Rows][2];
  if constexpr (!kFromZero) {
    unroll<Rows>(
        [&] REPRISE_UNROLLED(j) { part[j][0] = part[j][1] = run_start<T, R, Rows>(a, run, j); });
  }
  unroll<T::kSteps>([&] REPRISE_UNROLLED(S) {
    __m256i w0 = weights.template get<R, S, 0>(g);
    __m256i w1 = weights.template get<R, S, 1>(g);
    REPRISE_PIN(w0);
    REPRISE_PIN(w1);
    unroll<Rows>([&] REPRISE_UNROLLED(j) {
      const __m256i x = broadcast4(q[S][j]);
      const __m256i p0 = _mm256_maddubs_epi16(w0, x);
      const __m256i p1 = _mm256_maddubs_epi16(w1, x);
      part[j][0] = kFromZero && S == 0 ? p0 : _mm256_add_epi16(part[j][0], p0);
      part[j][1] = kFromZero && S == 0 ? p1 : _mm256_add_epi16(part[j][1], p1);
      REPRISE_PIN(part[j][0]);
      REPRISE_PIN(part[j][1]);
    });
  });
  unroll<Rows>([&] REPRISE_UNROLLED(j) {
    unroll<2>([&] REPRISE_UNROLLED(v) {
      const __m256i sum =
          _mm256_madd_epi16(part[j][v], run_factor<T, R, Rows>(scales, a, run, v, j));
      isum[j][v] = kFirstRun ? sum : _mm256_add_epi32(isum[j][v], sum);
    });
  });
  REPRISE_FENCE();
}

// Minimums times the (factored) sums of the activations of their 32 or 16 columns.
template <class T, int Rows>
REPRISE_INLINE __m256i sum_of_minimums(const typename T::Scales& scales, const Group<T, Rows>& a,
                                       int v, int j) {
  __m256i msum = _mm256_setzero_si256();
  if constexpr (T::kSubColumns == 32) {
    for (int i = 0; i < 4; i++) {
      const __m256i part =
          _mm256_madd_epi16(load_bytes(scales.minimum_pair[i][8 * v]), broadcast4(a.sum32[i][j]));
      msum = _mm256_add_epi32(msum, part);
    }
  } else {
    for (int i = 0; i < 16; i++) {
      const __m256i minimum =
          _mm256_mullo_epi16(load_bytes(scales.minimum[i][8 * v]), broadcast4(a.factor[i / 2][j]));
      const __m256i part = _mm256_madd_epi16(minimum, broadcast4(a.minus_sum[i][j]));
      msum = _mm256_sub_epi32(msum, part);
    }
  }
  return msum;
}

// The only float arithmetic: one block's part of 8 outputs (Finish).
template <class T, int Rows>
REPRISE_INLINE __m256 finish(__m256 acc, __m256i isum, const typename T::Scales& scales,
                             const Group<T, Rows>& a, int v, int j) {
  const __m256 a_scale = _mm256_broadcast_ss(&a.scale[j]);
  if constexpr (T::kFinish == Finish::bias) {
    const __m256 a_sum = _mm256_broadcast_ss(&a.sum[j]);
    acc = _mm256_fmadd_ps(_mm256_load_ps(scales.offset + 8 * v), a_sum, acc);
  }
  if constexpr (T::kFinish == Finish::minimum) {
    const __m256i msum = sum_of_minimums<T, Rows>(scales, a, v, j);
    const __m256 d = _mm256_mul_ps(_mm256_load_ps(scales.offset + 8 * v), a_scale);
    acc = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(msum), d, acc);
  }
  const __m256 d = _mm256_mul_ps(_mm256_load_ps(scales.scale + 8 * v), a_scale);
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum), d, acc);
}

template <class T, int Rows, class Weights>
REPRISE_INLINE void add_block(const Weights& weights, const typename T::Scales& scales,
                              const Group<T, Rows>& a, float (*sums)[kPanelRows]) {
  __m256i isum[Rows][2];
  if constexpr (T::kGroups > 1) {
    unroll<Rows>([&] REPRISE_UNROLLED(j) { isum[j][0] = isum[j][1] = _mm256_setzero_si256(); });
  }
  for (int g = 0; g < T::kGroups; g++) {
    unroll<T::kUnroll>(
        [&] REPRISE_UNROLLED(R) { add_run<T, R, Rows>(weights, scales, a, g, isum); });
  }
  unroll<Rows>([&] REPRISE_UNROLLED(j) {
    unroll<2>([&] REPRISE_UNROLLED(v) {
      float* acc = sums[j] + 8 * v;
      const __m256 sum = finish<T, Rows>(_mm256_loadu_ps(acc), isum[j][v], scales, a, v, j);
      _mm256_storeu_ps(acc, sum);
    });
  });
}

template <class T, int Rows>
__attribute__((noinline)) void stream_panel(const std::uint8_t* panel, ScaleType scale_type,
                                            const std::uint8_t* tile, int blocks,
                                            float (*sums)[kPanelRows]) {
  const auto* a = reinterpret_cast<const Group<T, Rows>*>(tile);
  for (int b = 0; b < blocks; b++) {
    const std::uint8_t* block = panel + static_cast<std::size_t>(b) * block_bytes<T>(scale_type);
    typename T::Scales scales;
    unpack_block_scales<T>(block, scale_type, scales);
    const PackedWeights<T> weights = {weights_of<T>(block, scale_type)};
    add_block<T, Rows>(weights, scales, a[b], sums);
  }
}

// A full tile with blocks [first_block, first_block + blocks), which are decoded on the way: the
// first tile's arithmetic hides it (decoding beforehand was 2-4 % slower at eight tiles).
template <class T>
__attribute__((noinline)) void decode_chunk(const std::uint8_t* panel, ScaleType scale_type,
                                            const std::uint8_t* tile, int first_block, int blocks,
                                            DecodedBlock<T>* decoded, float (*sums)[kPanelRows]) {
  const auto* a = reinterpret_cast<const Group<T, kTileRows>*>(tile) + first_block;
  const std::size_t bytes = block_bytes<T>(scale_type);
  const std::uint8_t* block = panel + static_cast<std::size_t>(first_block) * bytes;
  for (int b = 0; b < blocks; b++, block += bytes) {
    unpack_block_scales<T>(block, scale_type, decoded[b].scales);
    const KeptWeights<T> weights = {weights_of<T>(block, scale_type), decoded[b]};
    add_block<T, kTileRows>(weights, decoded[b].scales, a[b], sums);
  }
}

template <class T, int Rows>
__attribute__((noinline)) void add_chunk(const DecodedBlock<T>* decoded, const std::uint8_t* tile,
                                         int first_block, int blocks, float (*sums)[kPanelRows]) {
  const auto* a = reinterpret_cast<const Group<T, Rows>*>(tile) + first_block;
  for (int b = 0; b < blocks; b++) add_block<T, Rows>(decoded[b], decoded[b].scales, a[b], sums);
}

// Speed only, never the result.
// Up to here weights are unpacked anew for each tile: twice, where that costs little.
template <class T>
constexpr int stream_tiles() {
  if constexpr (requires { T::kType; }) {
    switch (T::kType) {
      case WeightType::q5_0:
      case WeightType::q6_k:
        return 1;
      default:
        return 2;
    }
  }
  return 2;
}
inline constexpr int kTilesAtOnce = 32;        // tiles that share a decoded chunk: they stay in L2
inline constexpr int kChunkBytes = 32 * 1024;  // decoded weights and one tile's part stay in L1
// Columns of a chunk, as decoded (the 8-bit types count double: two planes of nibbles).
inline constexpr int kChunkColumns = 512;

template <class T>
struct Scratch {
  static constexpr int kColumns = kRuns<T> * T::kSteps * 4;
  static constexpr int kBlocks = kChunkColumns / kColumns > 0 ? kChunkColumns / kColumns : 1;
  DecodedBlock<T> decoded[kBlocks];
  alignas(64) TileSums sums[kTilesAtOnce];
};

REPRISE_INLINE void store_tile(const MatmulCall& call, int tile, int panel, const TileSums& sums) {
  const int first = panel * kPanelRows;
  float* to = call.out + static_cast<std::size_t>(tile * kTileRows) * call.out_stride + first;
  for (int j = 0; j < tile_rows(call.rows, tile); j++, to += call.out_stride) {
    store_outputs(sums[j], to, call.outputs - first);
  }
}

template <class T>
void stream_tile(const MatmulCall& call, const std::uint8_t* panel, int tile, TileSums& sums) {
  const std::uint8_t* a = call.activations + tile_offset<T::kBlock>(tile, call.columns);
  const int blocks = call.columns / T::kBlock;
  switch (tile_rows(call.rows, tile)) {
    case 1:
      return stream_panel<T, 1>(panel, call.scale_type, a, blocks, sums);
    case 2:
      return stream_panel<T, 2>(panel, call.scale_type, a, blocks, sums);
    case 3:
      return stream_panel<T, 3>(panel, call.scale_type, a, blocks, sums);
    default:
      return stream_panel<T, 4>(panel, call.scale_type, a, blocks, sums);
  }
}

template <class T>
void add_chunk_to_tile(const MatmulCall& call, const DecodedBlock<T>* decoded, int first_block,
                       int blocks, int tile, TileSums& sums) {
  const std::uint8_t* a = call.activations + tile_offset<T::kBlock>(tile, call.columns);
  switch (tile_rows(call.rows, tile)) {
    case 1:
      return add_chunk<T, 1>(decoded, a, first_block, blocks, sums);
    case 2:
      return add_chunk<T, 2>(decoded, a, first_block, blocks, sums);
    case 3:
      return add_chunk<T, 3>(decoded, a, first_block, blocks, sums);
    default:
      return add_chunk<T, 4>(decoded, a, first_block, blocks, sums);
  }
}

// Tiles [tile_begin, tile_end), two to kTilesAtOnce, with one panel: so the first one is full.
template <class T>
void multiply_decoded(const MatmulCall& call, const std::uint8_t* panel, int tile_begin,
                      int tile_end, Scratch<T>& scratch) {
  const int blocks = call.columns / T::kBlock;
  std::memset(scratch.sums, 0, sizeof(TileSums) * static_cast<std::size_t>(tile_end - tile_begin));
  for (int first = 0; first < blocks; first += Scratch<T>::kBlocks) {
    const int count = smaller(Scratch<T>::kBlocks, blocks - first);
    const std::uint8_t* a = call.activations + tile_offset<T::kBlock>(tile_begin, call.columns);
    decode_chunk<T>(panel, call.scale_type, a, first, count, scratch.decoded, scratch.sums[0]);
    for (int tile = tile_begin + 1; tile < tile_end; tile++) {
      add_chunk_to_tile<T>(call, scratch.decoded, first, count, tile,
                           scratch.sums[tile - tile_begin]);
    }
  }
}

template <class T>
void multiply_panels(const MatmulCall& call, int panel_begin, int panel_end,
                     std::uint8_t* scratch_bytes) {
  static_assert(sizeof(Scratch<T>) <= kMatmulScratchBytes);
  static_assert(sizeof(Scratch<T>::decoded) <= kChunkBytes);
  auto& scratch = *reinterpret_cast<Scratch<T>*>(scratch_bytes);
  const std::size_t panel_size =
      static_cast<std::size_t>(call.columns / T::kBlock) * block_bytes<T>(call.scale_type);
  const int tiles = tile_count(call.rows);
  for (int begin = 0; begin < tiles; begin += kTilesAtOnce) {
    const int end = smaller(tiles, begin + kTilesAtOnce);
    for (int p = panel_begin; p < panel_end; p++) {
      const std::uint8_t* panel = call.panels + static_cast<std::size_t>(p) * panel_size;
      const bool streams = end - begin <= stream_tiles<T>();
      if (!streams) multiply_decoded<T>(call, panel, begin, end, scratch);
      for (int tile = begin; tile < end; tile++) {
        TileSums& sums = scratch.sums[tile - begin];
        if (streams) {
          std::memset(sums, 0, sizeof sums);
          stream_tile<T>(call, panel, tile, sums);
        }
        store_tile(call, tile, p, sums);
      }
    }
  }
}

}  // namespace reprise::kernels::avx2
#pragma GCC pop_options
