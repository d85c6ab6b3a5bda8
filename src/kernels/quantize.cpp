// Quantisers of Q8_0 and of the MLX affine types.
#include "kernels/quantize.h"

#include <cstring>

#include "base/check.h"
#include "kernels/math.h"
#include "kernels/weight_type.h"

namespace reprise::kernels {
namespace {

// As an integer of [low, high]; a NaN is low.
int clamped(float x, float low, float high) {
  if (!(x > low)) return static_cast<int>(low);
  return static_cast<int>(x < high ? x : high);
}

// Nearest integer, ties away from zero, of |x| < 2^22.
float round_away(float x) {
  const float size = __builtin_fabsf(x);
  const float whole = static_cast<float>(static_cast<int>(size));
  return __builtin_copysignf(size - whole >= 0.5f ? whole + 1.0f : whole, x);
}

struct Affine {
  float scale;
  float bias;
};

// The grid starts at the end of larger magnitude, which it hits exactly, and contains zero.
Affine choose_affine(const float* x, int group, float steps) {
  constexpr float kSmallestScale = 1e-7f;
  float smallest = x[0];
  float largest = x[0];
  for (int i = 1; i < group; i++) {
    smallest = x[i] < smallest ? x[i] : smallest;
    largest = x[i] > largest ? x[i] : largest;
  }
  float scale = (largest - smallest) / steps;
  if (!(scale > kSmallestScale)) scale = kSmallestScale;
  const bool from_smallest = __builtin_fabsf(smallest) > __builtin_fabsf(largest);
  const float edge = from_smallest ? smallest : largest;
  if (!from_smallest) scale = -scale;
  const float count = round_to_even(edge / scale);
  if (count == 0.0f) return {scale, 0.0f};
  return {edge / count, edge};
}

}  // namespace

void quantize_row_q8_0(const float* x, int columns, std::byte* out) {
  constexpr int kBlock = 32;
  CHECK(columns >= 0 && columns % kBlock == 0);
  for (int k = 0; k < columns; k += kBlock, out += 2 + kBlock) {
    float largest = 0.0f;
    for (int i = 0; i < kBlock; i++) {
      const float size = __builtin_fabsf(x[k + i]);
      largest = size > largest ? size : largest;
    }
    const float d = largest / 127.0f;
    const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
    const std::uint16_t half = float_to_half(d);
    std::memcpy(out, &half, sizeof half);
    for (int i = 0; i < kBlock; i++) {
      // 1 / d of a denormal d may be infinite: bounded before it becomes an integer.
      const float scaled = x[k + i] * inverse;
      const float bounded = scaled > 127.0f ? 127.0f : scaled > -127.0f ? scaled : -127.0f;
      const int q = static_cast<int>(round_away(bounded));
      out[2 + i] = static_cast<std::byte>(static_cast<std::uint8_t>(q));
    }
  }
}

void quantize_row_affine(const float* x, int columns, int bits, int group, std::byte* quants,
                         float* scales, float* biases) {
  CHECK(affine_type(bits).has_value());
  CHECK(group == 32 || group == 64 || group == 128);
  CHECK(columns >= 0 && columns % group == 0);
  const float steps = static_cast<float>((1 << bits) - 1);
  for (int g = 0; g < columns / group; g++, x += group) {
    const Affine affine = choose_affine(x, group, steps);
    scales[g] = affine.scale;
    biases[g] = affine.bias;
    for (int k = 0; k < group; k += 8, quants += bits) {  // eight integers are `bits` bytes
      std::uint64_t stream = 0;
      for (int i = 0; i < 8; i++) {
        const float position = round_to_even((x[k + i] - affine.bias) / affine.scale);
        const auto q = static_cast<std::uint64_t>(clamped(position, 0.0f, steps));
        stream |= q << (bits * i);
      }
      std::memcpy(quants, &stream, static_cast<std::size_t>(bits));
    }
  }
}

}  // namespace reprise::kernels
