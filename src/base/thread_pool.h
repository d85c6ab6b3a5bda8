// Fork-join over a fixed set of threads: the engine thread and its workers run one loop together.
// Each thread has a run of consecutive tasks, so that it reads weights as one stream; a thread that
// is through with its own takes from the end of another's (a descheduled thread must not stall the
// rest). So a task's result may depend on its index only, never on the worker.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace reprise {

class ThreadPool {
 public:
  // `threads` >= 1 counts the calling thread; threads - 1 workers are started, or fewer where the
  // system has none left: threads() tells, and the pool works with those.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls run(task, worker) once for every task in [0, tasks); worker is in [0, threads()).
  // Returns when all are done; what a library threw in a task is then thrown again, the first of
  // several. One caller at a time; not reentrant.
  template <class Run>
  void parallel_for(int tasks, Run&& run) {
    using Callable = std::remove_reference_t<Run>;
    run_tasks(
        tasks,
        [](void* context, int task, int worker) {
          (*static_cast<Callable*>(context))(task, worker);
        },
        const_cast<void*>(static_cast<const void*>(&run)));
  }

  // Whether the time that each thread spends on tasks is taken from now on (`reprise bench`); what
  // was taken before is forgotten.
  void measure_busy(bool on);
  // Seconds of all threads together on tasks since measure_busy(true).
  double busy_seconds() const;

 private:
  using Task = void (*)(void* context, int task, int worker);

  void run_tasks(int tasks, Task task, void* context);
  // The tasks of a run that nobody has claimed, {end, begin}, alone on its cache line.
  struct alignas(64) Run {
    std::atomic<std::uint64_t> unclaimed{0};
  };

  struct alignas(64) Busy {
    std::int64_t nanoseconds = 0;
  };

  int claim_first(Run& run);
  int claim_last(Run& run);
  int claim(int worker);
  void run_task(int task, int worker);
  void run_timed(int task, int worker);
  void tell_failure();
  void run_claimed(int worker);
  void serve(int worker);

  std::vector<Run> runs_;              // one a thread; those of threads that did not start: empty
  std::atomic<std::uint32_t> job_{0};  // number of the newest job; workers wait for it to change
  alignas(64) std::atomic<int> unfinished_{0};
  std::atomic<bool> stopping_{false};
  Task task_ = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> has_failed_{false};
  std::exception_ptr failure_;  // of the task that set has_failed_
  std::vector<Busy> busy_;      // one a thread; empty when nobody measures
  std::vector<std::thread> workers_;
};

}  // namespace reprise
