// What "the same bits" means in the kernels' tests, and rows of awkward values.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace reprise::kernels {

// Equal bits, or both NaN: which NaN comes out is not part of the contract (none gets through).
inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}
inline bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// Index of the first difference, or -1.
inline int first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return 0;
  for (std::size_t i = 0; i < a.size(); i++) {
    if (!same(a[i], b[i])) return static_cast<int>(i);
  }
  return -1;
}

// Distance in units of the last place of the nearest float (double) to `exact`.
inline double ulps(float got, long double exact) {
  const int exponent = std::max(std::ilogb(static_cast<float>(exact)), -126);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) /
                             std::ldexp(1.0L, exponent - 23));
}
inline double ulps(double got, long double exact) {
  const int exponent = std::max(std::ilogb(static_cast<double>(exact)), -1022);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) /
                             std::ldexp(1.0L, exponent - 52));
}

// Normal values of the given spread.
inline std::vector<float> normal_values(std::size_t count, unsigned seed, float spread = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

// Values of every kind, finite or not: NaN, infinities, denormals, both zeros, huge and tiny.
inline std::vector<float> awkward_values(std::size_t count, unsigned seed) {
  using Limits = std::numeric_limits<float>;
  const float special[] = {Limits::quiet_NaN(),
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::denorm_min(),
                           -1e-40f,
                           0.0f,
                           -0.0f,
                           Limits::max(),
                           Limits::lowest(),
                           Limits::min(),
                           88.4f,
                           -87.4f,
                           0.625f,
                           65520.0f};
  std::mt19937 random(seed);
  std::vector<float> values = normal_values(count, seed, 3.0f);
  for (float& v : values) {
    if (random() % 4 == 0) v = special[random() % std::size(special)];
  }
  return values;
}

}  // namespace reprise::kernels
