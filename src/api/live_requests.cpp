// LiveRequests: a counter with names.
#include "api/live_requests.h"

#include <vector>

namespace reprise {

LiveRequests::Ticket LiveRequests::enter() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = ++last_number_;
  live_.emplace(number, std::nullopt);
  return Ticket(*this, number);
}

void LiveRequests::set_id(std::uint64_t number, RequestId id) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(number);
  if (found != live_.end()) found->second = id;
}

void LiveRequests::cancel_and_wait(Engine& engine) {
  std::vector<RequestId> ids;
  std::unique_lock lock(mutex_);
  for (const auto& [number, id] : live_) {
    if (id) ids.push_back(*id);
  }
  lock.unlock();
  for (const RequestId id : ids) engine.cancel(id);
  lock.lock();
  left_.wait(lock, [&] { return live_.empty(); });
}

// Notifies under the lock: the waiter destroys this object as soon as it sees the last one leave.
void LiveRequests::leave(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  live_.erase(number);
  left_.notify_all();
}

}  // namespace reprise
