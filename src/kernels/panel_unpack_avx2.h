// What the AVX2 unpackers of all integer weight types have in common.
//
// A step (panel_layout.h) is two vectors of 32 unsigned bytes; lane r of vector v (32 bits) holds
// row 8v + r's four k. A run is a sequence of steps whose vpmaddubsw results are added in 16 bits.
// Its length is bounded by overflow:
//   4 bit: 8 steps * 2 * 15 * 127 = 30480; 5 bit: 4 steps * 2 * 31 * 127 = 31496.
//   With the zero point taken out (minus_sum in activation_group.h) it is the true sum that has to
//   fit, because wrap-around in between cancels: 5 bit 8 * 2 * 16 * 127, 6 bit 4 * 2 * 32 * 127,
//   both 32512.
//   (One vpmaddubsw saturates, but 2 * 63 * 127 does not reach 32767.)
//   6 bit without a zero point: 2 steps * 2 * 63 * 127 = 32004.
//   8 bit: one product pair alone fills 16 bits, so the byte is two runs, low nibble and high
//   nibble, the second times 16.
// At the end of a run vpmaddwd multiplies by the run's integer factor (1, 16, or the row's own
// scale of the sub-block) and adds the two halves of each lane in 32 bits.
//
// An unpacker is a layout plus:
//   kGroups * kUnroll runs of kSteps steps     run g * kUnroll + R is unrolled over R
//   first_step(run)                            where the run's activations start
//   run_factor(R), zero_shift(R)               kRowFactor: the row's own; -1: no zero point
//   weights<R, S, V>(block, g)                 vector V of step S of run g * kUnroll + R
//   Scales, unpack_scales(block, scales)
// and for MLX, whose scales have two or four bytes (header_bytes, block_bytes of panel_affine.h):
//   weights() counts from behind the block's scales; unpack_scales(block, scale_type, scales)
#pragma once
#include "kernels/panel_unit.h"
#include "kernels/panel_vectors_avx2.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprise::kernels::avx2 {

#include "kernels/panel_weights.inc"

inline constexpr int kRowFactor = 0;

struct RowScales {
  alignas(32) float scale[16];
};
struct RowScalesAndOffsets {
  alignas(32) float scale[16];
  alignas(32) float offset[16];
};

REPRISE_INLINE void unpack_halves(const std::uint8_t* from, float* to) {
  _mm256_store_ps(to, load_halves(from));
  _mm256_store_ps(to + 8, load_halves(from + 16));
}

}  // namespace reprise::kernels::avx2
#pragma GCC pop_options
