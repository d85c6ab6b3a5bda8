// Takes the samples of `reprise bench`: the engine's forward pass without the engine.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/bench_plan.h"
#include "cli/stack.h"
#include "kv/sequence_cache.h"
#include "model/decoder.h"

namespace reprise {

// A cell and what was measured of it, one value a sample.
struct BenchResult {
  BenchCell cell;
  std::vector<double> milliseconds;  // of a pass; decode: the mean step of a sample
  std::vector<double> overhead;      // decode: part of a step outside the pool's loops, 0..1
  std::string hash;                  // of the logits of one sequence, every sample alike
};

class BenchRunner {
 public:
  // The stack must outlive the runner; its pool serves the plan's largest number of threads.
  BenchRunner(const Stack& stack, kernels::KvType kv_type, BenchPlan plan);

  // Once, before anything else: takes threads and memory, brings a cache to every depth. Errors:
  // exhausted where the system refuses threads or address space for keys and values.
  Status fill();
  // One sample of every cell, in an order that turns: a slow phase of the machine hits all alike.
  // The first round warms up and its times are dropped.
  void run_round(bool warms_up);

  const std::vector<BenchResult>& results() const { return results_; }
  ThreadPool& pool(int threads);

  // Hash over the logits of all cells, each (depth, rows) once. Errors: corrupt when the same rows
  // got different logits with another number of threads or sequences, or in another round.
  Result<std::string> logits_hash() const;

 private:
  struct Team {
    std::unique_ptr<ThreadPool> own;
    ThreadPool* pool = nullptr;
    std::unique_ptr<Decoder> decoder;
  };
  // Sequences at one depth, each with pages of its own.
  struct Depth {
    Position depth = 0;
    std::vector<SequenceCache> sequences;
  };

  Status make_pages();
  Status make_teams();
  Team& team(int threads);
  Depth& at(Position depth);
  SequenceCache copy_of(const SequenceCache& sequence);
  std::vector<TokenId> tokens(Position first, int count) const;
  std::span<const float> forward(Team& team, std::vector<SequenceCache>& sequences, int rows);
  void sample(BenchResult& result, bool keeps);
  void note_hash(BenchResult& result, const std::string& hash);

  const Stack* stack_;
  kernels::KvType kv_type_;
  BenchPlan plan_;
  std::vector<BenchResult> results_;
  std::unique_ptr<PagePool> pages_;
  std::vector<Team> teams_;  // in the plan's order of threads
  std::vector<Depth> depths_;
  std::string mismatch_;
  std::size_t round_ = 0;
};

}  // namespace reprise
