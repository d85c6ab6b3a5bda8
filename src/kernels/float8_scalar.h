// Eight floats in plain C++: the meaning of every operation of float8_avx2.h, lane by lane.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/inline.h"
#include "kernels/math.h"

namespace reprise::kernels::scalar {
namespace {

struct Float8 {
  float lane[8];
};

// Applies one expression in `i` to the eight lanes.
#define REPRISE_EACH_LANE(expression)                        \
  Float8 result;                                             \
  for (int i = 0; i < 8; i++) result.lane[i] = (expression); \
  return result

REPRISE_INLINE Float8 load8(const float* p) {
  REPRISE_EACH_LANE(p[i]);
}
REPRISE_INLINE void store8(float* p, Float8 v) {
  std::memcpy(p, v.lane, sizeof v.lane);
}
REPRISE_INLINE Float8 splat8(float x) {
  REPRISE_EACH_LANE(x);
}
REPRISE_INLINE Float8 splat_like(Float8, float x) {  // for templates over the vector type
  return splat8(x);
}

REPRISE_INLINE Float8 operator+(Float8 a, Float8 b) {
  REPRISE_EACH_LANE(a.lane[i] + b.lane[i]);
}
REPRISE_INLINE Float8 operator-(Float8 a, Float8 b) {
  REPRISE_EACH_LANE(a.lane[i] - b.lane[i]);
}
REPRISE_INLINE Float8 operator*(Float8 a, Float8 b) {
  REPRISE_EACH_LANE(a.lane[i] * b.lane[i]);
}
REPRISE_INLINE Float8 operator/(Float8 a, Float8 b) {
  REPRISE_EACH_LANE(a.lane[i] / b.lane[i]);
}
REPRISE_INLINE Float8 operator-(Float8 a) {
  REPRISE_EACH_LANE(-a.lane[i]);
}

REPRISE_INLINE Float8 fused(Float8 a, Float8 b, Float8 c) {
  REPRISE_EACH_LANE(__builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]));
}
REPRISE_INLINE Float8 fused_minus(Float8 a, Float8 b, Float8 c) {
  REPRISE_EACH_LANE(__builtin_fmaf(-a.lane[i], b.lane[i], c.lane[i]));
}

REPRISE_INLINE float larger(float a, float b) {
  return a > b ? a : b;
}
REPRISE_INLINE Float8 larger(Float8 a, Float8 b) {
  REPRISE_EACH_LANE(larger(a.lane[i], b.lane[i]));
}
REPRISE_INLINE Float8 smaller(Float8 a, Float8 b) {
  REPRISE_EACH_LANE(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]);
}

REPRISE_INLINE Float8 magnitude(Float8 v) {
  REPRISE_EACH_LANE(__builtin_fabsf(v.lane[i]));
}
REPRISE_INLINE Float8 with_sign_of(Float8 size, Float8 sign) {
  REPRISE_EACH_LANE(__builtin_copysignf(size.lane[i], sign.lane[i]));
}
REPRISE_INLINE Float8 if_less(Float8 a, Float8 b, Float8 yes, Float8 no) {
  REPRISE_EACH_LANE(a.lane[i] < b.lane[i] ? yes.lane[i] : no.lane[i]);
}
REPRISE_INLINE Float8 zero_if_nan(Float8 v) {
  REPRISE_EACH_LANE(v.lane[i] == v.lane[i] ? v.lane[i] : 0.0f);
}
REPRISE_INLINE Float8 power_of_two(Float8 shifted) {
  REPRISE_EACH_LANE(
      std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted.lane[i]) << 23) + 0x3f800000u));
}
REPRISE_INLINE Float8 hide_outside(Float8 v, int at, int first, int last) {
  REPRISE_EACH_LANE(first <= at + i && at + i <= last ? v.lane[i] : -__builtin_inff());
}

REPRISE_INLINE float lane_sum(Float8 v) {
  const float* x = v.lane;
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}
REPRISE_INLINE float lane_largest(Float8 v) {
  const float* x = v.lane;
  return larger(larger(larger(x[0], x[4]), larger(x[2], x[6])),
                larger(larger(x[1], x[5]), larger(x[3], x[7])));
}
REPRISE_INLINE bool all_lanes_finite(Float8 v) {
  bool finite = true;
  for (const float x : v.lane) finite = finite && __builtin_fabsf(x) < __builtin_inff();
  return finite;
}
REPRISE_INLINE int first_equal(Float8 v, Float8 x) {
  int i = 0;
  while (i < 8 && !(v.lane[i] == x.lane[i])) i++;
  return i;
}

REPRISE_INLINE void split_pairs(Float8 a, Float8 b, Float8& first, Float8& second) {
  for (int i = 0; i < 8; i++) {
    const float* pair = i < 4 ? a.lane + 2 * i : b.lane + 2 * (i - 4);
    first.lane[i] = pair[0];
    second.lane[i] = pair[1];
  }
}
REPRISE_INLINE void join_pairs(Float8 first, Float8 second, Float8& a, Float8& b) {
  for (int i = 0; i < 8; i++) {
    float* pair = i < 4 ? a.lane + 2 * i : b.lane + 2 * (i - 4);
    pair[0] = first.lane[i];
    pair[1] = second.lane[i];
  }
}

REPRISE_INLINE std::uint16_t load_word(const std::uint8_t* p) {
  std::uint16_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}
REPRISE_INLINE Float8 load_half8(const std::uint8_t* p) {
  REPRISE_EACH_LANE(half_to_float(load_word(p + 2 * i)));
}
REPRISE_INLINE Float8 load_bfloat8(const std::uint8_t* p) {
  REPRISE_EACH_LANE(bfloat_to_float(load_word(p + 2 * i)));
}
REPRISE_INLINE Float8 load_integer8(const std::uint8_t* p) {
  REPRISE_EACH_LANE(static_cast<float>(static_cast<std::int8_t>(p[i])));
}
REPRISE_INLINE void store_half8(std::uint16_t* p, Float8 v) {
  for (int i = 0; i < 8; i++) p[i] = float_to_half(v.lane[i]);
}
REPRISE_INLINE void store_bfloat8(std::uint16_t* p, Float8 v) {
  for (int i = 0; i < 8; i++) p[i] = float_to_bfloat(v.lane[i]);
}

struct Double8 {
  double lane[8];
};
REPRISE_INLINE Double8 zero_sums() {
  return {};
}
REPRISE_INLINE Double8 accumulate(Double8 sums, Float8 v) {
  for (int i = 0; i < 8; i++) sums.lane[i] += static_cast<double>(v.lane[i]);
  return sums;
}
REPRISE_INLINE Double8 operator+(Double8 a, Double8 b) {
  for (int i = 0; i < 8; i++) a.lane[i] += b.lane[i];
  return a;
}
REPRISE_INLINE Float8 divided_difference(Float8 x, double subtrahend, double divisor) {
  for (int i = 0; i < 8; i++) {
    x.lane[i] = static_cast<float>((static_cast<double>(x.lane[i]) - subtrahend) / divisor);
  }
  return x;
}
REPRISE_INLINE double lane_sum(Double8 v) {
  const double* x = v.lane;
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}
#undef REPRISE_EACH_LANE

}  // namespace
}  // namespace reprise::kernels::scalar
