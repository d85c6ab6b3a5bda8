// Room for a step's keys and values: evict first, then shorten or postpone prefill, then preempt
// the youngest. The oldest sequence can take everything that the others hold, so somebody always
// proceeds.
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "engine/scheduler.h"

namespace reprise {

std::vector<Scheduler::Chunk> Scheduler::reserve(std::span<const PlanChunk> plan) {
  // Preemption takes sequences out of running_: indices go stale, sequences live on.
  std::vector<Chunk> wanted;
  for (const PlanChunk& chunk : plan) {
    wanted.push_back({running_[chunk.sequence].get(), chunk.rows});
  }
  const auto is_running = [&](const Chunk& chunk) {
    return std::any_of(running_.begin(), running_.end(),
                       [&](const auto& sequence) { return sequence.get() == chunk.sequence; });
  };
  std::vector<Chunk> granted;
  for (Chunk chunk : wanted) {
    if (!is_running(chunk)) continue;
    chunk.rows = reserve_rows(*chunk.sequence, chunk.rows, !granted.empty());
    std::erase_if(granted, [&](const Chunk& other) { return !is_running(other); });
    if (chunk.rows == 0) continue;
    chunk.has_logits = chunk.rows == chunk.sequence->left();
    granted.push_back(chunk);
  }
  return granted;
}

// How many of `rows` can be written now; 0: the sequence waits, was preempted, or has ended.
Position Scheduler::reserve_rows(Sequence& sequence, Position rows, bool others_proceed) {
  while (!try_reserve(sequence, rows)) {
    const Position to_page_end = kPagePositions - sequence.offset() % kPagePositions;
    if (rows > to_page_end) {
      rows = to_page_end;
      continue;
    }
    Sequence& youngest = *running_.back();
    if (&youngest != &sequence) {
      preempt(youngest);
    } else if (running_.size() > 1) {
      if (sequence.is_decoding() || !others_proceed) preempt(sequence);
      return 0;
    } else if (sequence.offset() > 0 && sequence.offset() == sequence.restored) {
      restart_cold(sequence);
      return 0;
    } else {
      const Position length = sequence.offset() + rows;
      end(sequence, FinishReason::error,
          Error{
              Errc::exhausted,
              fmt::format("{} tokens need {} more bytes of keys and values; {} of the budget's {} "
                          "are free and nothing else can be given up",
                          length, sequence.cache.bytes_to_reserve(length), pages_.available_bytes(),
                          pages_.budget_bytes())});
      return 0;
    }
  }
  return rows;
}

bool Scheduler::try_reserve(Sequence& sequence, Position rows) {
  const Position length = sequence.offset() + rows;
  const std::size_t bytes = sequence.cache.bytes_to_reserve(length);
  if (bytes > pages_.available_bytes() && !prompt_cache_.make_room(bytes)) return false;
  return sequence.cache.reserve(length);
}

// Back to the front of the queue, without pages. Its full blocks are published and may be found
// again; what is gone is forwarded again. Sampling goes on where it was: random numbers are keyed
// by position.
void Scheduler::preempt(Sequence& sequence) {
  stats_.preemptions++;
  sequence.release_pages(pages_);
  waiting_.push_front(take_running(sequence));
  is_admission_held_ = true;
}

// Copies of shared pages take room that a cold run does not need. The cache must not make a request
// fail that fits without it (law L9): what was restored is given up, and nothing is restored again.
void Scheduler::restart_cold(Sequence& sequence) {
  sequence.release_pages(pages_);
  sequence.path = prompt_cache_.start(sequence.request().salt);
  sequence.is_restore_refused = true;
}

std::unique_ptr<Sequence> Scheduler::take_running(const Sequence& sequence) {
  const auto place = std::find_if(running_.begin(), running_.end(),
                                  [&](const auto& running) { return running.get() == &sequence; });
  CHECK(place != running_.end());
  std::unique_ptr<Sequence> taken = std::move(*place);
  running_.erase(place);
  return taken;
}

}  // namespace reprise
