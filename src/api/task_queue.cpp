// TaskQueue: one mutex, held for a move at a time.
#include "api/task_queue.h"

#include <utility>

namespace reprise {

bool TaskQueue::post(std::size_t bytes, std::move_only_function<void()> task) {
  const std::lock_guard lock(mutex_);
  // One task is always taken, however large: its sender was allowed to send it.
  const bool is_full = entries_.size() >= tasks_max_ || bytes_ + bytes > bytes_max_;
  if (is_full && !entries_.empty()) return false;
  bytes_ += bytes;
  entries_.push_back({bytes, std::move(task)});
  posted_.notify_one();
  return true;
}

TaskQueue::Load TaskQueue::load() const {
  const std::lock_guard lock(mutex_);
  return {entries_.size(), bytes_};
}

void TaskQueue::finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    posted_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void TaskQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    posted_.wait(lock, [&] { return finishing_ || !entries_.empty(); });
    if (entries_.empty()) return;
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    bytes_ -= entry.bytes;
    lock.unlock();
    entry.task();
    entry.task = nullptr;  // what it holds goes before the next wait
    lock.lock();
  }
}

}  // namespace reprise
