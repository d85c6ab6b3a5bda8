// Lists of numbers, and which of their combinations there is room for.
#include "cli/bench_plan.h"

#include <algorithm>
#include <charconv>

#include <fmt/core.h>

namespace reprise {
namespace {

constexpr int kRowsDefault[] = {512};
constexpr int kBatchesDefault[] = {1, 2, 4, 8};
constexpr int kDecodeRoom = kBenchDecodeSteps + 2;  // with the first and the last, not timed

// Only what was asked for; all when nothing was. Rows 1 are decode steps of one sequence.
Status choose_rows(const Options& options, BenchPlan& plan) {
  if (options.rows.empty() && options.batch.empty()) {
    plan.rows.assign(std::begin(kRowsDefault), std::end(kRowsDefault));
    plan.batches.assign(std::begin(kBatchesDefault), std::end(kBatchesDefault));
    return {};
  }
  if (!options.batch.empty()) {
    TRY_ASSIGN(plan.batches, parse_numbers(options.batch, 1, 256, "--batch"));
  }
  if (options.rows.empty()) return {};
  TRY_ASSIGN(plan.rows, parse_numbers(options.rows, 1, 4096, "--rows"));
  const auto ones = std::ranges::remove(plan.rows, 1);
  if (!ones.empty() && std::ranges::find(plan.batches, 1) == plan.batches.end()) {
    plan.batches.insert(plan.batches.begin(), 1);
  }
  plan.rows.erase(ones.begin(), ones.end());
  return {};
}

}  // namespace

Result<std::vector<int>> parse_numbers(std::string_view text, int low, int high, const char* flag) {
  std::vector<int> values;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    int value = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, value);
    if (error != std::errc{} || stop != text.data() + end || value < low || value > high) {
      return fail(Errc::invalid_argument,
                  fmt::format("got \"{}\", expected numbers from {} to {} with commas between",
                              text, low, high),
                  flag);
    }
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
    at = end + 1;
  }
  return values;
}

int BenchPlan::rows_max() const {
  return rows.empty() ? 1 : std::ranges::max(rows);
}

int BenchPlan::batch_max() const {
  return batches.empty() ? 1 : std::ranges::max(batches);
}

Position BenchPlan::length_max() const {
  return depths.back() + std::max(rows_max(), kDecodeRoom);
}

std::vector<BenchCell> BenchPlan::cells() const {
  std::vector<BenchCell> cells;
  for (const Position depth : depths) {
    for (const int count : threads) {
      for (const int batch : batches) cells.push_back({depth, 1, batch, count});
      for (const int row_count : rows) cells.push_back({depth, row_count, 1, count});
    }
  }
  return cells;
}

Result<BenchPlan> plan_bench(const Options& options, Position context_length, int threads) {
  BenchPlan plan;
  TRY(choose_rows(options, plan));
  plan.threads = options.thread_counts;
  if (plan.threads.empty()) plan.threads.push_back(threads);
  TRY_ASSIGN(auto depths, parse_numbers(options.depths, 0, 1 << 24, "--depths"));
  std::ranges::sort(depths);
  const Position room = std::max(plan.rows_max(), plan.batches.empty() ? 1 : kDecodeRoom);
  for (const Position depth : depths) {
    (depth + room <= context_length ? plan.depths : plan.left_out).push_back(depth);
  }
  if (plan.depths.empty()) {
    return fail(Errc::invalid_argument,
                fmt::format("depth {} and {} rows exceed the model's context of {} tokens",
                            depths.front(), room, context_length),
                "--depths");
  }
  return plan;
}

}  // namespace reprise
