// Decode first, prefill in order of arrival, no block twice; and how many rows fit a step.
#include "engine/step_plan.h"

#include <algorithm>

#include "kv/kv_layout.h"

namespace reprise {
namespace {

constexpr Position kFirstRows = 64;  // of the first chunk, before anything was measured
// Fewer rows would stream all weights for little: a model whose single row takes longer than a step
// should would otherwise prefill at the speed of decode.
constexpr Position kFewestRows = 32;

Position length_of(const PlanSequence& sequence) {
  return static_cast<Position>(sequence.tokens.size());
}

// Whether `later` gets its next block from the cache once `earlier` has computed the one it is at.
bool computes_block_of(const PlanSequence& earlier, const PlanSequence& later) {
  if (earlier.share < 0 || earlier.share != later.share) return false;
  const Position block_end =
      std::min((earlier.offset / kPagePositions + 1) * kPagePositions, length_of(earlier));
  if (later.offset >= block_end || length_of(later) < block_end) return false;
  const auto same = static_cast<std::ptrdiff_t>(block_end);
  return std::equal(earlier.tokens.begin(), earlier.tokens.begin() + same, later.tokens.begin());
}

}  // namespace

std::vector<PlanChunk> plan_step(std::span<const PlanSequence> sequences, Position prefill_rows) {
  std::vector<PlanChunk> plan;
  for (std::size_t index = 0; index < sequences.size(); index++) {
    if (sequences[index].is_decoding) plan.push_back({index, 1});
  }
  const std::size_t decoding = plan.size();
  for (std::size_t index = 0; index < sequences.size() && prefill_rows > 0; index++) {
    const PlanSequence& sequence = sequences[index];
    if (sequence.is_decoding) continue;
    const bool waits = std::any_of(plan.begin() + static_cast<std::ptrdiff_t>(decoding), plan.end(),
                                   [&](const PlanChunk& chunk) {
                                     return computes_block_of(sequences[chunk.sequence], sequence);
                                   });
    if (waits) continue;
    const Position rows = std::min(prefill_rows, length_of(sequence) - sequence.offset);
    plan.push_back({index, rows});
    prefill_rows -= rows;
  }
  return plan;
}

Position StepSpeed::prefill_rows(Position decode_rows) const {
  const Position fitting =
      rows_per_ms_ > 0
          ? static_cast<Position>(std::min(rows_per_ms_ * target_ms_, 1e9)) - decode_rows
          : kFirstRows;
  return std::clamp(std::max(fitting, kFewestRows), Position{1}, std::max<Position>(rows_max_, 1));
}

void StepSpeed::observe(Position rows, double elapsed_ms) {
  if (rows <= 0 || !(elapsed_ms > 0)) return;
  // The rest of a prompt says little about a whole chunk: few rows are slow rows.
  const bool is_rest = rows * 2 < prefill_rows(0);
  if (is_rest && elapsed_ms <= target_ms_) return;
  const double measured = static_cast<double>(rows) / elapsed_ms;
  rows_per_ms_ = rows_per_ms_ > 0 ? (rows_per_ms_ + measured) / 2 : measured;
}

}  // namespace reprise
