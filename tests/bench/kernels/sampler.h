// Interleaved timing: the contenders of a case take turns in slices of milliseconds, with the probe
// between any two, for as many rounds as fit. Ratios are taken within a round, so a machine whose
// speed drifts changes both sides alike.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels/probe.h"

namespace reprise::bench {

// One side of a case: `call` does `work` (multiply-adds, or elements) and reads `bytes` of weights,
// or of keys and values.
struct Contender {
  std::string name;
  std::function<void()> call;
  double work = 0;
  double bytes = 0;
};

// One slice: seconds a call, and the mean of the probes before and behind it.
struct Sample {
  double seconds = 0;
  Peaks peaks;
  bool quiet = false;
};
using Samples = std::vector<Sample>;

struct SamplingPlan {
  double slice_seconds = 0.003;
  double case_seconds = 1.0;  // CPU time; at least rounds_least, at most rounds_most rounds
  int rounds_least = 5;
  int rounds_most = 25;
};

// Samples of every contender, one a round; the order within a round rotates. `isa` names the
// probe's instructions.
std::vector<Samples> sample(std::span<const Contender> contenders, Probe& probe,
                            std::string_view isa, bool with_memory, const SamplingPlan& plan);

// A median and what lies around it: the quartiles.
struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};
Spread spread_of(std::vector<double> values);

}  // namespace reprise::bench
