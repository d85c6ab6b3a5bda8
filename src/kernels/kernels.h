// The kernels: numbers in, numbers out. No allocation, no files, no locks. One table of functions
// per ISA, chosen once at start; every ISA gives the same bits (docs/ARCHITECTURE.md).
//
// A result depends on the row's own inputs only: not on how many rows share a call, how panels or
// segments are cut among calls, or which thread makes them. All strides count floats.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"
#include "kernels/kv_block.h"
#include "kernels/weight_type.h"

namespace reprise::kernels {

// Bumped whenever any kernel's bits change; part of every cache fingerprint.
inline constexpr int kNumericVersion = 1;

// Scratch that a matmul call may use, one per thread, 64-byte aligned.
inline constexpr std::size_t kMatmulScratchBytes = std::size_t{1} << 20;

enum class RopeLayout : std::uint8_t {
  half_split,   // pairs (x[i], x[i + d/2])
  interleaved,  // pairs (x[2i], x[2i + 1])
};

// Positions that a row may see: first <= position <= last.
struct VisibleRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

// Attention merges segments of 256 absolute positions ascending, in prefill and decode alike.
inline constexpr int kSegmentPages = 4;
inline constexpr int kSegmentPositions = kSegmentPages * kPagePositions;

// Partial attention of one row: {running maximum, probability sum, output[value_dim]}, in a layout
// private to the kernels. The caller provides 64-byte aligned memory of this many floats per row.
constexpr std::size_t attention_state_floats(int value_dim) {
  return static_cast<std::size_t>(value_dim) + 16;
}

// One kv head of one layer, by page index; only pages that a row of the call may see are read.
struct KvBlocks {
  const std::uint8_t* const* pages = nullptr;  // each page's start; null: dropped
  std::size_t offset = 0;                      // bytes from a page's start to this head's block
  KvShape shape;
};

// Logits whose maximum block_maxima gives as one number.
inline constexpr int kMaximumBlock = 128;

struct KernelTable {
  const char* isa;  // "scalar", "avx2", "avx512"

  // Tiles [tile_begin, tile_end) of x: [rows, columns] into `out` (activation_bytes() in all).
  void (*make_activations)(ActivationFormat format, const float* x, std::size_t x_stride, int rows,
                           int columns, int tile_begin, int tile_end, std::uint8_t* out);

  // out[m][n] = sum over k of x[m][k] * w[n][k] for the n of panels [panel_begin, panel_end);
  // x: all `rows` rows in the type's activation format. Blocks ascending along k, never split.
  void (*matmul)(const PanelMatrix& weights, const std::uint8_t* activations, int rows,
                 int panel_begin, int panel_end, float* out, std::size_t out_stride,
                 std::uint8_t* scratch);

  // out = x / sqrt(mean(x^2) + eps) * weight; weight may be null (ones); out may be x.
  // Source: Zhang & Sennrich 2019, eq. 4.
  void (*rms_norm)(const float* x, std::size_t x_stride, const float* weight, float eps, int rows,
                   int columns, float* out, std::size_t out_stride);

  void (*add)(float* x, const float* y, std::size_t count);  // x += y
  void (*scale)(float* x, float factor, std::size_t count);  // x *= factor
  // x = fma(y, factor, x).
  void (*add_scaled)(float* x, const float* y, float factor, std::size_t count);
  void (*multiply)(float* x, const float* y, std::size_t count);  // x *= y
  void (*add_row)(float* x, std::size_t x_stride, const float* bias, int rows, int columns);

  // gate = gelu_tanh(gate) * up. Source: Hendrycks & Gimpel 2016, section 2 (tanh form).
  void (*gelu_tanh_multiply)(float* gate, const float* up, std::size_t count);
  // gate = gelu(gate) * up with the error function. Source: the same, section 2.
  void (*gelu_multiply)(float* gate, const float* up, std::size_t count);
  // gate = gate * sigmoid(gate) * up. Source: Shazeer 2020 (SwiGLU).
  void (*silu_multiply)(float* gate, const float* up, std::size_t count);
  // x = x * sigmoid(gate).
  void (*sigmoid_multiply)(float* x, const float* gate, std::size_t count);
  // x = cap * tanh(x / cap).
  void (*softcap)(float* x, float cap, std::size_t count);

  // Rotates the first `rotary_dim` dimensions of every head of x: [rows, heads, head_dim] in place.
  // cos, sin: [rows, rotary_dim / 2] (rope_angles). Source: Su et al. 2021, eq. 34.
  // A pair of inverse frequency 0 (cos 1, sin 0) keeps its values, but for the sign of a zero: so
  // "proportional" RoPE, whose pairs span the whole head, has rotary_dim = head_dim and zeros.
  void (*rope)(RopeLayout layout, float* x, int rows, int heads, int head_dim, int rotary_dim,
               const float* cosines, const float* sines);

  // Writes one place of one head's block: values are rounded to the KV type and saturated to its
  // finite range. False when a value is NaN or infinite (the place then holds a finite value).
  bool (*store_kv)(const KvShape& shape, std::uint8_t* block, int place, const float* key,
                   const float* value);

  // Attention of `rows` query rows over one segment, from an empty state. q: [rows, head_dim],
  // already times the attention scale; states: attention_state_floats() each.
  // Source: online softmax, Milakov & Gimelshein 2018, alg. 3.
  void (*attend_segment)(const KvBlocks& blocks, int rows, const float* q, std::size_t q_stride,
                         const VisibleRange* visible, int segment, float* states);
  // total = total merged with the next segment's part. `clear_states` makes `rows` empty totals.
  void (*clear_states)(int value_dim, int rows, float* states);
  void (*merge_states)(int value_dim, int rows, float* totals, const float* parts);
  // out: [rows, value_dim] = total / sum; NaN for a row that saw nothing.
  void (*finish_states)(int value_dim, int rows, const float* totals, float* out,
                        std::size_t out_stride);

  // Index of the largest value; the lowest index among equals; a NaN never wins (0 if all are).
  int (*argmax)(const float* x, int count);
  bool (*all_finite)(const float* x, std::size_t count);
  // Sum of exp(x[i] - largest) in a written lane order, in double.
  double (*sum_exp)(const float* x, int count, float largest);
  void (*exponentials)(float* x, std::size_t count);  // x = exp_f32(x)
  // out[b] = the largest of the b-th kMaximumBlock values of x (the last block may be shorter);
  // a NaN never wins (-infinity if all are).
  void (*block_maxima)(const float* x, int count, float* out);
  // out[i] = (x[i] - largest) / temperature, in double, rounded once.
  void (*scaled_exponents)(const float* x, int count, float largest, double temperature,
                           float* out);
};

// The tables that this build and this CPU offer, the scalar twin first.
std::span<const KernelTable* const> available_kernels();

// The table named by `forced` (its isa), or the best one when it is empty.
// Errors: unsupported, naming what is available.
Result<const KernelTable*> choose_kernels(std::string_view forced);

}  // namespace reprise::kernels
