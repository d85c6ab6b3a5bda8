// Rows of x as the AVX-512 matrix multiply takes them: the groups of one or two tiles, and a table
// of where their sums start.
#pragma once
#include <cstring>

#include "kernels/activation_group.h"
#include "kernels/panel_vectors_avx512.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
namespace reprise::kernels::avx512 {

template <class T, int Rows>
using Group = ActivationGroup<T::kBlock, Rows == 0 ? 1 : Rows>;

// Where the sums of a block, or of its sub-blocks, start: minus the zero point times the sum of the
// activations. A tile's table is [blocks][kStarts][rows of the tile]; made once a call, it saves a
// multiply in every panel.
template <class T>
inline constexpr int kStarts = T::kZero == 0 ? 0 : T::kBlock / T::kSubColumns;
// minus_sum is of 16 columns (groups of 256) or of the whole block: so many make a start.
template <class T>
inline constexpr int kSumsOfStart = T::kBlock == 256 ? T::kSubColumns / 16 : 1;

// Those of one block. With four rows a vector does them together.
template <class T, int Rows>
REPRISE_INLINE void fill_starts(const Group<T, Rows>& group, std::int32_t* to) {
  constexpr int kSums = kSumsOfStart<T>;
  for (int sub = 0; sub < kStarts<T>; sub++, to += Rows) {
    if constexpr (Rows == kTileRows) {
      const __m128i zero = _mm_set1_epi16(T::kZero);
      const auto* sums = reinterpret_cast<const __m128i*>(group.minus_sum[kSums * sub]);
      __m128i start = _mm_madd_epi16(_mm_loadu_si128(sums), zero);
      if constexpr (kSums == 2) {
        start = _mm_add_epi32(start, _mm_madd_epi16(_mm_loadu_si128(sums + 1), zero));
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), start);
    } else {
      for (int row = 0; row < Rows; row++) {
        std::int32_t sum = 0;
        for (int i = 0; i < kSums; i++) {
          const auto& part = group.minus_sum[kSums * sub + i][row];
          sum += part[0] + part[1];
        }
        to[row] = sum * T::kZero;
      }
    }
  }
}

// One block of the rows of one or two tiles. Rows J < A are the first tile's.
template <class T, int A, int B>
struct TileRows {
  static constexpr int kRows = A + B;
  const Group<T, A>* a;
  const Group<T, B>* b;
  const std::int32_t* a_starts;  // of this block
  const std::int32_t* b_starts;

  REPRISE_INLINE void next() {
    a++;
    a_starts += kStarts<T> * A;
    if constexpr (B > 0) {
      b++;
      b_starts += kStarts<T> * B;
    }
  }
  template <int J>
  REPRISE_INLINE const void* q(int step) const {
    if constexpr (J < A) {
      return a->q[step][J];
    } else {
      return b->q[step][J - A];
    }
  }
  template <int J>
  REPRISE_INLINE float scale() const {
    if constexpr (J < A) {
      return a->scale[J];
    } else {
      return b->scale[J - A];
    }
  }
  template <int J>
  REPRISE_INLINE float sum() const {
    if constexpr (J < A) {
      return a->sum[J];
    } else {
      return b->sum[J - A];
    }
  }
  template <int J>
  REPRISE_INLINE __m512i factor(int unit) const {
    const void* twice = nullptr;
    if constexpr (J < A) {
      twice = a->factor[unit][J];
    } else {
      twice = b->factor[unit][J - A];
    }
    return _mm512_and_si512(broadcast4(twice), _mm512_set1_epi32(0xffff));
  }
  template <int J>
  REPRISE_INLINE const void* sum32(int pair) const {
    if constexpr (J < A) {
      return a->sum32[pair][J];
    } else {
      return b->sum32[pair][J - A];
    }
  }
  template <int J>
  REPRISE_INLINE const void* minus_sum(int sixteen) const {
    if constexpr (J < A) {
      return a->minus_sum[sixteen][J];
    } else {
      return b->minus_sum[sixteen][J - A];
    }
  }
  // Where the sums start; kTabled: the table is filled.
  template <bool kTabled, int J>
  REPRISE_INLINE __m512i start(int sub) const {
    if constexpr (kStarts<T> == 0) {
      return _mm512_setzero_si512();
    } else if constexpr (kTabled) {
      return broadcast4(J < A ? a_starts + sub * A + J : b_starts + sub * B + J - A);
    } else {
      const __m512i zero = _mm512_set1_epi16(T::kZero);
      constexpr int kSums = kSumsOfStart<T>;
      __m512i sum = _mm512_madd_epi16(broadcast4(minus_sum<J>(kSums * sub)), zero);
      if constexpr (kSums == 2) {
        const __m512i second = _mm512_madd_epi16(broadcast4(minus_sum<J>(2 * sub + 1)), zero);
        sum = _mm512_add_epi32(sum, second);
      }
      return sum;
    }
  }
};

}  // namespace reprise::kernels::avx512
#pragma GCC pop_options
