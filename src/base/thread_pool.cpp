// The pool's two loops: callers hand out a job, workers claim its tasks one at a time.
#include "base/thread_pool.h"

#include <immintrin.h>

#include "base/check.h"

namespace reprise {
namespace {

// About 20 us of looking before sleeping: longer than the gap between two loops of one step, short
// enough that an idle server costs nothing.
constexpr int kSpins = 1000;

constexpr std::uint64_t claim_word(std::uint32_t job, std::uint32_t remaining) {
  return (std::uint64_t{job} << 32) | remaining;
}

// Waits until `value` differs from `old`: first by looking, then asleep.
template <class T>
T wait_for_change(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; spin++) {
    const T now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    _mm_pause();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  CHECK(threads >= 1);
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  for (int worker = 1; worker < threads; worker++) {
    workers_.emplace_back([this, worker] { serve(worker); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_tasks(int tasks, Task task, void* context) {
  if (tasks <= 0) return;
  if (tasks == 1 || workers_.empty()) {
    for (int index = 0; index < tasks; index++) task(context, index, 0);
    return;
  }
  tasks_ = tasks;
  task_ = task;
  context_ = context;
  unfinished_.store(tasks, std::memory_order_relaxed);
  const std::uint32_t job = job_.load(std::memory_order_relaxed) + 1;
  claim_.store(claim_word(job, static_cast<std::uint32_t>(tasks)), std::memory_order_release);
  job_.store(job, std::memory_order_release);
  job_.notify_all();
  claim_tasks(job, 0);
  for (int left = unfinished_.load(std::memory_order_acquire); left != 0;) {
    left = wait_for_change(unfinished_, left);
  }
}

// Claims tasks of `job` until none is left. The fields of a job are read only after a claim of it
// succeeded: as long as a claimed task is unfinished, the caller cannot start the next job.
void ThreadPool::claim_tasks(std::uint64_t job, int worker) {
  std::uint64_t claim = claim_.load(std::memory_order_acquire);
  while (claim >> 32 == job && static_cast<std::uint32_t>(claim) != 0) {
    if (!claim_.compare_exchange_weak(claim, claim - 1, std::memory_order_acq_rel)) continue;
    const int remaining = static_cast<int>(static_cast<std::uint32_t>(claim));
    task_(context_, tasks_ - remaining, worker);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_all();
    claim = claim_.load(std::memory_order_acquire);
  }
}

void ThreadPool::serve(int worker) {
  std::uint32_t seen = 0;
  while (true) {
    seen = wait_for_change(job_, seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    claim_tasks(seen, worker);
  }
}

}  // namespace reprise
