// How requests end: finished, cancelled, late, in error. Each one exactly once (law L7).
#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "engine/scheduler.h"

namespace reprise {

void Scheduler::end(Sequence& sequence, FinishReason reason, std::optional<Error> error) {
  if (reason != FinishReason::error && sequence.offset() > 0) {
    if (sequence.has_sampled()) {
      sequence.add_mark(sequence.offset(), MarkKind::completion_end);
    }
    publish(sequence, true);
    pin(sequence);
  }
  sequence.release_pages(pages_);
  running_ends_++;
  leave(running_, sequence, reason, std::move(error));
}

void Scheduler::end_waiting(const Sequence& sequence, FinishReason reason,
                            std::optional<Error> error) {
  leave(waiting_, sequence, reason, std::move(error));
}

void Scheduler::leave(SequenceList& list, const Sequence& sequence, FinishReason reason,
                      std::optional<Error> error) {
  shares_.leave(sequence.request().scope.tenant);
  if (sequence.prefixes == &sibling_cache_ && --siblings_.at(sequence.submission()) == 0) {
    siblings_.erase(sequence.submission());
    sibling_cache_.reset(sequence.scope);
  }
  const auto place = find(list, sequence);
  add_end(*place, reason, std::move(error));
  list.erase(place);
}

void Scheduler::add_end(std::unique_ptr<Sequence>& sequence, FinishReason reason,
                        std::optional<Error> error) {
  SequenceEnd ending{reason, std::move(error), sequence->usage(),
                     sequence->timings(EngineClock::now())};
  count_end(ending);
  ended_.push_back({nullptr, std::move(ending)});
  ended_.back().sequence = std::move(sequence);
}

void Scheduler::move(SequenceList& from, SequenceList& to, const Sequence& sequence) {
  const auto place = find(from, sequence);
  to.emplace_back();
  to.back() = std::move(*place);
  from.erase(place);
}

// Searches from the back, from which many are taken one after another (cancel_all, end_late).
Scheduler::SequenceList::iterator Scheduler::find(SequenceList& list, const Sequence& sequence) {
  const auto place = std::find_if(list.rbegin(), list.rend(),
                                  [&](const auto& other) { return other.get() == &sequence; });
  CHECK(place != list.rend());
  return std::next(place).base();
}

void Scheduler::cancel(RequestId id) {
  const auto has_id = [&](const auto& sequence) { return sequence->id() == id; };
  const auto running = std::ranges::find_if(running_, has_id);
  if (running != running_.end()) {
    end(**running, FinishReason::cancelled);
    return;
  }
  const auto waiting = std::ranges::find_if(waiting_, has_id);
  if (waiting != waiting_.end()) end_waiting(**waiting, FinishReason::cancelled, std::nullopt);
}

void Scheduler::cancel_all() {
  while (!running_.empty()) end(*running_.back(), FinishReason::cancelled);
  while (!waiting_.empty()) {
    end_waiting(*waiting_.back(), FinishReason::cancelled, std::nullopt);
  }
}

void Scheduler::end_late() {
  const EngineClock::time_point now = EngineClock::now();
  const auto late_error = [&](const Sequence& sequence) {
    const auto elapsed =
        std::chrono::duration_cast<std::chrono::milliseconds>(now - sequence.accepted_at());
    return Error{Errc::cancelled,
                 fmt::format("the request took {} ms, its limit is {} ms", elapsed.count(),
                             sequence.request().timeout_ms),
                 "timeout"};
  };
  for (std::size_t i = running_.size(); i-- > 0;) {
    Sequence& sequence = *running_[i];
    if (sequence.is_late(now)) end(sequence, FinishReason::timeout, late_error(sequence));
  }
  for (std::size_t i = waiting_.size(); i-- > 0;) {
    const Sequence& sequence = *waiting_[i];
    if (sequence.is_late(now)) end_waiting(sequence, FinishReason::timeout, late_error(sequence));
  }
}

void Scheduler::fail(const std::string& reason) {
  stats_.failure = reason;
  for (SequenceList* list : {&running_, &waiting_}) {
    for (std::unique_ptr<Sequence>& sequence : *list) {
      add_end(sequence, FinishReason::error, Error{Errc::io, "the engine failed: " + reason, {}});
    }
    list->clear();
  }
}

void Scheduler::count_end(const SequenceEnd& ending) {
  stats_.cached_tokens += static_cast<std::uint64_t>(ending.usage.cached_tokens);
  switch (ending.reason) {
    case FinishReason::stop:
      stats_.ends_stop++;
      break;
    case FinishReason::length:
      stats_.ends_length++;
      break;
    case FinishReason::cancelled:
      stats_.ends_cancelled++;
      break;
    case FinishReason::timeout:
      stats_.ends_timeout++;
      break;
    case FinishReason::error:
      stats_.ends_error++;
      break;
  }
}

std::vector<std::string> Scheduler::tell_ends() {
  std::vector<std::string> tenants;
  for (Ended& ended : ended_) {
    tenants.push_back(ended.sequence->request().scope.tenant);
    ended.sequence->sink().on_end(ended.end);
    if (stats_.failure.empty()) continue;
    ended.sequence->drop_sink();
    failed_.push_back(std::move(ended.sequence));
  }
  ended_.clear();
  return tenants;
}

}  // namespace reprise
