// A thread that does tasks in order, from a queue with two bounds: how many, and how many bytes.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace reprise {

class TaskQueue {
 public:
  TaskQueue(std::size_t tasks_max, std::size_t bytes_max)
      : tasks_max_(tasks_max), bytes_max_(bytes_max), thread_([this] { run(); }) {}
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;
  ~TaskQueue() { finish(); }

  // False when the queue is full: then the task is gone undone. `bytes`: what the task holds.
  bool post(std::size_t bytes, std::move_only_function<void()> task);

  // What waits now.
  struct Load {
    std::size_t tasks = 0, bytes = 0;
  };
  Load load() const;

  // Does what is queued, then ends the thread. Nothing may be posted any more.
  void finish();

 private:
  struct Entry {
    std::size_t bytes;
    std::move_only_function<void()> task;
  };
  void run();

  const std::size_t tasks_max_, bytes_max_;
  mutable std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Entry> entries_;
  std::size_t bytes_ = 0;
  bool finishing_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace reprise
