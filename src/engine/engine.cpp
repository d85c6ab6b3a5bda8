// The engine's outside: checks what is submitted, runs the loop of the engine thread, publishes
// copies.
#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/inbox.h"
#include "engine/request_check.h"
#include "engine/scheduler.h"
#include "kernels/float_environment.h"

namespace reprise {
namespace {

constexpr std::int64_t kExpiryMs = 1000;  // between looks for entries and pins past their time
constexpr std::int64_t kSumsMs = 250;     // age of the published sums over all salts, at most

// A failed scheduler must never be destroyed (Scheduler::fail). It stays where tools that look for
// leaks find it.
void keep_for_good(std::unique_ptr<Scheduler> scheduler) {
  struct Kept {
    std::mutex mutex;
    std::vector<std::unique_ptr<Scheduler>> schedulers;
  };
  static Kept* const kept = std::make_unique<Kept>().release();
  const std::lock_guard lock(kept->mutex);
  kept->schedulers.push_back(std::move(scheduler));
}

}  // namespace

struct Engine::State {
  State(const Model& model, const kernels::KernelTable& kernels, ThreadPool& pool,
        EngineOptions engine_options)
      : options(std::move(engine_options)),
        checks(model.config().kv_layout(options.kv_type), model.config().vocabulary,
               options.context_length, options.kv_budget_bytes),
        inbox(static_cast<std::size_t>(options.sequences_max) + options.queue_max),
        scheduler(std::make_unique<Scheduler>(model, kernels, pool, options)) {
    publish_stats();
    thread = std::thread([this] { run(); });
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    inbox.stop();
    thread.join();
    if (has_failed()) keep_for_good(std::move(scheduler));
  }

  bool has_failed() const { return !failure.empty(); }
  void run();
  void handle(Inbox::Notes notes);
  void answer(Inbox::Notes& notes);
  void step();
  void fail(std::string reason);
  void settle();
  bool may_expire() const;
  void expire_now_and_then();
  void publish_stats();

