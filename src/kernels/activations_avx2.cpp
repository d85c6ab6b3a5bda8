// The AVX2 activation kernels: rows of x to int8, the bits of activations_scalar.cpp.
//
// Every element's result depends on its own group only, so it does not matter how rows are put into
// tiles. Four rows are done together: their 4-byte groups meet by 4 x 4 transposes and are stored
// side by side.
#include "kernels/activation_group.h"
#include "kernels/matmul.h"
#include "kernels/panel_vectors_avx2.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprise::kernels::avx2 {

namespace {

// Magnitudes as bits: their order is that of the values, and a NaN is above everything.
REPRISE_INLINE __m256i magnitude(const float* x) {
  return _mm256_and_si256(load_bytes(x), _mm256_set1_epi32(0x7fffffff));
}
REPRISE_INLINE __m128i larger_half(__m256i x) {
  return _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}
REPRISE_INLINE __m256i larger_of_pairs(__m256i a, __m256i b) {
  return _mm256_max_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

// largest[j]: bits of the largest magnitude of 32 columns of row j.
template <int Rows>
REPRISE_INLINE void largest_bits(const float* x, std::size_t x_stride, std::uint32_t* largest) {
  __m256i m[Rows];
  unroll<Rows>([&] REPRISE_UNROLLED(j) {
    const float* row = x + static_cast<std::size_t>(j) * x_stride;
    const __m256i low = _mm256_max_epi32(magnitude(row), magnitude(row + 8));
    m[j] = _mm256_max_epi32(low, _mm256_max_epi32(magnitude(row + 16), magnitude(row + 24)));
  });
  if constexpr (Rows == 4) {
    const __m256i ab = larger_of_pairs(m[0], m[1]);
    const __m256i cd = larger_of_pairs(m[2], m[3]);
    const __m256i low = _mm256_unpacklo_epi64(ab, cd);
    const __m256i all = _mm256_max_epi32(low, _mm256_unpackhi_epi64(ab, cd));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(largest), larger_half(all));
  } else {
    __m128i half = larger_half(m[0]);
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0xb1));
    largest[0] = static_cast<std::uint32_t>(_mm_cvtsi128_si32(half));
  }
}

// 32 columns of Rows rows times inverse[j]; sums over 16 columns, split as minus_sum is, to
// half_sum.
template <int Rows>
REPRISE_INLINE void quantize_32(const float* x, std::size_t x_stride, const float* inverse,
                                std::int8_t (*q)[Rows][4], std::int16_t (*half_sum)[Rows][2]) {
  __m256i bytes[Rows];  // 32 bytes of a row as its 4-byte groups 0 2 4 6 | 1 3 5 7
  unroll<Rows>([&] REPRISE_UNROLLED(j) {
    const float* row = x + static_cast<std::size_t>(j) * x_stride;
    const __m256 factor = _mm256_broadcast_ss(inverse + j);
    __m256i n[4];
    unroll<4>([&] REPRISE_UNROLLED(i) {
      n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(row + 8 * i), factor));
    });
    bytes[j] = _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
  });
  const __m256i ones = _mm256_set1_epi8(1);
  if constexpr (Rows == 4) {
    const __m256i ab = _mm256_unpacklo_epi32(bytes[0], bytes[1]);
    const __m256i cd = _mm256_unpacklo_epi32(bytes[2], bytes[3]);
    const __m256i ef = _mm256_unpackhi_epi32(bytes[0], bytes[1]);
    const __m256i gh = _mm256_unpackhi_epi32(bytes[2], bytes[3]);
    const __m256i y[4] = {_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd),
                          _mm256_unpacklo_epi64(ef, gh), _mm256_unpackhi_epi64(ef, gh)};
    unroll<4>([&] REPRISE_UNROLLED(i) { store_bytes(q[2 * i], y[i]); });
    unroll<2>([&] REPRISE_UNROLLED(h) {
      const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(ones, y[2 * h]),
                                             _mm256_maddubs_epi16(ones, y[2 * h + 1]));
      const __m128i sum =
          _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(half_sum[h]), sum);
    });
  } else {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i y = _mm256_permutevar8x32_epi32(bytes[0], order);
    store_bytes(q, y);
    __m256i pairs = _mm256_maddubs_epi16(ones, y);
    pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
    pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0xb1));
    const std::int32_t first = _mm256_extract_epi32(pairs, 0);
    const std::int32_t second = _mm256_extract_epi32(pairs, 4);
    std::memcpy(half_sum[0], &first, sizeof first);
    std::memcpy(half_sum[1], &second, sizeof second);
  }
}

