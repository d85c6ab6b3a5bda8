// LiveRequests: a table by number. The engine is called, and groups are freed, without the lock.
#include "api/live_requests.h"

#include <utility>

#include "api/reply_group.h"

namespace reprise {

LiveRequests::LiveRequests(Engine& engine) : engine_(&engine) {}
LiveRequests::~LiveRequests() = default;

LiveRequests::Entered LiveRequests::enter(std::size_t choices) {
  const std::lock_guard lock(mutex_);
  Entered entered{.number = ++last_number_, .tickets = {}};
  live_[entered.number].tickets = choices;
  for (std::size_t i = 0; i < choices; i++) {
    entered.tickets.push_back(Ticket(*this, entered.number));
  }
  return entered;
}

ReplyGroup& LiveRequests::keep(std::uint64_t number, std::unique_ptr<ReplyGroup> group) {
  const std::lock_guard lock(mutex_);
  return *(live_.at(number).group = std::move(group));
}

void LiveRequests::set_ids(std::uint64_t number, std::vector<RequestId> ids) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(number);
    if (found == live_.end()) return;
    found->second.ids = ids;
    if (!found->second.is_cancelled) return;
  }
  for (const RequestId id : ids) engine_->cancel(id);
}

void LiveRequests::cancel(std::uint64_t number) {
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(number);
    if (found == live_.end()) return;
    found->second.is_cancelled = true;
    ids = found->second.ids;
  }
  for (const RequestId id : ids) engine_->cancel(id);
}

void LiveRequests::cancel_and_wait() {
  std::vector<RequestId> ids;
  std::unique_lock lock(mutex_);
  for (const auto& [number, request] : live_) {
    ids.insert(ids.end(), request.ids.begin(), request.ids.end());
  }
  lock.unlock();
  for (const RequestId id : ids) engine_->cancel(id);
  lock.lock();
  left_.wait(lock, [&] { return live_.empty(); });
}

// Notifies under the lock: the waiter destroys this object as soon as it sees the last one leave.
void LiveRequests::leave(std::uint64_t number) {
  std::unique_ptr<ReplyGroup> group;
  {
    const std::lock_guard lock(mutex_);
    Request& request = live_.at(number);
    if (--request.tickets > 0) return;
    group = std::move(request.group);
  }
  group.reset();
  const std::lock_guard lock(mutex_);
  live_.erase(number);
  left_.notify_all();
}

}  // namespace reprise
