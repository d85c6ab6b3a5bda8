// Float rows to quantised rows as a file would store them, for loading with --quantize. Plain code,
// deterministic; x must be finite.
#pragma once
#include <cstddef>
#include <cstdint>

namespace reprise::kernels {

// Q8_0 blocks, out: file_row_bytes(q8_0, columns). d = amax / 127 as a half; q = x * (1 / d), d
// before that rounding, to the nearest integer, ties away from zero. Source: ggml's
// quantize_row_q8_0_ref.
void quantize_row_q8_0(const float* x, int columns, std::byte* out);

// MLX affine groups. quants: columns * bits / 8 bytes, a stream of bits, low bits first; scales and
// biases: [columns / group], which a caller may round to the file's type (MLX computes the integers
// before it rounds them, and so do we). Source: MLX's affine quantization, mlx.core.quantize.
void quantize_row_affine(const float* x, int columns, int bits, int group, std::byte* quants,
                         float* scales, float* biases);

}  // namespace reprise::kernels