  const EngineOptions options;
  const RequestCheck checks;
  Inbox inbox;
  std::unique_ptr<Scheduler> scheduler;  // engine thread only, once that runs
  std::string failure;                   // engine thread only; not empty: nothing runs any more
  EngineClock::time_point expired_at = EngineClock::now();
  EngineClock::time_point summed_at = expired_at;
  mutable std::mutex published_mutex;
  EngineStats published;  // written by the engine thread, guarded by published_mutex
  std::thread thread;
};

// ---- the engine thread -------------------------------------------------------------------------

void Engine::State::run() {
  DCHECK(kernels::float_environment_is_default());
  for (bool stopping = false, compacts = false; !stopping;) {
    if (!scheduler->has_work() && !compacts) {
      inbox.wait_for_note(may_expire() ? std::optional(kExpiryMs) : std::nullopt);
    }
    Inbox::Notes notes = inbox.take();
    stopping = notes.stop;
    handle(std::move(notes));
    scheduler->end_late();
    if (scheduler->has_ends()) settle();  // cancelled ones need not wait for the step
    if (scheduler->has_work()) step();
    expire_now_and_then();
    settle();
    compacts = !has_failed() && scheduler->compact();
  }
}

// Trouble in the middle of a step, such as memory that the system does not give (libraries throw):
// nothing that the step left behind can be trusted, so nothing goes on from it.
void Engine::State::step() {
  try {
    scheduler->step();
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void Engine::State::fail(std::string reason) {
  failure = std::move(reason);
  spdlog::error("the engine failed: {}", failure);
  inbox.fail(failure);
  scheduler->fail(failure);
}

// The published copy first: whoever hears of an end may ask at once.
void Engine::State::settle() {
  if (options.check_invariants && !has_failed()) scheduler->check_invariants();
  publish_stats();
  inbox.count_ended(scheduler->tell_ends());
}

void Engine::State::handle(Inbox::Notes notes) {
  for (Inbox::Submission& submission : notes.submissions) {
    scheduler->accept(submission.first, std::move(submission.requests), submission.at);
  }
  if (has_failed()) {  // what arrived while it happened
    scheduler->fail(failure);
    for (auto& question : notes.resets) question.answer.set_value({});
    for (auto& question : notes.stats) question.answer.set_value({});
    for (auto& question : notes.trees) question.answer.set_value({});
    return;
  }
  for (const RequestId id : notes.cancellations) scheduler->cancel(id);
  if (notes.cancel_all || notes.stop) scheduler->cancel_all();
  answer(notes);
}

void Engine::State::answer(Inbox::Notes& notes) {
  for (auto& question : notes.resets) {
    const PromptCache::ResetOutcome outcome = scheduler->prompt_cache().reset(question.scope);
    summed_at = {};
    publish_stats();  // before the answer: whoever hears it may look at once
    question.answer.set_value(outcome);
  }
  if (!notes.stats.empty() || !notes.trees.empty()) scheduler->prompt_cache().expire();
  for (auto& question : notes.stats) {
    question.answer.set_value(scheduler->prompt_cache().stats(question.scope));
  }
  for (auto& question : notes.trees) {
    question.answer.set_value(scheduler->prompt_cache().tree(question.scope, question.most));
  }
}

// Entries by their time to live, or pins (as published: this thread wrote it).
bool Engine::State::may_expire() const {
  return (options.cache.enabled && options.cache.ttl_ms > 0) || published.cache.pinned_bytes > 0;
}

void Engine::State::expire_now_and_then() {
  if (has_failed() || !may_expire()) return;
  const EngineClock::time_point now = EngineClock::now();
  if (now - expired_at < std::chrono::milliseconds(kExpiryMs)) return;
  expired_at = now;
  scheduler->prompt_cache().expire();
}

// The prompt cache's sums run over all salts: they are taken when somebody may look for them (a
// request ended, nothing runs), else now and then.
void Engine::State::publish_stats() {
  EngineStats stats = scheduler->stats();
  stats.refused_full = inbox.refused_full();
  const EngineClock::time_point now = EngineClock::now();
  const bool sums = !has_failed() && (scheduler->has_ends() || !scheduler->has_work() ||
                                      now - summed_at >= std::chrono::milliseconds(kSumsMs));
  if (sums) {
    stats.cache = scheduler->prompt_cache().stats();
    summed_at = now;
  }
  const std::lock_guard lock(published_mutex);
  if (!sums) std::swap(stats.cache, published.cache);
  published = std::move(stats);
}

// ---- any thread --------------------------------------------------------------------------------

Engine::Engine(const Model& model, const kernels::KernelTable& kernels, ThreadPool& pool,
               EngineOptions options)
    : state_(std::make_unique<State>(model, kernels, pool, std::move(options))) {}

Engine::~Engine() = default;

Result<RequestId> Engine::submit(GenerationRequest request) {
  std::vector<GenerationRequest> requests;
  requests.push_back(std::move(request));
  TRY_ASSIGN(const std::vector<RequestId> ids, submit_all(std::move(requests)));
  return ids.front();
}

Result<std::vector<RequestId>> Engine::submit_all(std::vector<GenerationRequest> requests) {
  for (const GenerationRequest& request : requests) TRY(state_->checks.check(request));
  return state_->inbox.submit_all(std::move(requests));
}

void Engine::cancel(RequestId id) {
  state_->inbox.cancel(id);
}

void Engine::drain(std::int64_t timeout_ms) {
  state_->inbox.close();
  if (state_->inbox.wait_until_none(timeout_ms)) return;
  state_->inbox.cancel_all();
  state_->inbox.wait_until_none(std::nullopt);
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(state_->published_mutex);
  return state_->published;
}

PromptCacheStats Engine::cache_stats(const CacheScope& scope) {
  return state_->inbox.ask_stats(scope).get();
}

PromptCache::ResetOutcome Engine::reset_cache(const CacheScope& scope) {
  return state_->inbox.ask_reset(scope).get();
}

std::vector<CacheRun> Engine::cache_tree(const CacheScope& scope, std::size_t most) {
  return state_->inbox.ask_tree(scope, most).get();
}

Position Engine::fitting_length() const {
  return state_->checks.fitting_length();
}

const EngineOptions& Engine::options() const {
  return state_->options;
}

}  // namespace reprise
