// Elementary functions against long double libm; conversions of every half and many floats against
// F16C.
#include "kernels/math.h"

#include <algorithm>
#include <cmath>
#include <immintrin.h>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "compare.h"

namespace reprise::kernels {
namespace {

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
constexpr double kDoubleInfinity = std::numeric_limits<double>::infinity();
constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kDoubleNan = std::numeric_limits<double>::quiet_NaN();

TEST(Math, ExpFloatWithinTwoUlp) {
  double worst = 0;
  for (float x = -87.0f; x <= 88.0f; x += 1.3e-4f) {
    worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<long double>(x))));
  }
  for (float x = 1e-30f; x < 1.0f; x *= 1.01f) {
    worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<long double>(x))));
    worst = std::max(worst, ulps(exp_f32(-x), std::exp(-static_cast<long double>(x))));
  }
  EXPECT_LE(worst, 1.0);
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-0.0f), 1.0f);
}

TEST(Math, ExpFloatAtItsEnds) {
  EXPECT_EQ(exp_f32(-87.34f), 0.0f);
  EXPECT_EQ(exp_f32(-kFloatInfinity), 0.0f);
  EXPECT_GT(exp_f32(-87.33f), 0.0f);
  EXPECT_EQ(exp_f32(kFloatInfinity), exp_f32(88.37f));
  EXPECT_EQ(exp_f32(1e30f), exp_f32(88.37f));
  EXPECT_LT(exp_f32(88.37f), kFloatInfinity);
  for (std::uint32_t payload : {0x7fc00000u, 0x7fc00001u, 0xffc001ffu, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(exp_f32(std::bit_cast<float>(payload)))) << payload;
  }
}

// Every 997th float up to `end`, and its negative where both is set, against a double computation,
// whose own error is below 2^-28 ulp of a float.
template <class F, class Exact>
double worst_ulps(float end, bool both, F f, Exact exact) {
  double worst = 0;
  for (std::uint32_t bits = 0; bits <= std::bit_cast<std::uint32_t>(end); bits += 997) {
    const float x = std::bit_cast<float>(bits);
    worst = std::max(worst, ulps(f(x), exact(static_cast<double>(x))));
    if (both) worst = std::max(worst, ulps(f(-x), exact(-static_cast<double>(x))));
  }
  return worst;
}

TEST(Math, ExpTanhAndErfOverAllFloatsWithinTheirUlps) {
  const auto exp = [](double x) { return std::exp(x); };
  EXPECT_LE(worst_ulps(87.33f, true, exp_f32, exp), 1.0);
  EXPECT_LE(worst_ulps(88.37f, false, exp_f32, exp), 1.0);
  EXPECT_LE(worst_ulps(1e30f, true, tanh_f32, [](double x) { return std::tanh(x); }), 1.5);
  EXPECT_LE(worst_ulps(1e30f, true, erf_f32, [](double x) { return std::erf(x); }), 1.0);
}

TEST(Math, ErfFloatAtItsEnds) {
  EXPECT_EQ(erf_f32(kFloatInfinity), 1.0f);
  EXPECT_EQ(erf_f32(-kFloatInfinity), -1.0f);
  EXPECT_TRUE(std::signbit(erf_f32(-0.0f)));
  EXPECT_EQ(erf_f32(0.0f), 0.0f);
  EXPECT_TRUE(std::isnan(erf_f32(kFloatNan)));
  EXPECT_NEAR(erf_f32(1e-41f), 1.1283792e-41, 2e-45);
}

TEST(Math, TanhFloatWithinOneAndAHalfUlp) {
  double worst = 0;
  for (float x = 1e-38f; x < 20.0f; x *= 1.00003f) {
    worst = std::max(worst, ulps(tanh_f32(x), std::tanh(static_cast<long double>(x))));
    ASSERT_EQ(tanh_f32(-x), -tanh_f32(x)) << x;
  }
  EXPECT_LE(worst, 1.5);
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_EQ(tanh_f32(kFloatInfinity), 1.0f);
  EXPECT_EQ(tanh_f32(-kFloatInfinity), -1.0f);
  EXPECT_TRUE(std::signbit(tanh_f32(-0.0f)));
  EXPECT_EQ(tanh_f32(1e-41f), 1e-41f);
  EXPECT_TRUE(std::isnan(tanh_f32(kFloatNan)));
}

