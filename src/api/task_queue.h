// A thread that does tasks from a queue with two bounds: how many, and how many bytes. Owners take
// turns, whoever posts most; the tasks of one are done in order.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace reprise {

class TaskQueue {
 public:
  TaskQueue(std::size_t tasks_max, std::size_t bytes_max)
      : tasks_max_(tasks_max), bytes_max_(bytes_max), thread_([this] { run(); }) {}
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;
  ~TaskQueue() { finish(); }

  // False when the queue is full and the owner (an API key's name) has something in it: then the
  // task is gone undone. One task of an owner is always taken, however large: its sender was
  // allowed to send it, and others must not keep it out. `bytes`: what the task holds.
  bool post(const std::string& owner, std::size_t bytes, std::move_only_function<void()> task);

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
  Entry take_next();
  void run();

  const std::size_t tasks_max_, bytes_max_;
  mutable std::mutex mutex_;
  std::condition_variable posted_;
  // Guarded by mutex_:
  std::map<std::string, std::deque<Entry>> entries_;  // by owner, none empty
  std::deque<std::string> turns_;                     // its owners, the next one first
  Load load_;
  bool finishing_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace reprise
