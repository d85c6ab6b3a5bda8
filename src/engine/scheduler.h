// The engine thread's own state: all sequences, the KV memory, the prompt cache, the decoder.
// One step moves every sequence that can be moved. Used by one thread only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "model/decoder.h"

namespace reprise {

class Scheduler {
 public:
  Scheduler(const Model& model, const kernels::KernelTable& kernels, ThreadPool& pool,
            const EngineOptions& options);

  // ---- between steps ----------------------------------------------------------------------------
  void accept(RequestId id, GenerationRequest request, EngineClock::time_point at);
  void cancel(RequestId id);
  void cancel_all();
  bool has_work() const { return !running_.empty() || !waiting_.empty(); }
  PromptCache& prompt_cache() { return prompt_cache_; }
  const PromptCache& prompt_cache() const { return prompt_cache_; }
  EngineStats stats() const;  // without the prompt cache's
  bool has_ends() const { return !ended_.empty(); }
  // Calls on_end of the requests that ended since the last call; returns how many.
  std::size_t tell_ends();
  // CHECKs the ledger and the cache.
  void check_invariants() const;

  // ---- one step ---------------------------------------------------------------------------------
  void step();

 private:
  // A planned chunk whose places are reserved.
  struct Chunk {
    Sequence* sequence = nullptr;
    Position rows = 0;
    bool has_logits = false;  // its last token is the sequence's last: a token can be sampled
  };
  using SequenceList = std::vector<std::unique_ptr<Sequence>>;

  void admit();
  // Lets every prefilling sequence stand at the deepest position that the prompt cache offers now.
  void match_prefixes();
  void match_prefix(Sequence& sequence);
  std::vector<PlanChunk> plan() const;
  void start_prefills(std::span<const PlanChunk> plan);

  // Makes places for the plan's rows: evicts from the prompt cache, shortens or postpones prefill,
  // preempts the youngest.
  std::vector<Chunk> reserve(std::span<const PlanChunk> plan);
  Position reserve_rows(Sequence& sequence, Position rows, bool others_proceed);
  bool try_reserve(Sequence& sequence, Position rows);
  void preempt(Sequence& sequence);
  void restart_cold(Sequence& sequence);

  // Forwards all chunks; then each one's token is sampled, its rows committed, its blocks
  // published.
  std::vector<BatchEntry> forward(std::span<const Chunk> chunks, std::span<const float>& logits);
  void finish_chunk(const Chunk& chunk, bool is_finite, std::span<const float> logits);
  // The reason to end, if there is one, after this token.
  std::optional<FinishReason> sample(Sequence& sequence, std::span<const float> logits);
  void publish(Sequence& sequence, bool with_tail);

  // Ends a running sequence: its forwarded tokens stay in the prompt cache, except after an error.
  void end(Sequence& sequence, FinishReason reason, std::optional<Error> error = std::nullopt);
  void end_waiting(std::unique_ptr<Sequence> sequence, FinishReason reason);
  std::unique_ptr<Sequence> take_running(const Sequence& sequence);
  void count_end(const SequenceEnd& end);

  const EngineOptions options_;
  const std::size_t vocabulary_;
  PagePool pages_;
  PromptCache prompt_cache_;
  Decoder decoder_;
  Sampler sampler_;
  StepSpeed speed_;

  std::deque<std::unique_ptr<Sequence>> waiting_;  // by arrival
  SequenceList running_;                           // by arrival
  // After a preemption nobody is admitted before a running sequence ends: the oldest one proceeds.
  bool is_admission_held_ = false;

  struct Ended {
    std::unique_ptr<Sequence> sequence;
    SequenceEnd end;
  };
  std::vector<Ended> ended_;  // not told yet
  EngineStats stats_;         // counters; gauges are filled in by stats()
};

}  // namespace reprise
