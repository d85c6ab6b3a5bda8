// What `reprise bench` measures: every depth with every number of rows, of sequences and of
// threads.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "cli/options.h"

namespace reprise {

inline constexpr int kBenchDecodeSteps = 16;  // timed in one decode sample
inline constexpr int kBenchChunk = 512;       // rows of one pass while filling the cache

// One figure: a pass of `rows` rows behind `depth` tokens of one sequence; with rows 1 a step of
// `batch` sequences that decode at once.
struct BenchCell {
  Position depth = 0;
  int rows = 1;
  int batch = 1;
  int threads = 1;

  bool is_decode() const { return rows == 1; }
  int tokens() const { return rows * batch; }
};

struct BenchPlan {
  std::vector<Position> depths;    // ascending
  std::vector<Position> left_out;  // that the context has no room for
  std::vector<int> rows;           // of prefill passes
  std::vector<int> batches;        // of decode steps
  std::vector<int> threads;

  std::vector<BenchCell> cells() const;
  int rows_max() const;
  int batch_max() const;
  Position length_max() const;  // of a sequence
};

// From the options; `threads` where they name none. Errors: invalid_argument, naming the option.
Result<BenchPlan> plan_bench(const Options& options, Position context_length, int threads);

// "1,2,8": numbers from low to high. Errors: invalid_argument for `flag`.
Result<std::vector<int>> parse_numbers(std::string_view text, int low, int high, const char* flag);

}  // namespace reprise
