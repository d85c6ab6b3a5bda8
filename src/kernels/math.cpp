// Elementary functions from argument reduction and polynomials, multiply-adds explicit.
#include "kernels/math.h"

#include <limits>

#include "base/check.h"
#include "kernels/elementary_constants.h"

namespace reprise::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounder64 = 0x1.8p52;  // adding it rounds to an integer

// 2^exponent for -1022 <= exponent <= 1023.
double power_of_two(std::int64_t exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// c[0] + c[1] x + c[2] x^2 + ..., Horner from the highest term.
template <std::size_t kTerms>
double polynomial(const double (&coefficients)[kTerms], double x) {
  double sum = coefficients[kTerms - 1];
  for (std::size_t i = kTerms - 1; i-- > 0;) sum = __builtin_fma(sum, x, coefficients[i]);
  return sum;
}

}  // namespace

float exp_f32(float x) {
  if (x < kExpSmallest) return 0.0f;
  if (x > kExpLargest) x = kExpLargest;
  const float shifted = __builtin_fmaf(x, kLog2E, kRounder);
  const float n = shifted - kRounder;
  float r = __builtin_fmaf(-n, kLn2High, x);
  r = __builtin_fmaf(-n, kLn2Low, r);
  float p = kExpPolynomial[0];
  for (int i = 1; i < kExpTerms; i++) p = __builtin_fmaf(p, r, kExpPolynomial[i]);
  p = __builtin_fmaf(r * r, p, r);
  p = p + 1.0f;
  const std::uint32_t scale = (std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000u;
  return p * std::bit_cast<float>(scale);
}

float tanh_f32(float x) {
  const float size = __builtin_fabsf(x);
  if (kTanhBound < size) {
    return __builtin_copysignf(1.0f - 2.0f / (exp_f32(size + size) + 1.0f), x);
  }
  const float square = size * size;
  float p = kTanhPolynomial[0];
  for (int i = 1; i < kTanhTerms; i++) p = __builtin_fmaf(p, square, kTanhPolynomial[i]);
  return __builtin_copysignf(__builtin_fmaf(p * square, size, size), x);
}

float erf_f32(float x) {
  const float size = __builtin_fabsf(x);
  const float square = x * x;
  if (kErfBound < size) {
    float q = __builtin_fmaf(kErfTail[0], size, kErfTail[1]);
    const float pair = __builtin_fmaf(kErfTail[2], size, kErfTail[3]);
    q = __builtin_fmaf(q, square, pair);
    for (int i = 4; i < 7; i++) q = __builtin_fmaf(q, size, kErfTail[i]);
    return __builtin_copysignf(1.0f - exp_f32(__builtin_fmaf(q, size, -size)), x);
  }
  float p = kErfPolynomial[0];
  for (int i = 1; i < kErfTerms; i++) p = __builtin_fmaf(p, square, kErfPolynomial[i]);
  return __builtin_copysignf(__builtin_fmaf(p, size, size), x);
}

float sigmoid_f32(float x) {
  return 1.0f / (1.0f + exp_f32(-x));
}

double exp_f64(double x) {
  // 1 / i!; the first term left out is below 2^-57 at |r| = ln 2 / 2.
  static constexpr double kFactorials[] = {1.0,
                                           1.0,
                                           1.0 / 2,
                                           1.0 / 6,
                                           1.0 / 24,
                                           1.0 / 120,
                                           1.0 / 720,
                                           1.0 / 5040,
                                           1.0 / 40320,
                                           1.0 / 362880,
                                           1.0 / 3628800,
                                           1.0 / 39916800,
                                           1.0 / 479001600,
                                           1.0 / 6227020800.0};
  if (x > 709.79) return kInfinity;
  if (x < -745.14) return 0.0;
  if (x != x) return x;
  const double n = __builtin_fma(x, 0x1.71547652b82fep0, kRounder64) - kRounder64;
  double r = __builtin_fma(-n, 0x1.62e42fefa39efp-1, x);  // ln 2, high
  r = __builtin_fma(-n, 0x1.abc9e3b39803fp-56, r);        // ln 2, low
  const double p = polynomial(kFactorials, r);
  const std::int64_t exponent = static_cast<std::int64_t>(n);
  const std::int64_t half = exponent / 2;  // 2^exponent itself may not be a normal number
  return p * power_of_two(half) * power_of_two(exponent - half);
}

// Source: fdlibm e_log.c (Sun Microsystems 1993).
double log_f64(double x) {
  static constexpr double kTerms[] = {6.666666666666735130e-01, 3.999999999940941908e-01,
                                      2.857142874366239149e-01, 2.222219843214978396e-01,
                                      1.818357216161805012e-01, 1.531383769920937332e-01,
                                      1.479819860511658591e-01};
  if (x == 0.0) return -kInfinity;
  if (x < 0.0) return std::numeric_limits<double>::quiet_NaN();
  if (!(x < kInfinity)) return x;  // +inf and NaN
  int exponent = 0;
  if (x < 0x1p-1022) {
    x = x * 0x1p54;
    exponent = -54;
  }
  std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  // Shifts the mantissa's range to [sqrt(1/2), sqrt(2)).
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdu;
  bits = bits - kSqrtHalf + (std::uint64_t{1023} << 52);
  exponent = exponent + static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0x000fffffffffffffu) + kSqrtHalf;
  const double f = std::bit_cast<double>(bits) - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double r = z * polynomial(kTerms, z);
  const double half_square = 0.5 * f * f;
  const double k = exponent;
  const double high = k * 6.93147180369123816490e-01;  // exact: 32 low bits of the factor are zero
  const double low = k * 1.90821492927058770002e-10;
  return high - ((half_square - (s * (half_square + r) + low)) - f);
}

