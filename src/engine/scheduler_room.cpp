// Room for a step's keys and values: evict first, then shorten or postpone prefill, then preempt
// the last in turn. The first in turn can take everything that the others hold, so somebody always
// proceeds.
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "engine/scheduler.h"

namespace reprise {

std::vector<Scheduler::Chunk> Scheduler::reserve(std::span<const PlannedRows> planned) {
  // Preemption takes sequences out of running_, they live on in waiting_ or among the ended.
  const auto is_running = [&](const Sequence* wanted) {
    return std::ranges::any_of(running_,
                               [&](const auto& sequence) { return sequence.get() == wanted; });
  };
  std::vector<Chunk> granted;
  for (const PlannedRows& wanted : planned) {
    if (!is_running(wanted.sequence)) continue;
    const Position rows = reserve_rows(*wanted.sequence, wanted.rows, !granted.empty());
    std::erase_if(granted, [&](const Chunk& chunk) { return !is_running(chunk.sequence); });
    if (rows == 0) continue;
    granted.push_back({.sequence = wanted.sequence,
                       .rows = rows,
                       .has_logits = rows == wanted.sequence->left(),
                       .judges_prompt = wanted.sequence->judges_prompt()});
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
    Sequence& last = last_in_turn();
    if (&last != &sequence) {
      preempt_for_room(last);
    } else if (running_.size() > 1) {
      if (sequence.is_decoding() || !others_proceed) preempt_for_room(sequence);
      return 0;
    } else if (sequence.restored > 0) {
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
  const auto is_there = [&] { return bytes <= pages_.available_bytes(); };
  // What siblings left goes first: others' conversations shall not pay for it.
  if (!is_there() && !sibling_cache_.make_room(bytes) && !prompt_cache_.make_room(bytes)) {
    return false;
  }
  return sequence.cache.reserve(length);
}

Sequence& Scheduler::last_in_turn() const {
  return *running_[last_turn(turns(running_), options_.ageing_ms)];
}

// Back among those that wait, without pages. What it forwarded is published and may be found again;
// what is gone by then is forwarded again. Sampling goes on where it was: random numbers are keyed
// by position.
void Scheduler::preempt(Sequence& sequence) {
  stats_.preemptions++;
  if (sequence.offset() > 0) {
    sequence.add_mark(sequence.offset(), MarkKind::preempted);
    publish(sequence, true);
  }
  sequence.release_pages(pages_);
  sequence.begin_waiting(EngineClock::now());
  move(running_, waiting_, sequence);
}

void Scheduler::preempt_for_room(Sequence& sequence) {
  preempt(sequence);
  sequence.preempted_after = running_ends_;
}

// Copies of shared pages take room that a cold run does not need. The cache must not make a request
// fail that fits without it (law L9): what was restored is given up, and nothing is restored again.
void Scheduler::restart_cold(Sequence& sequence) {
  sequence.release_pages(pages_);
  sequence.path = sequence.prefixes->start(sequence.scope);
  sequence.is_restore_refused = true;
}

}  // namespace reprise
