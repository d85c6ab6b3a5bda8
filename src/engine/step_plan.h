// What one step forwards: pure policy, plain data in and out. No result depends on a plan (law L1);
// it decides only when work is done.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/types.h"

namespace reprise {

// A running sequence as the policy sees it.
struct PlanSequence {
  std::span<const TokenId> tokens;  // all there are: prompt, then sampled
  Position offset = 0;              // of them forwarded
  bool is_decoding = false;         // one token is left, and it was sampled
  int share = -1;  // sequences of equal share use each other's blocks; -1: nobody's
  int tenant = 0;  // equal numbers: one tenant
};

// Forward the next `rows` tokens of sequences[sequence].
struct PlanChunk {
  std::size_t sequence = 0;
  Position rows = 0;
  bool operator==(const PlanChunk&) const = default;
};

// All decode rows first, then prefill chunks, in the given order, together `prefill_rows` rows of
// prefill. Tenants that prefill share the rows evenly. Inside a tenant the first in order gets half
// of them, so that a long prompt advances in every step; the rest goes to the prompts with the
// fewest tokens left, so that short ones do not wait for it. What nobody needs goes round again. A
// sequence whose next block an earlier one computes waits: it takes the block from the prompt cache
// when that is published. The first prefilling sequence never waits and gets a row at least, so
// every plan of a non-empty list has a chunk.
std::vector<PlanChunk> plan_step(std::span<const PlanSequence> sequences, Position prefill_rows);

// Sizes prefill chunks by the measured speed.
class StepSpeed {
 public:
  // A step should take `alone_ms`, and `decode_ms` where streams run beside the prefill; it has at
  // most `rows_max` rows of prefill.
  StepSpeed(double alone_ms, double decode_ms, Position rows_max)
      : alone_ms_(alone_ms), decode_ms_(std::min(alone_ms, decode_ms)), rows_max_(rows_max) {}

  // Rows of prefill for a step that also has `decode_rows`; at least 1.
  Position prefill_rows(Position decode_rows) const;
  // A step of `prefill_rows` > 0 and `decode_rows` took `elapsed_ms`.
  void observe(Position prefill_rows, Position decode_rows, double elapsed_ms);
  double rows_per_second() const { return rows_per_ms_ * 1000; }

 private:
  double alone_ms_;
  double decode_ms_;
  Position rows_max_;
  double rows_per_ms_ = 0;  // 0: nothing measured yet
};

}  // namespace reprise
