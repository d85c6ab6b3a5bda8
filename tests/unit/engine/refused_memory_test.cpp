// Memory that the system refuses in the middle of a step, at every place in turn: each request
// still has one end, and nothing that the step left half done is touched again (law L7). Each try
// is a process of its own. Where memory is refused while something is being given up,
// std::terminate is the end of it; what must not happen is anything else.
#include <cstdlib>
#include <deque>
#include <exception>
#include <new>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/scheduler.h"
#include "engine_harness.h"

namespace {

thread_local long allocations_left = -1;  // below 0: all are granted

[[noreturn]] void refuse() {
  std::rethrow_exception(std::make_exception_ptr(std::bad_alloc()));
}

void* allocate(std::size_t bytes) {
  if (allocations_left >= 0 && allocations_left-- == 0) refuse();
  void* memory = std::malloc(bytes);
  if (memory == nullptr) refuse();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace reprise::testing {
namespace {

enum Outcome : int { nothing_refused = 0, ended_well = 1, terminated = 2, ended_badly = 3 };

class World {
 public:
  explicit World(const Model& model) : scheduler_(make_scheduler(model, pool_)) {
    for (int i = 0; i < 4; i++) {
      Ask ask{.prompt = joined(random_tokens(90, 0), random_tokens(20 + i * 9, 1 + i)),
              .max_tokens = 8};
      ask.use_cache = i != 1;
      std::vector<GenerationRequest> requests;
      for (std::uint32_t choice = 0; choice < (i == 1 ? 2 : 1); choice++) {
        ask.choice = choice;
        requests.push_back(make_request(ask, recordings_.emplace_back()));
      }
      const RequestId first{recordings_.size() + 1 - requests.size()};
      scheduler_->accept(first, std::move(requests), EngineClock::now());
    }
  }

  bool has_work() const { return scheduler_->has_work(); }

  // One step in which the n-th allocation is refused (-1: none).
  void step(long n) {
    try {
      allocations_left = n;
      scheduler_->step();
      allocations_left = -1;
    } catch (const std::exception& error) {
      allocations_left = -1;
      has_failed_ = true;
      scheduler_->fail(error.what());
    }
    scheduler_->tell_ends();
  }

  Outcome outcome() {
    for (const Recording& recording : recordings_) {
      if (recording.ends() != 1) return ended_badly;
    }
    if (has_failed_) static_cast<void>(scheduler_.release());
    return has_failed_ ? ended_well : nothing_refused;
  }

 private:
  static std::unique_ptr<Scheduler> make_scheduler(const Model& model, ThreadPool& pool) {
    EngineOptions options = HarnessOptions{}.engine;
    options.kv_budget_bytes = model.config().kv_layout(kernels::KvType::f16).sequence_bytes(340);
    options.sequences_max = 2;
    options.prefill_rows_max = 64;
    return std::make_unique<Scheduler>(model, *kernels::choose_kernels("").value(), pool, options);
  }

  ThreadPool pool_{1};
  std::unique_ptr<Scheduler> scheduler_;
  std::deque<Recording> recordings_;
  bool has_failed_ = false;
};

Outcome run_refusing(const Model& model, int step, long allocation) {
  World world(model);
  for (int i = 0; world.has_work(); i++) world.step(i == step ? allocation : -1);
  return world.outcome();
}

int outcome_of_child(const Model& model, int step, long allocation) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    std::set_terminate([] { ::_exit(terminated); });
    ::_exit(run_refusing(model, step, allocation));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(RefusedMemory, EveryRequestHasOneEndWhereverItHappens) {
  ThreadPool pool(1);
  const TinyModel tiny = make_tiny_model({.family = "gemma3"}, pool);
  int well = 0, ends = 0;
  for (int step = 0; step < 24; step++) {
    // Every allocation of the first steps, in which all begins; then some of each.
    const long stride = step < 4 ? 1 : 7;
    for (long allocation = step % stride;; allocation += stride) {
      const int outcome = outcome_of_child(*tiny.model, step, allocation);
      if (outcome == nothing_refused) break;
      ASSERT_TRUE(outcome == ended_well || outcome == terminated)
          << "step " << step << ", allocation " << allocation << ": outcome " << outcome;
      (outcome == ended_well ? well : ends)++;
    }
  }
  EXPECT_GT(well, 20 * ends);
  EXPECT_GT(well, 300);
  RecordProperty("ended_well", well);
  RecordProperty("terminated", ends);
}

}  // namespace
}  // namespace reprise::testing