TEST(Math, SigmoidFloatWithinTwoAndAHalfUlp) {
  double worst = 0;
  for (float x = -87.0f; x < 100.0f; x += 1.3e-3f) {
    const long double exact = 1.0L / (1.0L + std::exp(-static_cast<long double>(x)));
    worst = std::max(worst, ulps(sigmoid_f32(x), exact));
  }
  EXPECT_LE(worst, 2.5);
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_EQ(sigmoid_f32(0.0f), 0.5f);
  EXPECT_EQ(sigmoid_f32(kFloatInfinity), 1.0f);
  EXPECT_LT(sigmoid_f32(-kFloatInfinity), 1e-38f);
  EXPECT_TRUE(std::isnan(sigmoid_f32(kFloatNan)));
}

TEST(Math, RoundToEvenIsThatOfRint) {
  for (float x : {0.0f, 0.5f, 1.5f, 2.5f, 0.49999997f, 8388607.5f, 8388608.0f, 4194304.5f, 3e38f,
                  kFloatInfinity}) {
    for (float sign : {1.0f, -1.0f}) {
      const float rounded = round_to_even(sign * x);
      EXPECT_EQ(rounded, std::rint(sign * x)) << x;
      EXPECT_EQ(std::signbit(rounded), sign < 0) << x;
    }
  }
  for (float x = -1000.0f; x < 1000.0f; x += 0.125f) EXPECT_EQ(round_to_even(x), std::rint(x));
  EXPECT_TRUE(std::isnan(round_to_even(kFloatNan)));
}

TEST(Math, ExpDoubleWithinTwoUlp) {
  double worst = 0;
  for (double x = -708.0; x <= 709.0; x += 1.7e-3) {
    worst = std::max(worst, ulps(exp_f64(x), std::exp(static_cast<long double>(x))));
  }
  for (double x = 1e-20; x < 1.0; x *= 1.001) {
    worst = std::max(worst, ulps(exp_f64(-x), std::exp(-static_cast<long double>(x))));
  }
  EXPECT_LE(worst, 2.0);
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_NEAR(exp_f64(-740.0) / 4.2e-322, 1.0, 0.02);  // denormal: few digits, right size
  EXPECT_EQ(exp_f64(-746.0), 0.0);
  EXPECT_EQ(exp_f64(710.0), kDoubleInfinity);
  EXPECT_EQ(exp_f64(-kDoubleInfinity), 0.0);
  EXPECT_EQ(exp_f64(0.0), 1.0);
  EXPECT_TRUE(std::isnan(exp_f64(kDoubleNan)));
}

TEST(Math, LogDoubleWithinTwoUlp) {
  double worst = 0;
  for (double x = 1e-320; x < 1e308; x *= 1.003) {
    worst = std::max(worst, ulps(log_f64(x), std::log(static_cast<long double>(x))));
  }
  for (double x = 0.5; x < 2.0; x += 1.1e-6) {
    worst = std::max(worst, ulps(log_f64(x), std::log(static_cast<long double>(x))));
  }
  EXPECT_LE(worst, 2.0);
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_EQ(log_f64(1.0), 0.0);
  EXPECT_EQ(log_f64(0.0), -kDoubleInfinity);
  EXPECT_EQ(log_f64(kDoubleInfinity), kDoubleInfinity);
  EXPECT_TRUE(std::isnan(log_f64(-1.0)));
  EXPECT_TRUE(std::isnan(log_f64(kDoubleNan)));
}

TEST(Math, PowWithinItsStatedBound) {
  double worst = 0;  // relative error over the bound of math.h
  for (const double base : {0.3, 1.5, 2.0, 10.0, 10000.0, 500000.0, 1e6, 8e6}) {
    for (double exponent = -2.0; exponent <= 2.0; exponent += 1.0 / 512) {
      const long double exact = std::pow(static_cast<long double>(base), exponent);
      const double error = static_cast<double>(std::fabs(pow_f64(base, exponent) / exact - 1.0L));
      const double bound = (2.0 + std::fabs(exponent * std::log(base))) * 0x1p-51;
      worst = std::max(worst, error / bound);
    }
  }
  EXPECT_LE(worst, 1.0);
  EXPECT_EQ(pow_f64(10000.0, 0.0), 1.0);
}

