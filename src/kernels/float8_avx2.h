// Eight floats in one AVX2 register: the vocabulary that elementary.inc, rowwise.inc and
// attention.inc are written in. Included once, inside an avx2,fma,f16c target region;
// float8_scalar.h is its twin.
// a + b, a - b, a * b and a / b are the compiler's own vector operators.
namespace reprise::kernels::avx2 {
namespace {

using Float8 = __m256;

REPRISE_INLINE Float8 load8(const float* p) {
  return _mm256_loadu_ps(p);
}
REPRISE_INLINE void store8(float* p, Float8 v) {
  _mm256_storeu_ps(p, v);
}
REPRISE_INLINE Float8 splat8(float x) {
  return _mm256_set1_ps(x);
}
REPRISE_INLINE Float8 splat_like(Float8, float x) {  // for templates over the vector type
  return splat8(x);
}

// a * b + c and c - a * b, rounded once.
REPRISE_INLINE Float8 fused(Float8 a, Float8 b, Float8 c) {
  return _mm256_fmadd_ps(a, b, c);
}
REPRISE_INLINE Float8 fused_minus(Float8 a, Float8 b, Float8 c) {
  return _mm256_fnmadd_ps(a, b, c);
}

// a > b ? a : b and a < b ? a : b: the second when one is NaN.
REPRISE_INLINE Float8 larger(Float8 a, Float8 b) {
  return _mm256_max_ps(a, b);
}
REPRISE_INLINE Float8 smaller(Float8 a, Float8 b) {
  return _mm256_min_ps(a, b);
}

REPRISE_INLINE Float8 magnitude(Float8 v) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}
REPRISE_INLINE Float8 with_sign_of(Float8 size, Float8 sign) {  // size >= 0
  return _mm256_or_ps(size, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}
// a < b ? yes : no; `no` when one is NaN.
REPRISE_INLINE Float8 if_less(Float8 a, Float8 b, Float8 yes, Float8 no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
REPRISE_INLINE Float8 zero_if_nan(Float8 v) {
  return _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
}
// 2^n from the low bits of kRounder + n.
REPRISE_INLINE Float8 power_of_two(Float8 shifted) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3f800000)));
}
// Lane i becomes -infinity unless first <= at + i <= last.
REPRISE_INLINE Float8 hide_outside(Float8 v, int at, int first, int last) {
  const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i lane = _mm256_add_epi32(number, _mm256_set1_epi32(at));
  const __m256i hidden = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane),
                                         _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(last)));
  return _mm256_blendv_ps(v, _mm256_set1_ps(-__builtin_inff()), _mm256_castsi256_ps(hidden));
}

// ((0+4) + (2+6)) + ((1+5) + (3+7)).
REPRISE_INLINE float lane_sum(Float8 v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
REPRISE_INLINE float lane_largest(Float8 v) {
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}
REPRISE_INLINE bool all_lanes_finite(Float8 v) {
  const __m256 finite = _mm256_cmp_ps(magnitude(v), _mm256_set1_ps(__builtin_inff()), _CMP_LT_OQ);
  return _mm256_movemask_ps(finite) == 0xff;
}
// The first lane that equals x; 8 when none does.
REPRISE_INLINE int first_equal(Float8 v, Float8 x) {
  const int mask = _mm256_movemask_ps(_mm256_cmp_ps(v, x, _CMP_EQ_OQ));
  return mask == 0 ? 8 : __builtin_ctz(static_cast<unsigned>(mask));
}

// Pairs (a0 a1) (a2 a3) ... (b6 b7) to the first and second of each pair, and back.
REPRISE_INLINE void split_pairs(Float8 a, Float8 b, Float8& first, Float8& second) {
  const __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
  first = _mm256_shuffle_ps(low, high, 0x88);
  second = _mm256_shuffle_ps(low, high, 0xdd);
}
REPRISE_INLINE void join_pairs(Float8 first, Float8 second, Float8& a, Float8& b) {
  const __m256 low = _mm256_unpacklo_ps(first, second), high = _mm256_unpackhi_ps(first, second);
  a = _mm256_permute2f128_ps(low, high, 0x20);
  b = _mm256_permute2f128_ps(low, high, 0x31);
}

// Eight contiguous elements of a KV type.
REPRISE_INLINE __m128i load_words8(const std::uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
REPRISE_INLINE Float8 load_half8(const std::uint8_t* p) {
  return _mm256_cvtph_ps(load_words8(p));
}
REPRISE_INLINE Float8 load_bfloat8(const std::uint8_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_words8(p)), 16));
}
REPRISE_INLINE Float8 load_integer8(const std::uint8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}
REPRISE_INLINE void store_half8(std::uint16_t* p, Float8 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
REPRISE_INLINE void store_bfloat8(std::uint16_t* p, Float8 v) {  // v has no NaN
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i word = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
  const __m128i low = _mm256_castsi256_si128(word), high = _mm256_extracti128_si256(word, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packus_epi32(low, high));
}

// Eight doubles: running sums of floats.
struct Double8 {
  __m256d low, high;
};
REPRISE_INLINE Double8 zero_sums() {
  return {_mm256_setzero_pd(), _mm256_setzero_pd()};
}
REPRISE_INLINE Double8 accumulate(Double8 sums, Float8 v) {
  return {_mm256_add_pd(sums.low, _mm256_cvtps_pd(_mm256_castps256_ps128(v))),
          _mm256_add_pd(sums.high, _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)))};
}
REPRISE_INLINE Double8 operator+(Double8 a, Double8 b) {
  return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)};
}
// (x - subtrahend) / divisor in double, rounded once to float.
REPRISE_INLINE Float8 divided_difference(Float8 x, double subtrahend, double divisor) {
  const __m256d s = _mm256_set1_pd(subtrahend), d = _mm256_set1_pd(divisor);
  const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
  const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
  return _mm256_set_m128(_mm256_cvtpd_ps(_mm256_div_pd(_mm256_sub_pd(high, s), d)),
                         _mm256_cvtpd_ps(_mm256_div_pd(_mm256_sub_pd(low, s), d)));
}
REPRISE_INLINE double lane_sum(Double8 v) {  // the order of lane_sum(Float8)
  const __m256d four = _mm256_add_pd(v.low, v.high);
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

}  // namespace
}  // namespace reprise::kernels::avx2
