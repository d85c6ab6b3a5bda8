// The scalar twin of the activation kernels: the specification of how rows of x become int8.
#include "kernels/activation_group.h"
#include "kernels/matmul.h"

namespace reprise::kernels::scalar {

namespace {

std::uint32_t absolute_bits(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits & 0x7fffffffu;
}

// The largest magnitude as bits: their order is that of the values, and a NaN is above everything.
std::uint32_t largest_bits(const float* x, int count) {
  std::uint32_t largest = 0;
  for (int i = 0; i < count; i++) {
    const std::uint32_t bits = absolute_bits(x[i]);
    if (bits > largest) largest = bits;
  }
  return largest;
}

float from_bits(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Nearest integer, ties to even, for |x| < 2^22: the sum has no bits left below the unit.
int round_to_even(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  return static_cast<int>((x + kMagic) - kMagic);
}

// 32 columns of one row times `inverse`; `sums` gets the sums per 16 columns, split as minus_sum
// is.
void quantize_32(const float* x, float inverse, std::int8_t (*q)[1][4], int (*sums)[2]) {
  sums[0][0] = sums[0][1] = sums[1][0] = sums[1][1] = 0;
  for (int k = 0; k < 32; k++) {
    const int value = round_to_even(x[k] * inverse);
    q[k / 4][0][k % 4] = static_cast<std::int8_t>(value);
    sums[k / 16][k % 4 / 2] += value;
  }
}

void quantize_group(const float* x, ActivationGroup<32, 1>& group) {
  const std::uint32_t bits = largest_bits(x, 32);
  if (!is_finite_bits(bits)) return set_not_finite(group);
  const float largest = from_bits(bits);
  int sums[2][2];
  quantize_32(x, inverse_of(largest), group.q, sums);
  const int sum0 = sums[0][0] + sums[1][0];
  const int sum1 = sums[0][1] + sums[1][1];
  group.scale[0] = scale_of(largest);
  group.sum[0] = group.scale[0] * static_cast<float>(sum0 + sum1);
  group.minus_sum[0][0][0] = static_cast<std::int16_t>(-sum0);
  group.minus_sum[0][0][1] = static_cast<std::int16_t>(-sum1);
}

template <int Columns>
void quantize_group(const float* x, ActivationGroup<Columns, 1>& group) {
  const std::uint32_t bits = largest_bits(x, Columns);
  if (!is_finite_bits(bits)) return set_not_finite(group);
  const float largest = from_bits(bits);
  int total = 0;
  for (int i = 0; i < Columns / 32; i++) {
    int sums[2][2];
    quantize_32(x + 32 * i, inverse_of(largest), group.q + 8 * i, sums);
    total += sums[0][0] + sums[0][1] + sums[1][0] + sums[1][1];
  }
  group.scale[0] = scale_of(largest);
  group.sum[0] = group.scale[0] * static_cast<float>(total);
}

void quantize_group(const float* x, ActivationGroup<256, 1>& group) {
  const std::uint32_t bits = largest_bits(x, 256);
  if (!is_finite_bits(bits)) return set_not_finite(group);
  const float units = units_256(from_bits(bits));
  group.scale[0] = scale_256(from_bits(bits));
  for (int i = 0; i < 8; i++) {
    const int factor = factor_256(from_bits(largest_bits(x + 32 * i, 32)), units);
    int sums[2][2];
    quantize_32(x + 32 * i, inverse_256(units, factor), group.q + 8 * i, sums);
    int total = 0;
    for (int half = 0; half < 2; half++) {
      for (int p = 0; p < 2; p++) {
        group.minus_sum[2 * i + half][0][p] = static_cast<std::int16_t>(-sums[half][p]);
        total += sums[half][p];
      }
    }
    group.factor[i][0][0] = group.factor[i][0][1] = static_cast<std::int16_t>(factor);
    group.sum32[i / 2][0][i % 2] = static_cast<std::int16_t>(total * factor);
  }
}

template <int Columns>
void quantize_tile(const float* x, std::size_t x_stride, int rows, int columns, int tile,
                   std::uint8_t* out) {
  const int width = tile_rows(rows, tile);
  std::uint8_t* groups = out + tile_offset<Columns>(tile, columns);
  for (int row = 0; row < width; row++) {
    const float* from = x + static_cast<std::size_t>(tile * kTileRows + row) * x_stride;
    for (int g = 0; g < columns / Columns; g++) {
      ActivationGroup<Columns, 1> one;
      quantize_group(from + g * Columns, one);
      put_row(one, groups + static_cast<std::size_t>(g * width) * sizeof one, width, row);
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

}  // namespace reprise::kernels::scalar