double pow_f64(double base, double exponent) {
  const double logarithm = log_f64(base);
  const double product = exponent * logarithm;
  const double rest = __builtin_fma(exponent, logarithm, -product);
  const double power = exp_f64(product);
  if (!(power < kInfinity) || power == 0.0) return power;
  return __builtin_fma(power, rest, power);
}

SinCos sincos_f64(double x) {
  // (-1)^i / (2i+1)! and (-1)^i / (2i)!; the first terms left out are below 2^-57 at pi / 4.
  static constexpr double kSine[] = {1.0,
                                     -1.0 / 6,
                                     1.0 / 120,
                                     -1.0 / 5040,
                                     1.0 / 362880,
                                     -1.0 / 39916800,
                                     1.0 / 6227020800.0,
                                     -1.0 / 1307674368000.0,
                                     1.0 / 355687428096000.0};
  static constexpr double kCosine[] = {1.0,
                                       -1.0 / 2,
                                       1.0 / 24,
                                       -1.0 / 720,
                                       1.0 / 40320,
                                       -1.0 / 3628800,
                                       1.0 / 479001600,
                                       -1.0 / 87178291200.0,
                                       1.0 / 20922789888000.0};
  if (!(__builtin_fabs(x) <= 0x1p27)) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return {nan, nan};
  }
  const double n = __builtin_fma(x, 0x1.45f306dc9c883p-1, kRounder64) - kRounder64;
  // pi / 2 in two parts. The first difference is exact: both sides are multiples of 2^-53 below 1.
  double r = __builtin_fma(-n, 0x1.921fb54442d18p0, x);
  r = __builtin_fma(-n, 0x1.1a62633145c07p-54, r);
  const double z = r * r;
  const double sine = r * polynomial(kSine, z);
  const double cosine = polynomial(kCosine, z);
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

void rope_angles(std::int64_t position, std::span<const double> inverse_frequencies, double scale,
                 float* cosines, float* sines) {
  for (std::size_t i = 0; i < inverse_frequencies.size(); i++) {
    const double angle = static_cast<double>(position) * inverse_frequencies[i];
    DCHECK(__builtin_fabs(angle) <= 0x1p27);
    const SinCos pair = sincos_f64(angle);
    cosines[i] = static_cast<float>(pair.cosine * scale);
    sines[i] = static_cast<float>(pair.sine * scale);
  }
}

}  // namespace reprise::kernels
