// `reprise bench`: how fast prefill passes and decode steps are at some depths, beside what the
// machine could do at most. With --scenario: conversations with a server (scenario.h).
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/json.h"
#include "base/log.h"
#include "base/machine.h"
#include "cli/bench_plan.h"
#include "cli/bench_probe.h"
#include "cli/bench_report.h"
#include "cli/bench_runner.h"
#include "cli/commands.h"
#include "cli/model_headers.h"
#include "cli/progress_line.h"
#include "cli/scenario.h"
#include "cli/stack.h"
#include "model/checkpoint.h"
#include "model/checkpoint_files.h"
#include "model/model.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLoads = 5;

std::string name_of(kernels::KvType type) {
  switch (type) {
    case kernels::KvType::f32:
      return "f32";
    case kernels::KvType::f16:
      return "f16";
    case kernels::KvType::bf16:
      return "bf16";
    case kernels::KvType::int8:
      return "int8";
  }
  return "";
}

// A line that counts on a terminal; nothing in a log.
void show_progress(const Options& options, const std::string& what) {
  if (options.log_level == "off" || options.log_level == "error") return;
  if (::isatty(STDERR_FILENO) != 1) return;
  write_stderr(fmt::format("\r{:<40}{}", what, what.empty() ? "\r" : ""));
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  return Sampled::of(values).median;
}

// Loads the weights again and again, each time after a plain read of the files: both come from the
// system's memory then, and a slow phase of the machine hits both.
void measure_load(const Options& options, ThreadPool& pool, const Model& model,
                  BenchReport& report) {
  report.load_seconds = model.load_seconds();
  const Result<CheckpointFiles> files = find_checkpoint_files(options.model);
  if (!files || model.weight_bytes() > memory_available_bytes() / 3) return;
  std::vector<double> reads, loads;
  for (int i = 0; i < kLoads; i++) {
    const auto read = read_plainly(files->paths, pool);
    const auto begin = Clock::now();
    Result<Checkpoint> checkpoint = Checkpoint::open(options.model);
    if (!read || !checkpoint) return;
    ModelOptions again;
    again.vocabulary = model.config().vocabulary;
    again.quantization = options.quantize;
    const auto loaded =
        Model::load(std::make_unique<const Checkpoint>(std::move(*checkpoint)), pool, again);
    if (!loaded) return;
    loads.push_back(seconds_since(begin));
    reads.push_back(read->seconds);
    report.plain_read = read;
  }
  report.load_seconds = median(loads);
  report.plain_read->seconds = median(reads);
}

Result<Stack> load_timed(Options options, const std::vector<int>& threads, BenchReport& report) {
  options.threads = std::ranges::max(threads);
  options.thread_counts.clear();
  report.load_threads = options.threads;
  const auto begin = Clock::now();
  TRY_ASSIGN(Stack stack, Stack::load(options));
  report.start_seconds = seconds_since(begin);
  const Model& model = stack.bundle->model();
  TRY(configure_log("off"));  // what loading warns of was said once
  measure_load(options, *stack.pool, model, report);
  TRY(configure_log(options.log_level));
  report.resident_bytes = model.weight_bytes();
  report.stored_bytes = model.stored_bytes();
  report.token_bytes = model.token_bytes();
  report.model = model.config().name;
  report.fingerprint = model.fingerprint();
  report.context_length = model.config().context_length;
  report.kernels = stack.kernels->isa;
  report.kv_type = name_of(options.kv_type);
  return stack;
}

Status measure(const Options& options, const Stack& stack, BenchPlan plan, BenchReport& report) {
  const BandwidthProbe probe;
  for (const int threads : plan.threads) report.bandwidth.push_back({threads, {}});
  BenchRunner runner(stack, options.kv_type, std::move(plan));
  show_progress(options, "filling the caches");
  TRY(runner.fill());
  for (int round = 0; round <= options.repetitions; round++) {
    show_progress(options, fmt::format("round {} of {}", round, options.repetitions));
    runner.run_round(round == 0);
    for (ProbedBandwidth& bandwidth : report.bandwidth) {
      const double speed = probe.gigabytes_per_second(runner.pool(bandwidth.threads));
      if (round > 0) bandwidth.gigabytes_per_second.push_back(speed);
    }
  }
  show_progress(options, "");
  report.results = runner.results();
  TRY_ASSIGN(report.logits_hash, runner.logits_hash());
  return {};
}

Status bench(const Options& options) {
  BenchReport report;
  std::vector<int> threads = options.thread_counts;
  if (threads.empty()) threads.push_back(usable_cpus());
  // What needs no model is checked before one is loaded.
  TRY(plan_bench(options, 1 << 30, threads[0]));
  TRY(check_context_length(options));
  TRY_ASSIGN(const Stack stack, load_timed(options, threads, report));
  TRY_ASSIGN(BenchPlan plan, plan_bench(options, report.context_length, threads[0]));
  report.left_out = plan.left_out;
  TRY(measure(options, stack, std::move(plan), report));
  const bool quiet = options.log_level == "off" || options.log_level == "error";
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const bool table = options.output == "table" || (options.output.empty() && terminal);
  if (table) {
    fmt::print("{}", bench_table(report));
  } else {
    fmt::print("{}\n", to_json(bench_json(report)));
    if (!quiet && options.output.empty()) write_stderr(bench_table(report));
  }
  return {};
}

}  // namespace

int run_bench(const Options& options) {
  if (!options.scenario.empty()) return run_scenario(options);
  if (!options.url.empty() || options.check) {
    return report(
        {Errc::invalid_argument, "only with --scenario", options.check ? "--check" : "--url"});
  }
  const Status status = bench(options);
  return status ? 0 : report(status.error());
}

}  // namespace reprise
