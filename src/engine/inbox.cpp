// One mutex, held for a move at a time.
#include "engine/inbox.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"

namespace reprise {

bool Inbox::Notes::is_empty() const {
  return submissions.empty() && cancellations.empty() && !cancel_all && resets.empty() &&
         stats.empty() && trees.empty() && !stop;
}

// mutex_ is held.
bool Inbox::has_room_for(std::span<const GenerationRequest> requests) const {
  if (requests_ + requests.size() <= requests_max_) return true;
  return std::ranges::none_of(requests, [&](const GenerationRequest& request) {
    return requests_by_tenant_.contains(request.scope.tenant);
  });
}

Result<std::vector<RequestId>> Inbox::submit_all(std::vector<GenerationRequest> requests) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return reprise::fail(Errc::io, "the engine failed: " + failure_);
  if (is_closed_) {
    return reprise::fail(Errc::cancelled, "the server is stopping and accepts no new requests");
  }
  if (requests.size() > requests_max_) {  // waiting would not help
    return reprise::fail(Errc::invalid_argument,
                         fmt::format("got {} requests at once, expected at most {}: so many may "
                                     "run and wait together",
                                     requests.size(), requests_max_));
  }
  if (!has_room_for(requests)) {
    refused_full_ += requests.size();
    const std::string more =
        requests.size() > 1 ? fmt::format("; these are {} more", requests.size()) : "";
    return reprise::fail(
        Errc::exhausted,
        fmt::format("{} requests are running or waiting, the queue holds {} in all{}", requests_,
                    requests_max_, more));
  }
  std::vector<RequestId> ids;
  for (const GenerationRequest& request : requests) {
    requests_++;
    requests_by_tenant_[request.scope.tenant]++;
    ids.push_back(RequestId{++last_id_});
  }
  if (ids.empty()) return ids;
  notes_.submissions.push_back({ids.front(), std::move(requests), EngineClock::now()});
  note_arrived_.notify_one();
  return ids;
}

void Inbox::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  notes_.cancellations.push_back(id);
  note_arrived_.notify_one();
}

void Inbox::cancel_all() {
  const std::lock_guard lock(mutex_);
  notes_.cancel_all = true;
  note_arrived_.notify_one();
}

template <class Answer>
std::future<Answer> Inbox::ask(std::vector<Question<Answer>> Notes::* questions, CacheScope scope,
                               std::size_t most) {
  const std::lock_guard lock(mutex_);
  std::vector<Question<Answer>>& list = notes_.*questions;
  list.push_back({std::move(scope), most, {}});
  note_arrived_.notify_one();
  return list.back().answer.get_future();
}

std::future<PromptCache::ResetOutcome> Inbox::ask_reset(CacheScope scope) {
  return ask(&Notes::resets, std::move(scope), 0);
}

std::future<PromptCacheStats> Inbox::ask_stats(CacheScope scope) {
  return ask(&Notes::stats, std::move(scope), 0);
}

std::future<std::vector<CacheRun>> Inbox::ask_tree(CacheScope scope, std::size_t most) {
  return ask(&Notes::trees, std::move(scope), most);
}

void Inbox::fail(std::string reason) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(reason);
}

std::uint64_t Inbox::refused_full() const {
  const std::lock_guard lock(mutex_);
  return refused_full_;
}

void Inbox::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
}

void Inbox::stop() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  notes_.stop = true;
  note_arrived_.notify_one();
}

bool Inbox::wait_until_none(std::optional<std::int64_t> timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto none = [&] { return requests_ == 0; };
  if (timeout_ms) {
    return none_left_.wait_for(lock, std::chrono::milliseconds(*timeout_ms), none);
  }
  none_left_.wait(lock, none);
  return true;
}

Inbox::Notes Inbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notes_, {});
}

void Inbox::wait_for_note(std::optional<std::int64_t> timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto arrived = [&] { return !notes_.is_empty(); };
  if (timeout_ms) {
    note_arrived_.wait_for(lock, std::chrono::milliseconds(*timeout_ms), arrived);
  } else {
    note_arrived_.wait(lock, arrived);
  }
}

void Inbox::count_ended(std::span<const std::string> tenants) {
  if (tenants.empty()) return;
  const std::lock_guard lock(mutex_);
  for (const std::string& tenant : tenants) {
    const auto known = requests_by_tenant_.find(tenant);
    CHECK(known != requests_by_tenant_.end());
    if (--known->second == 0) requests_by_tenant_.erase(known);
  }
  CHECK(tenants.size() <= requests_);
  requests_ -= tenants.size();
  if (requests_ == 0) none_left_.notify_all();
}

}  // namespace reprise
