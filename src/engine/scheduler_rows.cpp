// What rows of logits are wanted for besides the next token: masks of what may follow, and what the
// model thinks of the prompt.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/scheduler.h"

namespace reprise {

// The tokens that a mask follows are known before the forward pass, except those of drafts: their
// masks come row by row, as they come true.
SideThread::Work Scheduler::start_masks(std::span<const Chunk> chunks) {
  std::vector<Sequence*> constrained;
  for (const Chunk& chunk : chunks) {
    if (chunk.samples() && chunk.sequence->needs_mask()) constrained.push_back(chunk.sequence);
  }
  if (constrained.empty()) return {};
  return mask_thread_.start([constrained = std::move(constrained)] {
    for (Sequence* sequence : constrained) sequence->compute_mask();
  });
}

// The chunk is not committed yet: its row i stands at offset + i and thinks of the token after it.
// Rows before rows_judged() were told before a preemption; the prompt's last row is for sampling.
void Scheduler::judge_prompt(const Chunk& chunk, std::span<const float> logits) {
  Sequence& sequence = *chunk.sequence;
  const Position begin = std::max(sequence.offset(), sequence.rows_judged());
  const Position end = std::min(sequence.offset() + chunk.rows, sequence.prompt_length() - 1);
  if (begin >= end) return;
  std::vector<SampledToken> judged(static_cast<std::size_t>(end - begin));
  pool_->parallel_for(static_cast<int>(judged.size()), [&](int task, int worker) {
    const auto row = static_cast<std::size_t>(begin - sequence.offset() + task);
    const TokenId next = sequence.tokens()[static_cast<std::size_t>(begin + task + 1)];
    judged[static_cast<std::size_t>(task)] = samplers_[static_cast<std::size_t>(worker)].judge(
        logits.subspan(row * vocabulary_, vocabulary_), next, sequence.request().prompt_logprobs);
  });
  std::vector<Sequence*> told;
  for (const SequenceList* list : {&running_, &waiting_}) {
    for (const std::unique_ptr<Sequence>& other : *list) {
      if (other->judges_with(sequence)) told.push_back(other.get());
    }
  }
  for (Sequence* each : told) {
    CHECK(each->rows_judged() == begin);
    each->set_rows_judged(end);
    each->sink().on_prompt_logprobs(judged);
  }
}

}  // namespace reprise
