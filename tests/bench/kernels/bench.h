// One case of the benchmark: what it is, how it is timed, and what is known of it afterwards.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/kernels/peer.h"
#include "bench/kernels/probe.h"
#include "bench/kernels/sampler.h"
#include "kernels/kernels.h"

namespace reprise::bench {

enum class Kind {
  gemm,               // 2 rows and more, weights in cache
  gemv,               // 1 row, weights in cache
  gemv_from_memory,   // 1 row, weights from memory
  attention_prefill,  // many queries of one sequence
  attention_decode,   // one query, keys and values from memory
  activations,        // floats to bytes
  norm,
};
const char* kind_name(Kind kind);

// Which case; `rows` of activations or queries, `depth` of positions before them (-1: none).
struct CaseName {
  Kind kind = Kind::gemm;
  std::string type;   // "Q4_0", "head_dim 256"
  std::string shape;  // "2560x2560": outputs x inputs; "4/1 heads"
  int rows = 1;
  int depth = -1;
  std::string isa;

  std::string text() const;  // "gemm/Q4_0/2560x2560/rows:4/avx2"
};

// What was measured: medians over the rounds whose probes were quiet (over all where fewer than
// three were). Fractions are of the probe beside each sample.
struct Figure {
  CaseName name;
  double rate = 0;       // billions of multiply-adds (or elements) a second
  double byte_rate = 0;  // GB/s of weights, keys and values; 0: there are none
  double of_fma = 0;
  double of_int8 = 0;
  double of_bandwidth = 0;  // quotient of upper quartiles; 0: they come from the caches
  std::string peer;         // the peer's faster form; empty: not measured
  double peer_rate = 0;
  Spread ratio;  // of our rate to the peer's, within rounds
  int rounds = 0;
  double quiet = 0;  // share of samples whose probe was within 8 % of the best
};

struct Bench {
  bool quick = false;
  SamplingPlan plan;
  Probe probe;
  std::optional<Peer> peer;
  std::vector<Figure> figures;

  // The peer, where it is compared with kernels of this ISA: both sides have the same instructions.
  const Peer* peer_for(std::string_view isa) const;
  // Times contenders[0], ours, against the others, forms of the peer; keeps the figure and reports
  // it as the benchmark's.
  void run(benchmark::State& state, const CaseName& name, std::span<const Contender> contenders);
};

// Each adds its cases for every available ISA; `bench` must outlive the benchmarks.
void register_matmul_cases(Bench& bench);
void register_attention_cases(Bench& bench);
void register_rowwise_cases(Bench& bench);

// Registers `body(state)` under the case's name, to be run once.
template <class Body>
void register_case(const CaseName& name, Body body) {
  benchmark::RegisterBenchmark(name.text().c_str(),
                               [body](benchmark::State& state) { body(state); })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

// How alike two results are: 1 for the same direction.
double cosine(std::span<const float> a, std::span<const float> b);

}  // namespace reprise::bench
