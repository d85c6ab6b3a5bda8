// Sixteen floats in one AVX-512 register: f32x16_pair.inc's vocabulary with the same bits. Included
// once, inside an AVX-512 target region.
// a + b, a - b, a * b and a / b are the compiler's own vector operators.
namespace reprise::kernels::avx512 {
namespace {

using F32x16 = __m512;

REPRISE_INLINE F32x16 load16(const float* p) {
  return _mm512_loadu_ps(p);
}
REPRISE_INLINE void store16(float* p, F32x16 v) {
  _mm512_storeu_ps(p, v);
}
REPRISE_INLINE F32x16 splat16(float x) {
  return _mm512_set1_ps(x);
}
REPRISE_INLINE F32x16 splat_like(F32x16, float x) {
  return _mm512_set1_ps(x);
}

REPRISE_INLINE F32x16 fused(F32x16 a, F32x16 b, F32x16 c) {
  return _mm512_fmadd_ps(a, b, c);
}
REPRISE_INLINE F32x16 fused_minus(F32x16 a, F32x16 b, F32x16 c) {
  return _mm512_fnmadd_ps(a, b, c);
}
REPRISE_INLINE F32x16 larger(F32x16 a, F32x16 b) {
  return _mm512_max_ps(a, b);
}
REPRISE_INLINE F32x16 smaller(F32x16 a, F32x16 b) {
  return _mm512_min_ps(a, b);
}
REPRISE_INLINE F32x16 magnitude(F32x16 v) {
  return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), v);
}
REPRISE_INLINE F32x16 with_sign_of(F32x16 size, F32x16 sign) {  // size >= 0
  return _mm512_or_ps(size, _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
}
REPRISE_INLINE F32x16 if_less(F32x16 a, F32x16 b, F32x16 yes, F32x16 no) {
  return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), yes);
}
REPRISE_INLINE F32x16 zero_if_nan(F32x16 v) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v);
}
REPRISE_INLINE F32x16 power_of_two(F32x16 shifted) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3f800000)));
}
REPRISE_INLINE F32x16 hide_outside(F32x16 v, int at, int first, int last) {
  const __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i lane = _mm512_add_epi32(number, _mm512_set1_epi32(at));
  const __mmask16 hidden =
      static_cast<__mmask16>(_mm512_cmplt_epi32_mask(lane, _mm512_set1_epi32(first)) |
                             _mm512_cmpgt_epi32_mask(lane, _mm512_set1_epi32(last)));
  return _mm512_mask_mov_ps(v, hidden, _mm512_set1_ps(-__builtin_inff()));
}

REPRISE_INLINE __m256 low_half(F32x16 v) {
  return _mm512_castps512_ps256(v);
}
REPRISE_INLINE __m256 high_half(F32x16 v) {
  return _mm512_extractf32x8_ps(v, 1);
}
REPRISE_INLINE float lane_sum(F32x16 v) {
  const __m256 eight = _mm256_add_ps(low_half(v), high_half(v));
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
REPRISE_INLINE float lane_largest(F32x16 v) {
  const __m256 eight = _mm256_max_ps(low_half(v), high_half(v));
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}
REPRISE_INLINE bool all_lanes_finite(F32x16 v) {
  const __m512 infinity = _mm512_set1_ps(__builtin_inff());
  return _mm512_cmp_ps_mask(magnitude(v), infinity, _CMP_LT_OQ) == 0xffff;
}
REPRISE_INLINE int first_equal(F32x16 v, F32x16 x) {
  return __builtin_ctz(0x10000u | _mm512_cmp_ps_mask(v, x, _CMP_EQ_OQ));
}

REPRISE_INLINE void split_pairs(F32x16 a, F32x16 b, F32x16& first, F32x16& second) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  first = _mm512_permutex2var_ps(a, even, b);
  second = _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
}
REPRISE_INLINE void join_pairs(F32x16 first, F32x16 second, F32x16& a, F32x16& b) {
  const __m512i lanes = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  a = _mm512_permutex2var_ps(first, lanes, second);
  b = _mm512_permutex2var_ps(first, _mm512_add_epi32(lanes, _mm512_set1_epi32(8)), second);
}

// Sixteen doubles: running sums of floats.
struct F64x16 {
  __m512d low, high;
};
REPRISE_INLINE F64x16 zero_sums16() {
  return {_mm512_setzero_pd(), _mm512_setzero_pd()};
}
REPRISE_INLINE F64x16 accumulate(F64x16 sums, F32x16 v) {
  return {_mm512_add_pd(sums.low, _mm512_cvtps_pd(low_half(v))),
          _mm512_add_pd(sums.high, _mm512_cvtps_pd(high_half(v)))};
}
REPRISE_INLINE double lane_sum(F64x16 v) {
  const __m512d eight = _mm512_add_pd(v.low, v.high);
  const __m256d four =
      _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

REPRISE_INLINE __m256i load_words16(const std::uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
REPRISE_INLINE F32x16 load_halves16(const std::uint8_t* p) {
  return _mm512_cvtph_ps(load_words16(p));
}
REPRISE_INLINE F32x16 load_bfloats16(const std::uint8_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_words16(p)), 16));
}
REPRISE_INLINE F32x16 load_integers16(const std::uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}
REPRISE_INLINE void store_halves16(std::uint16_t* p, F32x16 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
REPRISE_INLINE void store_bfloats16(std::uint16_t* p, F32x16 v) {  // v has no NaN
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __m512i word = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(word));
}

}  // namespace
}  // namespace reprise::kernels::avx512
