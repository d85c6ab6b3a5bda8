// Our own elementary functions: one sequence of exact operations each, so every ISA and compiler
// gives the same bits. Nothing that reaches a token may call libm's.
#pragma once
#include <bit>
#include <cstdint>
#include <span>

namespace reprise::kernels {

// NaN gives NaN everywhere below.
// e^x: <= 1 ulp on [-87.33, 88.37]; 0 below -87.33; the value at 88.37 above (finite).
float exp_f32(float x);
float tanh_f32(float x);     // <= 1.5 ulp
float erf_f32(float x);      // <= 1 ulp
float sigmoid_f32(float x);  // 1 / (1 + e^-x), <= 2.5 ulp above -87
double exp_f64(double x);    // <= 2 ulp where the result is normal
double log_f64(double x);    // natural logarithm of x > 0, <= 2 ulp; -inf at 0, NaN below
// base^exponent for base > 0; relative error <= (2 + |exponent * ln base|) * 2^-51.
double pow_f64(double base, double exponent);
struct SinCos {
  double sine;
  double cosine;
};
SinCos sincos_f64(double x);  // |x| up to 2^27, absolute error <= 2^-50

// cos and sin of position * inverse_frequency[i] for one row, in double, times `scale` (yarn's
// attention factor; 1 otherwise), rounded once. Each angle must lie within 2^27.
void rope_angles(std::int64_t position, std::span<const double> inverse_frequencies, double scale,
                 float* cosines, float* sines);

// Nearest integer, ties to even (rintf in the default rounding).
inline float round_to_even(float x) {
  constexpr float kNoFraction = 0x1p23f;  // from here on every float is an integer
  const float size = __builtin_fabsf(x);
  if (!(size < kNoFraction)) return x;
  return __builtin_copysignf((size + kNoFraction) - kNoFraction, x);
}

// Software conversions (no F16C), round to nearest even; the bits of the hardware's. NaN becomes
// quiet and keeps the payload that fits.
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  if (magnitude < 0x0400) {  // zero or denormal: an integer count of 2^-24, exact in float
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  std::uint32_t bits = (magnitude << 13) + ((127u - 15u) << 23);
  if (magnitude >= 0x7c00) bits = (magnitude << 13) | 0x7f800000u;
  if (magnitude > 0x7c00) bits |= 0x00400000u;
  return std::bit_cast<float>(bits | sign);
}

inline std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude > 0x7f800000u) {  // NaN
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 rounds to a multiple of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
  } else {
    half = (magnitude - ((127u - 15u) << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(half | sign);
}

inline float bfloat_to_float(std::uint16_t bfloat) {
  return std::bit_cast<float>(std::uint32_t{bfloat} << 16);
}

inline std::uint16_t float_to_bfloat(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace reprise::kernels
