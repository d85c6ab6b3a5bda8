// The pool's two loops: callers hand out a job, workers claim its tasks one at a time.
#include "base/thread_pool.h"

#include <chrono>
#include <exception>
#include <immintrin.h>
#include <utility>

#include "base/check.h"

namespace reprise {
namespace {

// About 20 us of looking before sleeping: longer than the gap between two loops of one step, short
// enough that an idle server costs nothing.
constexpr int kSpins = 1000;

constexpr std::uint64_t unclaimed_word(std::uint32_t begin, std::uint32_t end) {
  return (std::uint64_t{end} << 32) | begin;
}
constexpr std::uint32_t begin_of(std::uint64_t word) {
  return static_cast<std::uint32_t>(word);
}
constexpr std::uint32_t end_of(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
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

ThreadPool::ThreadPool(int threads) : runs_(static_cast<std::size_t>(threads)) {
  CHECK(threads >= 1);
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int worker = 1; worker < threads; worker++) {
      workers_.emplace_back([this, worker] { serve(worker); });
    }
  } catch (const std::exception&) {  // of std::thread: no threads or no memory are left
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
  task_ = task;
  context_ = context;
  if (tasks == 1 || workers_.empty()) {
    for (int index = 0; index < tasks; index++) run_task(index, 0);
    return tell_failure();
  }
  unfinished_.store(tasks, std::memory_order_relaxed);
  const auto count = static_cast<std::uint64_t>(tasks);
  const auto runs = static_cast<std::uint64_t>(threads());
  for (std::uint64_t run = 0; run < runs; run++) {
    const auto begin = static_cast<std::uint32_t>(count * run / runs);
    const auto end = static_cast<std::uint32_t>(count * (run + 1) / runs);
    runs_[run].unclaimed.store(unclaimed_word(begin, end), std::memory_order_release);
  }
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  run_claimed(0);
  for (int left = unfinished_.load(std::memory_order_acquire); left != 0;) {
    left = wait_for_change(unfinished_, left);
  }
  tell_failure();
}

// The first task that nobody has claimed, or -1.
int ThreadPool::claim_first(Run& run) {
  std::uint64_t word = run.unclaimed.load(std::memory_order_acquire);
  while (begin_of(word) != end_of(word)) {
    const std::uint64_t rest = unclaimed_word(begin_of(word) + 1, end_of(word));
    if (run.unclaimed.compare_exchange_weak(word, rest, std::memory_order_acq_rel)) {
      return static_cast<int>(begin_of(word));
    }
  }
  return -1;
}

int ThreadPool::claim_last(Run& run) {
  std::uint64_t word = run.unclaimed.load(std::memory_order_acquire);
  while (begin_of(word) != end_of(word)) {
    const std::uint64_t rest = unclaimed_word(begin_of(word), end_of(word) - 1);
    if (run.unclaimed.compare_exchange_weak(word, rest, std::memory_order_acq_rel)) {
      return static_cast<int>(end_of(word) - 1);
    }
  }
  return -1;
}

// The next task for this worker: of its own run, else of another's.
int ThreadPool::claim(int worker) {
  const auto own = static_cast<std::size_t>(worker);
  int task = claim_first(runs_[own]);
  for (std::size_t i = 1; task < 0 && i < runs_.size(); i++) {
    task = claim_last(runs_[(own + i) % runs_.size()]);
  }
  return task;
}

// What a library threw in a task is thrown again to the caller, when no task runs any more.
void ThreadPool::run_task(int task, int worker) {
  try {
    run_timed(task, worker);
  } catch (...) {
    if (!has_failed_.exchange(true, std::memory_order_relaxed)) failure_ = std::current_exception();
  }
}

void ThreadPool::tell_failure() {
  if (!has_failed_.exchange(false, std::memory_order_relaxed)) return;
  std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::run_timed(int task, int worker) {
  if (busy_.empty()) {
    task_(context_, task, worker);
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  task_(context_, task, worker);
  const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - begin;
  busy_[static_cast<std::size_t>(worker)].nanoseconds += time.count();
}

void ThreadPool::measure_busy(bool on) {
  busy_.assign(on ? static_cast<std::size_t>(threads()) : 0, {});
}

double ThreadPool::busy_seconds() const {
  std::int64_t sum = 0;
  for (const Busy& busy : busy_) sum += busy.nanoseconds;
  return static_cast<double>(sum) * 1e-9;
}

// Runs tasks until none is left to claim. The fields of a job are read only after a claim of it
// succeeded: as long as a claimed task is unfinished, the caller cannot start the next job. A
// worker that wakes late finds nothing, or tasks of the next job, which are as good.
void ThreadPool::run_claimed(int worker) {
  for (int task = claim(worker); task >= 0; task = claim(worker)) {
    run_task(task, worker);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_all();
  }
}

void ThreadPool::serve(int worker) {
  std::uint32_t seen = 0;
  while (true) {
    seen = wait_for_change(job_, seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    run_claimed(worker);
  }
}

}  // namespace reprise
