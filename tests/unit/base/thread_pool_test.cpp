// The pool runs every task exactly once, for any number of threads and tasks, job after job.
#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/limited_memory.h"

namespace reprise {
namespace {

TEST(ThreadPool, RunsEveryTaskExactlyOnce) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 2000; round++) {
      const int tasks = round % 37;
      std::vector<std::atomic<int>> runs(37);
      pool.parallel_for(tasks, [&](int task, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
        runs[static_cast<std::size_t>(task)]++;
      });
      for (int task = 0; task < 37; task++) {
        ASSERT_EQ(runs[static_cast<std::size_t>(task)].load(), task < tasks ? 1 : 0);
      }
    }
  }
}

#if REPRISE_CAN_LIMIT_MEMORY
// Exits with 0 if the pool has some of its threads and works with them, alone or again.
[[noreturn]] void run_with_few_threads() {
  testing::limit_memory(0);  // first: ended threads leave their stacks to new ones
  ThreadPool alone(4);
  int wrong = alone.threads() == 1 ? 0 : 1;
  int runs_alone = 0;
  alone.parallel_for(9, [&](int, int) { runs_alone++; });
  if (runs_alone != 9) wrong++;
  testing::limit_memory(100 << 20);  // about twelve stacks
  for (int round = 0; round < 20; round++) {
    ThreadPool pool(500);
    if (pool.threads() <= 1 || pool.threads() >= 100) wrong++;
    for (const int tasks : {1, 7, 1000}) {
      std::atomic<int> runs{0};
      pool.parallel_for(tasks, [&](int, int worker) {
        runs += worker >= 0 && worker < pool.threads() ? 1 : 1'000'000;
      });
      if (runs != tasks) wrong++;
    }
  }
  std::_Exit(wrong == 0 ? 0 : 1);
}

TEST(ThreadPoolDeathTest, WorksWithTheThreadsThatTheSystemHas) {
  EXPECT_EXIT(run_with_few_threads(), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(ThreadPool, WhatTasksWroteIsVisibleToTheCaller) {
  ThreadPool pool(3);
  std::vector<int> values(1000);
  for (int round = 1; round <= 200; round++) {
    pool.parallel_for(
        1000, [&](int task, int) { values[static_cast<std::size_t>(task)] = task * round; });
    for (int task = 0; task < 1000; task++)
      ASSERT_EQ(values[static_cast<std::size_t>(task)], task * round);
  }
}

TEST(ThreadPool, AStuckThreadHoldsUpOnlyItsOwnTask) {
  constexpr int kTasks = 300;
  for (const int threads : {2, 3, 4}) {
    ThreadPool pool(threads);
    for (const int stuck : {0, 1, kTasks / 2, kTasks - 1}) {
      std::atomic<int> done{0};
      pool.parallel_for(kTasks, [&](int task, int) {
        while (task == stuck && done.load() < kTasks - 1) std::this_thread::yield();
        done++;
      });
      EXPECT_EQ(done.load(), kTasks);
    }
  }
}

TEST(ThreadPool, WhatATaskThrowsReachesTheCallerWhenAllAreDone) {
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    for (const int failing : {0, 25, 49}) {
      std::atomic<int> runs{0};
      const auto run = [&](int task, int) {
        runs++;
        if (task == failing) static_cast<void>(std::vector<int>().at(1));
      };
      EXPECT_THROW(pool.parallel_for(50, run), std::out_of_range);
      EXPECT_EQ(runs.load(), 50);
      pool.parallel_for(50, [&](int, int) { runs++; });  // the pool is as before
      EXPECT_EQ(runs.load(), 100);
    }
  }
}

TEST(ThreadPool, AThreadAloneTakesItsTasksInOrder) {
  ThreadPool pool(1);
  std::vector<int> order;
  pool.parallel_for(20, [&](int task, int) { order.push_back(task); });
  for (int task = 0; task < 20; task++) EXPECT_EQ(order[static_cast<std::size_t>(task)], task);
}

TEST(ThreadPool, TellsHowLongItsThreadsWereBusy) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const auto sleep = [](int, int) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
    pool.parallel_for(10, sleep);
    EXPECT_EQ(pool.busy_seconds(), 0);  // nobody asked
    pool.measure_busy(true);
    pool.parallel_for(10, sleep);
    pool.parallel_for(1, sleep);
    EXPECT_GE(pool.busy_seconds(), 0.022);
    pool.measure_busy(true);
    EXPECT_EQ(pool.busy_seconds(), 0);
    pool.measure_busy(false);
    pool.parallel_for(10, sleep);
    EXPECT_EQ(pool.busy_seconds(), 0);
  }
}

}  // namespace
}  // namespace reprise
