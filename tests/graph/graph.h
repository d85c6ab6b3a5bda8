// One random conversation graph over one tiny model: run through an engine with the prompt cache,
// every answer compared with the cold one.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/cold_model.h"
#include "graph/forwarded_tokens.h"
#include "graph/graph_writer.h"
#include "model/model.h"

namespace reprise::testing {

// What graphs came to: a reader sees that they were not vacuous.
struct Tally {
  std::uint64_t graphs = 0, requests = 0, whole = 0, cancelled = 0, uncached = 0;
  std::uint64_t hits = 0, certain = 0;  // certain: there was room for all, so it had to be one
  std::uint64_t tokens_reused = 0, tokens_forwarded = 0;
  std::uint64_t drafted = 0, accepted = 0;  // of guesses at what is sampled
  std::uint64_t preemptions = 0, evictions = 0, window_pages_dropped = 0, retokenised = 0;
  std::string line(const std::string& family) const;
};

// A family's model and its cold runs, for all graphs.
class GraphFamily {
 public:
  explicit GraphFamily(std::string name);
  const std::string& name() const { return name_; }
  const Model& model() const { return *model_; }
  ThreadPool& threads() { return threads_; }
  ColdModel& cold(kernels::KvType kv_type);

  static constexpr Position kLengthMax = 480;  // tokens of a sequence

 private:
  std::string name_;
  ThreadPool threads_{1};
  std::unique_ptr<Model> model_;
  std::array<std::unique_ptr<ColdModel>, 3> cold_;  // by KV type
};

class Graph {
 public:
  Graph(GraphFamily& family, std::uint64_t seed);

  // Runs and checks it, up to the first trouble: what was wrong, in full; empty when all held.
  std::string run(Tally& tally);

 private:
  bool run_batch(std::vector<PlannedRequest> planned);
  void check_request(const PlannedRequest& planned, const Outcome& outcome);
  void check_answers();
  void check_answer(const PlannedRequest& planned, const Outcome& outcome, Answer cold);
  void check_against_engine(const PlannedRequest& planned, const Outcome& outcome);
  // What the others of a batch forwarded.
  ForwardedTokens of_others(const Batch& batch, std::size_t index) const;
  Position copies_lose() const;  // tokens that a restore may not find
  void check_usage(const Batch& batch, std::size_t index);
  void check_end();
  void reset_cache(const CacheScope& scope);
  void count(const PlannedRequest& planned, const Outcome& outcome);
  void fail(const std::string& what);
  void fail(const PlannedRequest& planned, const std::string& what);

  GraphFamily& family_;
  const std::uint64_t seed_;
  Dice dice_;
  bool is_ample_ = false;  // room for everything: the cache must find all that was forwarded
  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<GraphWriter> writer_;
  std::vector<std::unique_ptr<Batch>> batches_;
  ForwardedTokens forwarded_;
  Tally tally_;
  std::uint64_t rows_ = 0;  // that the engine should have forwarded
  std::size_t operation_ = 0;
  std::string trouble_;
};

}  // namespace reprise::testing