TEST(Math, SinCosWithinAbsoluteBound) {
  std::mt19937_64 random(5);
  double worst = 0;
  const auto check = [&](double x) {
    const SinCos got = sincos_f64(x);
    const long double exact = x;
    worst = std::max(worst, static_cast<double>(std::fabs(got.sine - std::sin(exact))));
    worst = std::max(worst, static_cast<double>(std::fabs(got.cosine - std::cos(exact))));
  };
  for (int bits = -20; bits <= 27; bits++) {
    std::uniform_real_distribution<double> values(-std::ldexp(1.0, bits), std::ldexp(1.0, bits));
    for (int i = 0; i < 20000; i++) check(values(random));
  }
  for (int i = 0; i < 100000; i++) check(i);
  for (int i = 0; i < 10000; i++) check(i * 1.57079632679489661923);  // the hardest: near the axes
  EXPECT_LE(worst, 0x1p-50);
  RecordProperty("worst_absolute_in_2^-53", std::to_string(worst * 0x1p53));
  EXPECT_EQ(sincos_f64(0.0).sine, 0.0);
  EXPECT_EQ(sincos_f64(0.0).cosine, 1.0);
  EXPECT_TRUE(std::isnan(sincos_f64(0x1.1p27).sine));
  EXPECT_TRUE(std::isnan(sincos_f64(kDoubleNan).cosine));
}

TEST(Math, RopeAnglesAreRoundedOnce) {
  std::vector<double> inverse_frequencies;
  for (int i = 0; i < 64; i++) inverse_frequencies.push_back(pow_f64(10000.0, -i / 64.0));
  std::vector<float> cosines(64), sines(64);
  for (const std::int64_t position : {0, 1, 77, 8191, 131071}) {
    for (const double scale : {1.0, 1.25}) {
      rope_angles(position, inverse_frequencies, scale, cosines.data(), sines.data());
      for (std::size_t i = 0; i < 64; i++) {
        const long double angle = static_cast<double>(position) * inverse_frequencies[i];
        // Half an ulp of the float, plus the double's absolute error before rounding.
        const double bound = scale * (0x1p-25 * (scale > 1 ? 2 : 1) + 0x1p-49);
        EXPECT_NEAR(cosines[i], static_cast<double>(std::cos(angle) * scale), bound) << position;
        EXPECT_NEAR(sines[i], static_cast<double>(std::sin(angle) * scale), bound) << position;
      }
    }
  }
}

__attribute__((target("f16c"))) std::uint32_t hardware_half_to_float(std::uint16_t half) {
  const __m128 value = _mm_cvtph_ps(_mm_cvtsi32_si128(half));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_castps_si128(value)));
}
__attribute__((target("f16c"))) std::uint16_t hardware_float_to_half(std::uint32_t bits) {
  const __m128 value = _mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits)));
  return static_cast<std::uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(value, 0)));
}

TEST(Math, EveryHalfHasTheHardwaresBits) {
  if (!__builtin_cpu_supports("f16c")) GTEST_SKIP() << "this CPU has no F16C";
  for (std::uint32_t half = 0; half < 0x10000; half++) {
    const auto h = static_cast<std::uint16_t>(half);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(half_to_float(h)), hardware_half_to_float(h)) << half;
    if ((half & 0x7fff) <= 0x7c00) {
      ASSERT_EQ(float_to_half(half_to_float(h)), h) << half;
    }
  }
}

TEST(Math, FloatsBecomeTheHardwaresHalves) {
  if (!__builtin_cpu_supports("f16c")) GTEST_SKIP() << "this CPU has no F16C";
  const auto check = [](std::uint32_t bits) {
    return float_to_half(std::bit_cast<float>(bits)) == hardware_float_to_half(bits);
  };
  // Every sign, exponent and ten mantissa bits, with each pattern that decides the rounding.
  for (std::uint32_t top = 0; top < 0x80000; top++) {
    for (const std::uint32_t low : {0x0u, 0x1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu}) {
      ASSERT_TRUE(check((top << 13) | low)) << std::hex << ((top << 13) | low);
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 2000000; i++) {
    const std::uint32_t bits = static_cast<std::uint32_t>(random());
    ASSERT_TRUE(check(bits)) << std::hex << bits;
  }
}

TEST(Math, BfloatRoundsToNearestEven) {
  for (std::uint32_t word = 0; word < 0x10000; word++) {
    const auto w = static_cast<std::uint16_t>(word);
    const float value = bfloat_to_float(w);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bfloat_to_float(float_to_bfloat(value)))) << word;
      continue;
    }
    ASSERT_EQ(float_to_bfloat(value), w);
    if (std::isinf(value)) continue;
    const std::uint32_t bits = word << 16;
    const auto next = static_cast<std::uint16_t>(w + 1);
    ASSERT_EQ(float_to_bfloat(std::bit_cast<float>(bits | 0x7fffu)), w);
    ASSERT_EQ(float_to_bfloat(std::bit_cast<float>(bits | 0x8000u)), word % 2 == 0 ? w : next);
    ASSERT_EQ(float_to_bfloat(std::bit_cast<float>(bits | 0x8001u)), next);
  }
}

}  // namespace
}  // namespace reprise::kernels