REPRISE_INLINE float from_bits(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Rows whose values are not all finite, after the group was written as if they were.
template <int Columns, int Rows>
REPRISE_INLINE void mark_not_finite(const std::uint32_t* largest,
                                    ActivationGroup<Columns, Rows>& group) {
  for (int j = 0; j < Rows; j++) {
    if (!is_finite_bits(largest[j])) [[unlikely]] {
      ActivationGroup<Columns, 1> one;
      set_not_finite(one);
      put_row(one, reinterpret_cast<std::uint8_t*>(&group), Rows, j);
    }
  }
}

template <int Rows>
REPRISE_INLINE void quantize_group(const float* x, std::size_t x_stride,
                                   ActivationGroup<32, Rows>& group) {
  std::uint32_t largest[Rows];
  float inverse[Rows];
  std::int16_t half[2][Rows][2];
  largest_bits<Rows>(x, x_stride, largest);
  for (int j = 0; j < Rows; j++) inverse[j] = inverse_of(from_bits(largest[j]));
  quantize_32<Rows>(x, x_stride, inverse, group.q, half);
  for (int j = 0; j < Rows; j++) {
    const int sum0 = half[0][j][0] + half[1][j][0];
    const int sum1 = half[0][j][1] + half[1][j][1];
    group.scale[j] = scale_of(from_bits(largest[j]));
    group.sum[j] = group.scale[j] * static_cast<float>(sum0 + sum1);
    group.minus_sum[0][j][0] = static_cast<std::int16_t>(-sum0);
    group.minus_sum[0][j][1] = static_cast<std::int16_t>(-sum1);
  }
  mark_not_finite<32, Rows>(largest, group);
}

template <int Columns, int Rows>
REPRISE_INLINE void quantize_group(const float* x, std::size_t x_stride,
                                   ActivationGroup<Columns, Rows>& group) {
  std::uint32_t largest[Rows];
  float inverse[Rows];
  int total[Rows] = {};
  largest_bits<Rows>(x, x_stride, largest);
  for (int i = 1; i < Columns / 32; i++) {
    std::uint32_t part[Rows];
    largest_bits<Rows>(x + 32 * i, x_stride, part);
    for (int j = 0; j < Rows; j++) largest[j] = part[j] > largest[j] ? part[j] : largest[j];
  }
  for (int j = 0; j < Rows; j++) inverse[j] = inverse_of(from_bits(largest[j]));
  for (int i = 0; i < Columns / 32; i++) {
    std::int16_t half[2][Rows][2];
    quantize_32<Rows>(x + 32 * i, x_stride, inverse, group.q + 8 * i, half);
    for (int j = 0; j < Rows; j++) {
      total[j] += half[0][j][0] + half[0][j][1] + half[1][j][0] + half[1][j][1];
    }
  }
  for (int j = 0; j < Rows; j++) {
    group.scale[j] = scale_of(from_bits(largest[j]));
    group.sum[j] = group.scale[j] * static_cast<float>(total[j]);
  }
  mark_not_finite<Columns, Rows>(largest, group);
}

// Integer factors of the eight 32-column parts, and what to multiply their values with. A row that
// is not finite counts as zeros here (it is overwritten later; NaN to int would be undefined).
template <int Rows>
REPRISE_INLINE void choose_factors(const std::uint32_t (*largest32)[Rows], std::uint32_t* largest,
                                   ActivationGroup<256, Rows>& group, float (*inverse)[Rows]) {
  for (int j = 0; j < Rows; j++) {
    largest[j] = 0;
    for (int i = 0; i < 8; i++) {
      if (largest32[i][j] > largest[j]) largest[j] = largest32[i][j];
    }
    const bool finite = is_finite_bits(largest[j]);
    const float units = finite ? units_256(from_bits(largest[j])) : 0.0f;
    group.scale[j] = scale_256(from_bits(largest[j]));
    for (int i = 0; i < 8; i++) {
      const int factor = factor_256(finite ? from_bits(largest32[i][j]) : 0.0f, units);
      group.factor[i][j][0] = group.factor[i][j][1] = static_cast<std::int16_t>(factor);
      inverse[i][j] = inverse_256(units, factor);
    }
  }
}

template <int Rows>
REPRISE_INLINE void quantize_group(const float* x, std::size_t x_stride,
                                   ActivationGroup<256, Rows>& group) {
  std::uint32_t largest32[8][Rows];
  std::uint32_t largest[Rows];
  float inverse[8][Rows];
  for (int i = 0; i < 8; i++) largest_bits<Rows>(x + 32 * i, x_stride, largest32[i]);
  choose_factors<Rows>(largest32, largest, group, inverse);
  for (int i = 0; i < 8; i++) {
    std::int16_t half[2][Rows][2];
    quantize_32<Rows>(x + 32 * i, x_stride, inverse[i], group.q + 8 * i, half);
    for (int j = 0; j < Rows; j++) {
      int total = 0;
      for (int h = 0; h < 2; h++) {
        for (int p = 0; p < 2; p++) {
          group.minus_sum[2 * i + h][j][p] = static_cast<std::int16_t>(-half[h][j][p]);
          total += half[h][j][p];
        }
      }
      group.sum32[i / 2][j][i % 2] = static_cast<std::int16_t>(total * group.factor[i][j][0]);
    }
  }
  mark_not_finite<256, Rows>(largest, group);
}

template <int Columns>
void quantize_tile(const float* x, std::size_t x_stride, int rows, int columns, int tile,
                   std::uint8_t* out) {
  const int width = tile_rows(rows, tile);
  const int groups = columns / Columns;
  const float* first = x + static_cast<std::size_t>(tile * kTileRows) * x_stride;
  std::uint8_t* to = out + tile_offset<Columns>(tile, columns);
  if (width == 4) {
    auto* group = reinterpret_cast<ActivationGroup<Columns, 4>*>(to);
    for (int g = 0; g < groups; g++) quantize_group(first + g * Columns, x_stride, group[g]);
    return;
  }
  for (int row = 0; row < width; row++) {
    const float* from = first + static_cast<std::size_t>(row) * x_stride;
    for (int g = 0; g < groups; g++) {
      ActivationGroup<Columns, 1> one;
      quantize_group(from + g * Columns, x_stride, one);
      put_row(one, to + static_cast<std::size_t>(g * width) * sizeof one, width, row);
    }
  }
}

}  // namespace

void make_activations(ActivationFormat format, const float* x, std::size_t x_stride, int rows,
                      int columns, int tile_begin, int tile_end, std::uint8_t* out) {
  for (int tile = tile_begin; tile < tile_end; tile++) {
    switch (format) {
      case ActivationFormat::f32:
        copy_tile(x, x_stride, rows, columns, tile, out);
        break;
      case ActivationFormat::int8_group32:
        quantize_tile<32>(x, x_stride, rows, columns, tile, out);
        break;
      case ActivationFormat::int8_group64:
        quantize_tile<64>(x, x_stride, rows, columns, tile, out);
        break;
      case ActivationFormat::int8_group128:
        quantize_tile<128>(x, x_stride, rows, columns, tile, out);
        break;
      case ActivationFormat::int8_group256:
        quantize_tile<256>(x, x_stride, rows, columns, tile, out);
        break;
    }
  }
}

}  // namespace reprise::kernels::avx2
#pragma GCC pop_options
