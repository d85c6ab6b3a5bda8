// The queue between the threads that make a reply and the one that sends it.
#include "api/stream_channel.h"

#include "base/check.h"

namespace reprise {
namespace {

std::size_t data_bytes(const ReplyEvent& event) {
  const ReplyData* data = std::get_if<ReplyData>(&event);
  return data ? data->bytes.size() : 0;
}

}  // namespace

void StreamChannel::set_wake(std::function<void()> wake) {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    CHECK(!wake_);
    wake_ = std::move(wake);
    if (!events_.empty()) call = wake_;
  }
  if (call) call();
}

void StreamChannel::push(ReplyEvent event) {
  std::function<void()> call, dropped;
  {
    const std::lock_guard lock(mutex_);
    if (std::holds_alternative<ReplyEnd>(event)) {
      ended_ = true;
      dropped = std::exchange(notify_, nullptr);
    }
    if (is_abandoned()) return;
    if (events_.empty()) call = wake_;
    waiting_bytes_ += data_bytes(event);
    events_.push_back(std::move(event));
  }
  if (call) call();
}

std::optional<ReplyEvent> StreamChannel::pop() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  ReplyEvent event = std::move(events_.front());
  events_.pop_front();
  waiting_bytes_ -= data_bytes(event);
  return event;
}

std::size_t StreamChannel::waiting_bytes() const {
  const std::lock_guard lock(mutex_);
  return waiting_bytes_;
}

void StreamChannel::abandon() {
  std::function<void()> call;
  std::deque<ReplyEvent> unread;  // freed after the lock
  {
    const std::lock_guard lock(mutex_);
    abandoned_.store(true, std::memory_order_release);
    call = std::exchange(notify_, nullptr);
    unread.swap(events_);
    waiting_bytes_ = 0;
    wake_ = nullptr;
  }
  if (call) call();
}

void StreamChannel::on_abandon(std::function<void()> notify) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (!is_abandoned()) {
      notify_ = std::move(notify);
      return;
    }
  }
  notify();
}

}  // namespace reprise
