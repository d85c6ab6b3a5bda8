// Decode first, prefill shared out, no block twice; and how many rows fit a step.
#include "engine/step_plan.h"

#include <algorithm>
#include <utility>

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

// Shares out rows among prefilling sequences, in order of their turn.
class RowShares {
 public:
  RowShares(std::span<const PlanSequence> sequences, std::vector<std::size_t> order)
      : sequences_(sequences), order_(std::move(order)), rows_(sequences.size(), 0) {}

  Position rows(std::size_t sequence) const { return rows_[sequence]; }

  void share_out(Position rows) {
    std::vector<int> tenants;
    for (const std::size_t index : order_) {
      const int tenant = sequences_[index].tenant;
      if (std::ranges::find(tenants, tenant) == tenants.end()) tenants.push_back(tenant);
    }
    while (rows > 0 && !tenants.empty()) {
      const Position before = rows;
      const auto count = static_cast<Position>(tenants.size());
      const Position even = std::max<Position>(rows / count, 1);
      for (const int tenant : tenants) rows -= give(tenant, std::min(even, rows));
      if (rows == before) return;  // nobody needs more
    }
  }

 private:
  Position need(std::size_t index) const {
    return length_of(sequences_[index]) - sequences_[index].offset - rows_[index];
  }
  Position add(std::size_t index, Position rows) {
    const Position given = std::min(rows, need(index));
    rows_[index] += given;
    return given;
  }
  // Returns how many of `rows` the tenant took.
  Position give(int tenant, Position rows) {
    std::vector<std::size_t> own;
    for (const std::size_t index : order_) {
      if (sequences_[index].tenant == tenant) own.push_back(index);
    }
    const std::size_t first = own.front();
    Position left = rows - add(first, (rows + 1) / 2);
    std::ranges::stable_sort(own, {}, [&](std::size_t index) { return need(index); });
    for (const std::size_t index : own) {
      if (index != first) left -= add(index, left);
    }
    return rows - (left - add(first, left));
  }

  std::span<const PlanSequence> sequences_;
  std::vector<std::size_t> order_;
  std::vector<Position> rows_;
};

}  // namespace

std::vector<PlanChunk> plan_step(std::span<const PlanSequence> sequences, Position prefill_rows) {
  std::vector<PlanChunk> plan;
  std::vector<std::size_t> prefilling;
  for (std::size_t index = 0; index < sequences.size(); index++) {
    const PlanSequence& sequence = sequences[index];
    if (sequence.is_decoding) {
      plan.push_back({index, 1});
      continue;
    }
    const bool waits = std::ranges::any_of(prefilling, [&](std::size_t earlier) {
      return computes_block_of(sequences[earlier], sequence);
    });
    if (!waits) prefilling.push_back(index);
  }
  RowShares shares(sequences, prefilling);
  shares.share_out(prefill_rows);
  for (const std::size_t index : prefilling) {
    if (shares.rows(index) > 0) plan.push_back({index, shares.rows(index)});
  }
  return plan;
}

Position StepSpeed::prefill_rows(Position decode_rows) const {
  const double target_ms = decode_rows > 0 ? decode_ms_ : alone_ms_;
  const Position fitting =
      rows_per_ms_ > 0
          ? static_cast<Position>(std::min(rows_per_ms_ * target_ms, 1e9)) - decode_rows
          : kFirstRows;
  return std::clamp(std::max(fitting, kFewestRows), Position{1}, std::max<Position>(rows_max_, 1));
}

void StepSpeed::observe(Position prefill_rows_done, Position decode_rows, double elapsed_ms) {
  if (prefill_rows_done <= 0 || !(elapsed_ms > 0)) return;
  // The rest of a prompt says little about a whole chunk: few rows are slow rows.
  const bool is_rest = prefill_rows_done * 2 < prefill_rows(decode_rows);
  const double target_ms = decode_rows > 0 ? decode_ms_ : alone_ms_;
  if (is_rest && elapsed_ms <= target_ms) return;
  const double measured = static_cast<double>(prefill_rows_done + decode_rows) / elapsed_ms;
  rows_per_ms_ = rows_per_ms_ > 0 ? (rows_per_ms_ + measured) / 2 : measured;
}

}  // namespace reprise
