// The engine: one thread that runs all sequences. Everybody else leaves notes in its inbox.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/request.h"
#include "kernels/kernels.h"
#include "kv/prompt_cache.h"
#include "model/model.h"

namespace reprise {

enum class Speculation : std::uint8_t {
  off,    // a step forwards the last sampled token of each sequence
  ngram,  // and, where that pays, what followed the same tokens earlier in the sequence
};

struct EngineOptions {
  Position context_length = 0;  // per sequence, prompt and completion together
  int sequences_max = 8;        // running at once
  // Waiting requests; more are refused (exhausted), except the only ones of their tenant.
  std::size_t queue_max = 256;
  int prefill_rows_max = 512;       // rows of one step
  double step_target_ms = 250;      // a step is planned not to take longer, at measured speed
  double decode_target_ms = 100;    // a step with both prefill and running streams
  std::int64_t ageing_ms = 15'000;  // waiting so long raises a request's priority by one
  std::size_t kv_budget_bytes = 0;  // the ledger: running and cached KV together
  kernels::KvType kv_type = kernels::KvType::f16;
  PromptCacheOptions cache;
  Speculation speculation = Speculation::ngram;
  bool check_invariants = false;  // after every step (tests)
  // Called before every forward pass (tests): what it throws is trouble inside the step.
  std::function<void()> before_forward = {};
  // Drafts that are forwarded in place of the guesses that pay (tests): what follows `tokens`, at
  // most `most` tokens.
  std::function<std::vector<TokenId>(std::span<const TokenId> tokens, std::size_t most)> draft = {};
};

// A published copy of the engine's gauges and counters; reading it never waits for a step.
struct EngineStats {
  std::size_t running = 0, waiting = 0;
  std::uint64_t requests = 0, steps = 0;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, forwarded_rows = 0, completion_tokens = 0;
  // Guessed tokens that were forwarded, and those of them that came true: only these are among
  // forwarded_rows.
  std::uint64_t drafted_tokens = 0, accepted_tokens = 0;
  std::uint64_t preemptions = 0;  // sequences that gave up their pages and went back to the queue
  std::uint64_t ends_stop = 0, ends_length = 0, ends_cancelled = 0, ends_timeout = 0,
                ends_error = 0;
  std::uint64_t refused_full = 0;      // requests that found the queue full
  std::string failure;                 // why the engine takes no requests any more; empty: it does
  double prefill_rows_per_second = 0;  // the measured speed that chunks are sized by
  std::size_t kv_budget_bytes = 0, kv_used_bytes = 0, kv_committed_bytes = 0;
  std::size_t sequence_pages_bytes = 0;  // pages that running sequences refer to
  PromptCacheStats cache;                // sums over all salts
};

class Engine {
 public:
  // Starts the thread. The model, kernels and pool must outlive the engine.
  Engine(const Model& model, const kernels::KernelTable& kernels, ThreadPool& pool,
         EngineOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();  // ends every request as cancelled, then joins

  // Any thread. Errors: invalid_argument (a value out of range, an id outside the vocabulary, the
  // context length: each with its field and the numbers), exhausted (without a field: the queue is
  // full, both numbers; with one: the KV budget can never hold prompt and max_tokens, both
  // numbers), cancelled (the server stops), io (the engine failed: its reason). After an error the
  // sink is never called.
  Result<RequestId> submit(GenerationRequest request);
  // All of them or none: a prompt's choices, a list of prompts. The queue's bound counts them
  // together. They begin in one step; where they begin alike, that is forwarded once, whether they
  // use the prompt cache or not.
  Result<std::vector<RequestId>> submit_all(std::vector<GenerationRequest> requests);

  // Any thread: the request ends as cancelled at the next step; unknown or ended ids are ignored.
  void cancel(RequestId id);

  // Any thread: no new requests are accepted; resolves when running ones have ended or after
  // `timeout_ms`, whatever comes first, having cancelled the rest.
  void drain(std::int64_t timeout_ms);

  EngineStats stats() const;  // the published copy
  // These ask the engine thread; they wait for a step.
  PromptCacheStats cache_stats(const CacheScope& scope);
  PromptCache::ResetOutcome reset_cache(const CacheScope& scope);
  std::vector<CacheRun> cache_tree(const CacheScope& scope, std::size_t most);

  // The longest sequence that the KV budget holds when it runs alone, at most the context length.
  Position fitting_length() const;
  const EngineOptions& options() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
