// Who may run: the next in turn, while there are places and room for its prompt and one page more.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "engine/scheduler.h"

namespace reprise {

Turn Scheduler::turn_of(const Sequence& sequence) const {
  const std::string& tenant = sequence.request().scope.tenant;
  const auto waited = sequence.waited(EngineClock::now());
  return {.tenant = shares_.number(tenant),
          .served = shares_.served(tenant),
          .priority = sequence.request().priority,
          .waited_ms = std::chrono::duration_cast<std::chrono::milliseconds>(waited).count(),
          .arrival = static_cast<std::uint64_t>(sequence.id())};
}

std::vector<Turn> Scheduler::turns(std::span<const std::unique_ptr<Sequence>> sequences) const {
  std::vector<Turn> turns;
  for (const std::unique_ptr<Sequence>& sequence : sequences) turns.push_back(turn_of(*sequence));
  return turns;
}

// One that must wait for room is not passed by: smaller ones behind it could keep it out for ever.
// Nor does one that gave up its pages come back before a running sequence ended: what it needs is
// what it was short of, and the first in turn proceeds meanwhile.
void Scheduler::admit() {
  while (!waiting_.empty()) {
    const std::optional<std::size_t> next = next_turn(turns(waiting_), options_.ageing_ms);
    Sequence& sequence = *waiting_[*next];
    if (!running_.empty() && sequence.preempted_after == running_ends_) return;
    if (running_.size() >= static_cast<std::size_t>(options_.sequences_max) &&
        !make_place(sequence)) {
      return;
    }
    if (!try_admit(sequence)) return;
  }
}

// Gives the candidate the place of one that should go later, if there is such a one.
bool Scheduler::make_place(const Sequence& candidate) {
  const std::optional<std::size_t> loser = place_to_take(
      turns(running_), turn_of(candidate), static_cast<std::size_t>(options_.sequences_max),
      shares_.active(), options_.ageing_ms);
  if (!loser) return false;
  preempt(*running_[*loser]);
  return true;
}

// max_tokens plays no part here (submit refused what can never fit): most replies end before it.
bool Scheduler::try_admit(Sequence& sequence) {
  move(waiting_, running_, sequence);
  if (sequence.prefixes != nullptr) {
    sequence.path = sequence.prefixes->start(sequence.scope);
    if (!sequence.is_restore_refused) match_prefix(sequence);
  }
  if (running_.size() == 1 || has_room()) {
    sequence.end_waiting(EngineClock::now());
    return true;
  }
  sequence.release_pages(pages_);
  move(running_, waiting_, sequence);
  return false;
}

// Whether the budget holds what all running sequences have (shared pages once), and what each of
// them needs to finish its prompt and begin one page more. What only the prompt cache holds gives
// way.
bool Scheduler::has_room() const {
  const KvLayout& layout = pages_.layout();
  std::unordered_set<std::uint64_t> seen;
  std::size_t bytes = 0;
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    for (std::size_t group = 0; group < layout.groups.size(); group++) {
      const int number = static_cast<int>(group);
      for (Position page = 0; page < sequence->cache.page_count(number); page++) {
        const PageRef& held = sequence->cache.page(number, page);
        if (held && seen.insert(held.key()).second) bytes += layout.groups[group].page_bytes();
      }
    }
    const std::size_t now = layout.sequence_bytes(sequence->offset());
    const std::size_t then = layout.sequence_bytes(sequence->length() + kPagePositions);
    bytes += then - std::min(now, then);
  }
  return bytes <= pages_.budget_bytes();
}

}  // namespace reprise
