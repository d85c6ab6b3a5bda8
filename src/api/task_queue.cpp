// TaskQueue: one mutex, held for a move at a time.
#include "api/task_queue.h"

#include <utility>

namespace reprise {

bool TaskQueue::post(const std::string& owner, std::size_t bytes,
                     std::move_only_function<void()> task) {
  const std::lock_guard lock(mutex_);
  const bool is_full = load_.tasks >= tasks_max_ || load_.bytes + bytes > bytes_max_;
  const bool is_new = !entries_.contains(owner);
  if (is_full && !is_new) return false;
  if (is_new) turns_.push_back(owner);
  load_.tasks++;
  load_.bytes += bytes;
  entries_[owner].push_back({bytes, std::move(task)});
  posted_.notify_one();
  return true;
}

TaskQueue::Load TaskQueue::load() const {
  const std::lock_guard lock(mutex_);
  return load_;
}

void TaskQueue::finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    posted_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

// The first task of the owner whose turn it is; the owner goes to the end of the line.
TaskQueue::Entry TaskQueue::take_next() {
  const auto own = entries_.find(turns_.front());
  turns_.pop_front();
  Entry entry = std::move(own->second.front());
  own->second.pop_front();
  if (own->second.empty()) {
    entries_.erase(own);
  } else {
    turns_.push_back(own->first);
  }
  load_.tasks--;
  load_.bytes -= entry.bytes;
  return entry;
}

void TaskQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    posted_.wait(lock, [&] { return finishing_ || !turns_.empty(); });
    if (turns_.empty()) return;
    Entry entry = take_next();
    lock.unlock();
    entry.task();
    entry.task = nullptr;  // what it holds goes before the next wait
    lock.lock();
  }
}

}  // namespace reprise
