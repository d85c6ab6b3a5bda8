// What `reprise bench` found out, as JSON for programs and as a table for people.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/bench_plan.h"
#include "cli/bench_probe.h"
#include "cli/bench_runner.h"

namespace reprise {

// Of some samples: the middle one, the ends, and how far the middle half of them lies apart.
struct Sampled {
  double median = 0, least = 0, most = 0;
  double spread = 0;  // (third quartile - first quartile) / median

  static Sampled of(std::span<const double> values);  // not empty
};

struct ProbedBandwidth {
  int threads = 1;
  std::vector<double> gigabytes_per_second;  // one a round
};

struct BenchReport {
  std::string model, fingerprint, kernels, kv_type;
  std::vector<BenchResult> results;
  std::vector<Position> left_out;  // depths
  Position context_length = 0;
  std::string logits_hash;
  std::vector<ProbedBandwidth> bandwidth;
  // Loading: checkpoint to panels with `load_threads`, all of it, and the same files read plainly.
  int load_threads = 1;
  double load_seconds = 0, start_seconds = 0;
  std::optional<PlainRead> plain_read;
  // Weights in memory, the same tensors in the files, and what one decoded token reads of them.
  std::size_t resident_bytes = 0, stored_bytes = 0, token_bytes = 0;
};

JsonObject bench_json(const BenchReport& report);
std::string bench_table(const BenchReport& report);

}  // namespace reprise
