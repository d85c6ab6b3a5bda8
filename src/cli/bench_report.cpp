// The same figures twice: every one by name, and the ones people look for.
#include "cli/bench_report.h"

#include <algorithm>
#include <string_view>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "cli/counted.h"

namespace reprise {
namespace {

constexpr std::string_view kLegend =
    "spread: how far the middle half of the samples lies apart; overhead: part of a decode step in "
    "which no task runs; of it: the weights' GB/s beside the bandwidth; logits: one hash of all "
    "logits, the same for every number of threads and every --isa\n";

// The value below which `part` of the ordered values lie, between two of them by proportion.
double quantile(std::span<const double> ordered, double part) {
  const double place = part * static_cast<double>(ordered.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, ordered.size() - 1);
  return ordered[below] + (place - static_cast<double>(below)) * (ordered[above] - ordered[below]);
}

const ProbedBandwidth* probe_of(const BenchReport& report, int threads) {
  const auto found = std::ranges::find(report.bandwidth, threads, &ProbedBandwidth::threads);
  return found == report.bandwidth.end() ? nullptr : &*found;
}

// Weights read by a decode step of one sequence, beside what the same threads could read.
struct ReadingSpeed {
  double gigabytes_per_second = 0;
  double fraction = 0;
};
std::optional<ReadingSpeed> reading_speed(const BenchReport& report, const BenchResult& result) {
  const ProbedBandwidth* const probe = probe_of(report, result.cell.threads);
  if (!result.cell.is_decode() || result.cell.batch != 1 || probe == nullptr) return std::nullopt;
  const double milliseconds = Sampled::of(result.milliseconds).median;
  const double speed = static_cast<double>(report.token_bytes) / milliseconds / 1e6;
  return ReadingSpeed{speed, speed / Sampled::of(probe->gigabytes_per_second).median};
}

JsonObject result_json(const BenchReport& report, const BenchResult& result) {
  const BenchCell& cell = result.cell;
  const Sampled time = Sampled::of(result.milliseconds);
  JsonObject json = {{"kind", cell.is_decode() ? "decode" : "prefill"},
                     {"depth", cell.depth},
                     {"rows", cell.rows},
                     {"batch", cell.batch},
                     {"threads", cell.threads},
                     {"samples", result.milliseconds.size()},
                     {"milliseconds", time.median},
                     {"milliseconds_best", time.least},
                     {"milliseconds_worst", time.most},
                     {"spread", time.spread},
                     {"tokens_per_second", 1000 * cell.tokens() / time.median},
                     {"tokens_per_second_best", 1000 * cell.tokens() / time.least}};
  if (!result.overhead.empty()) json["overhead"] = Sampled::of(result.overhead).median;
  if (const auto speed = reading_speed(report, result)) {
    json["gigabytes_per_second"] = speed->gigabytes_per_second;
    json["bandwidth_fraction"] = speed->fraction;
  }
  return json;
}

JsonObject load_json(const BenchReport& report) {
  JsonObject json = {{"threads", report.load_threads},
                     {"seconds", report.load_seconds},
                     {"start_seconds", report.start_seconds}};
  if (report.plain_read) {
    json["file_bytes"] = report.plain_read->bytes;
    json["plain_read_seconds"] = report.plain_read->seconds;
    json["ratio"] = report.load_seconds / report.plain_read->seconds;
  }
  return json;
}

double percent_over(std::size_t value, std::size_t base) {
  return base == 0 ? 0 : 100 * (static_cast<double>(value) / static_cast<double>(base) - 1);
}

double mebibytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

std::string result_line(const BenchReport& report, const BenchResult& result) {
  const BenchCell& cell = result.cell;
  const Sampled time = Sampled::of(result.milliseconds);
  const auto rate = [&](double milliseconds) { return 1000 * cell.tokens() / milliseconds; };
  std::string line = fmt::format(
      "{:<7} {:>5} {:>5} {:>5} {:>7} {:>10.2f} {:>9.1f} {:>9.1f} {:>6.1f} %",
      cell.is_decode() ? "decode" : "prefill", cell.depth, cell.rows, cell.batch, cell.threads,
      time.median, rate(time.median), rate(time.least), 100 * time.spread);
  if (!result.overhead.empty()) {
    line += fmt::format(" {:>6.1f} %", 100 * Sampled::of(result.overhead).median);
  }
  if (const auto speed = reading_speed(report, result)) {
    line += fmt::format(" {:>6.1f} {:>5.0f} %", speed->gigabytes_per_second, 100 * speed->fraction);
  }
  return line + '\n';
}

std::string load_lines(const BenchReport& report) {
  std::string text = fmt::format("load      {:.0f} ms with {}", 1000 * report.load_seconds,
                                 counted(report.load_threads, "thread"));
  if (report.plain_read) {
    text += fmt::format(", {:.2f} x a plain read of the {:.0f} MiB ({:.0f} ms)",
                        report.load_seconds / report.plain_read->seconds,
                        mebibytes(report.plain_read->bytes), 1000 * report.plain_read->seconds);
  }
  text += fmt::format("; with tokenizer and template {:.0f} ms\n", 1000 * report.start_seconds);
  text += fmt::format("weights   {:.1f} MiB in memory, {:.1f} MiB in the files ({:+.1f} %)\n",
                      mebibytes(report.resident_bytes), mebibytes(report.stored_bytes),
                      percent_over(report.resident_bytes, report.stored_bytes));
  text += fmt::format("a token   reads {:.1f} MiB of weights\n", mebibytes(report.token_bytes));
  for (const ProbedBandwidth& probe : report.bandwidth) {
    const Sampled speed = Sampled::of(probe.gigabytes_per_second);
    text += fmt::format("bandwidth {:.1f} GB/s of memory read by {} ({:.1f} to {:.1f})\n",
                        speed.median, counted(probe.threads, "thread"), speed.least, speed.most);
  }
  return text;
}

}  // namespace

Sampled Sampled::of(std::span<const double> values) {
  std::vector<double> ordered(values.begin(), values.end());
  std::ranges::sort(ordered);
  Sampled sampled{quantile(ordered, 0.5), ordered.front(), ordered.back()};
  if (sampled.median > 0) {
    sampled.spread = (quantile(ordered, 0.75) - quantile(ordered, 0.25)) / sampled.median;
  }
  return sampled;
}

JsonObject bench_json(const BenchReport& report) {
  JsonArray results, bandwidth, left_out;
  for (const BenchResult& result : report.results) results.push_back(result_json(report, result));
  for (const ProbedBandwidth& probe : report.bandwidth) {
    const Sampled speed = Sampled::of(probe.gigabytes_per_second);
    bandwidth.push_back({{"threads", probe.threads},
                         {"gigabytes_per_second", speed.median},
                         {"gigabytes_per_second_best", speed.most}});
  }
  for (const Position depth : report.left_out) left_out.push_back(depth);
  return {{"model", report.model},
          {"fingerprint", report.fingerprint},
          {"kernels", report.kernels},
          {"kv_type", report.kv_type},
          {"threads", report.load_threads},
          {"results", results},
          {"depths_left_out", left_out},
          {"logits_hash", report.logits_hash},
          {"load", load_json(report)},
          {"memory",
           {{"resident_bytes", report.resident_bytes},
            {"stored_bytes", report.stored_bytes},
            {"bytes_per_token", report.token_bytes}}},
          {"bandwidth", bandwidth}};
}

std::string bench_table(const BenchReport& report) {
  std::string text = fmt::format("{}, kernels {}, keys and values {}\n", report.model,
                                 report.kernels, report.kv_type);
  text += load_lines(report);
  text += fmt::format(
      "\n{:<7} {:>5} {:>5} {:>5} {:>7} {:>10} {:>9} {:>9} {:>8} {:>8} {:>6} {:>7}\n", "", "depth",
      "rows", "batch", "threads", "ms", "tokens/s", "best", "spread", "overhead", "GB/s", "of it");
  for (const BenchResult& result : report.results) text += result_line(report, result);
  if (!report.left_out.empty()) {
    text += fmt::format("left out: depth {} (the context is {} tokens)\n",
                        fmt::join(report.left_out, ", "), report.context_length);
  }
  return text + fmt::format("logits {}\n{}", report.logits_hash, kLegend);
}

}  // namespace reprise
