// The canary: fails when the compiler joins a multiplication and an addition into one fma, in base
// code or in a target region that has fma. Compiled with the house's flags.
// noipa: the arguments are constants, and folding them at compile time would test nothing.
#include <immintrin.h>

#include <gtest/gtest.h>

namespace {

__attribute__((noipa)) float multiply_then_add(float a, float b, float c) {
  return a * b + c;
}
__attribute__((noipa)) double multiply_then_add(double a, double b, double c) {
  return a * b + c;
}

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
__attribute__((noipa)) float region_multiply_then_add(float a, float b, float c) {
  return a * b + c;
}
__attribute__((noipa)) double region_multiply_then_add(double a, double b, double c) {
  return a * b + c;
}
__attribute__((noipa)) float region_vector_multiply_then_add(float a, float b, float c) {
  const __m256 x = _mm256_set1_ps(a), y = _mm256_set1_ps(b), z = _mm256_set1_ps(c);
  return _mm256_cvtss_f32(x * y + z);
}
__attribute__((noipa)) float region_intrinsics_multiply_then_add(float a, float b, float c) {
  const __m256 x = _mm256_set1_ps(a), y = _mm256_set1_ps(b), z = _mm256_set1_ps(c);
  return _mm256_cvtss_f32(_mm256_add_ps(_mm256_mul_ps(x, y), z));
}
__attribute__((noipa)) float region_fused(float a, float b, float c) {
  return _mm256_cvtss_f32(_mm256_fmadd_ps(_mm256_set1_ps(a), _mm256_set1_ps(b), _mm256_set1_ps(c)));
}
#pragma GCC pop_options

// (1 + u)^2 = 1 + 2u + u^2; rounded to float u^2 is lost, so the pair gives 0 and the fma u^2.
constexpr float kA = 1.0f + 0x1p-20f, kC = -(1.0f + 0x1p-19f), kFused = 0x1p-40f;
constexpr double kWideA = 1.0 + 0x1p-50, kWideC = -(1.0 + 0x1p-49), kWideFused = 0x1p-100;

TEST(Contraction, BaseCodeKeepsPairsApart) {
  EXPECT_EQ(multiply_then_add(kA, kA, kC), 0.0f);
  EXPECT_EQ(multiply_then_add(kWideA, kWideA, kWideC), 0.0);
  EXPECT_EQ(__builtin_fmaf(kA, kA, kC), kFused);
  EXPECT_EQ(__builtin_fma(kWideA, kWideA, kWideC), kWideFused);
}

TEST(Contraction, TargetRegionsKeepPairsApart) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    GTEST_SKIP() << "this CPU has no AVX2 or FMA";
  }
  EXPECT_EQ(region_multiply_then_add(kA, kA, kC), 0.0f);
  EXPECT_EQ(region_multiply_then_add(kWideA, kWideA, kWideC), 0.0);
  EXPECT_EQ(region_vector_multiply_then_add(kA, kA, kC), 0.0f);
  EXPECT_EQ(region_intrinsics_multiply_then_add(kA, kA, kC), 0.0f);
  EXPECT_EQ(region_fused(kA, kA, kC), kFused);
}

}  // namespace
