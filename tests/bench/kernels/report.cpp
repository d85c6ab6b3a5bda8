// Bars: what each figure must reach, and what we aim at.
#include "bench/kernels/report.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/core.h>

namespace reprise::bench {
namespace {

enum class Measure { ratio, of_fma, of_bandwidth };

// Medians are held against `bar`; "" for every type. `isa` is a prefix: avx512 covers its kin.
struct Bar {
  std::string_view isa;
  Kind kind;
  std::string_view type;
  int rows_least;
  Measure measure;
  double bar;
  double aim;
};

constexpr Bar kBars[] = {
    {"avx2", Kind::gemm, "Q4_0", 4, Measure::ratio, 1.5, 1.8},
    {"avx2", Kind::gemm, "MLX4", 4, Measure::ratio, 1.5, 1.8},
    {"avx2", Kind::gemm, "Q5_0", 4, Measure::ratio, 1.6, 1.9},
    {"avx2", Kind::gemm, "Q6_K", 4, Measure::ratio, 1.4, 1.6},
    {"avx2", Kind::gemm, "Q4_K", 4, Measure::ratio, 1.3, 1.45},
    {"avx2", Kind::gemm, "Q8_0", 4, Measure::ratio, 1.1, 1.2},
    {"avx512", Kind::gemm, "Q4_0", 4, Measure::ratio, 1.25, 1.5},
    {"avx512", Kind::gemm, "MLX4", 4, Measure::ratio, 1.4, 1.6},
    {"avx512", Kind::gemm, "Q4_K", 4, Measure::ratio, 1.15, 1.4},
    {"avx512", Kind::gemm, "Q6_K", 4, Measure::ratio, 1.1, 1.3},
    {"avx512", Kind::gemm, "Q8_0", 4, Measure::ratio, 1.0, 1.2},
    {"avx", Kind::gemv_from_memory, "", 1, Measure::of_bandwidth, 0.90, 0.97},
    {"avx", Kind::attention_prefill, "", 1, Measure::ratio, 1.6, 2.0},
    {"avx", Kind::attention_prefill, "", 1, Measure::of_fma, 0.70, 0.85},
    {"avx", Kind::attention_decode, "", 1, Measure::ratio, 2.0, 3.0},
};

bool applies(const Bar& bar, const Figure& figure) {
  return bar.kind == figure.name.kind && figure.name.isa.starts_with(bar.isa) &&
         (bar.type.empty() || bar.type == figure.name.type) && figure.name.rows >= bar.rows_least;
}

double measured(const Bar& bar, const Figure& figure) {
  switch (bar.measure) {
    case Measure::ratio:
      return figure.ratio.median;
    case Measure::of_fma:
      return figure.of_fma;
    case Measure::of_bandwidth:
      return figure.of_bandwidth;
  }
  return 0;
}

const char* measure_name(Measure measure) {
  return measure == Measure::ratio    ? "x ik"
         : measure == Measure::of_fma ? "of FMA peak"
                                      : "of bandwidth";
}

std::string percent(double share) {
  return share == 0 ? "-" : fmt::format("{:.0f}%", 100 * share);
}

// "ok", "MISS", or nothing where no bar applies.
const char* verdict(const Figure& figure) {
  const char* word = "";
  for (const Bar& bar : kBars) {
    if (!applies(bar, figure)) continue;
    if (bar.measure == Measure::ratio && figure.peer.empty()) continue;
    if (!(measured(bar, figure) >= bar.bar)) return "MISS";  // so is what is not a number
    word = "ok";
  }
  return word;
}

void print_figures(const Bench& bench) {
  fmt::print("\n{:<46} {:>7} {:>6} {:>5} {:>5} {:>5}  {:<16} {:>6} {:>5} {:<13} {:>5} {:>3}\n",
             "case", "G/s", "GB/s", "fma", "int8", "mem", "ik's best", "G/s", "ratio",
             "[quartiles]", "quiet", "n");
  for (const Figure& figure : bench.figures) {
    const std::string bytes =
        figure.byte_rate > 0 ? fmt::format("{:.1f}", figure.byte_rate) : std::string("-");
    fmt::print("{:<46} {:>7.2f} {:>6} {:>5} {:>5} {:>5}  ", figure.name.text(), figure.rate, bytes,
               percent(figure.of_fma), percent(figure.of_int8), percent(figure.of_bandwidth));
    if (figure.peer.empty()) {
      fmt::print("{:<43}", "-");
    } else {
      fmt::print("{:<16} {:>6.2f} {:>5.2f} [{:.2f}, {:.2f}] ", figure.peer, figure.peer_rate,
                 figure.ratio.median, figure.ratio.low, figure.ratio.high);
    }
    fmt::print(" {:>5} {:>3} {}\n", percent(figure.quiet), figure.rounds, verdict(figure));
  }
}

// Whether `value` is further from its bar than `other`; nothing is further than not a number.
bool is_worse(double value, double other) {
  return !std::isnan(other) && !(value >= other);
}

// How the figures of one bar did.
struct Outcome {
  int figures = 0;
  int without_peer = 0;
  int missed = 0;
  std::vector<double> values;  // those that are numbers
  const Figure* worst = nullptr;
};

Outcome hold(const Bar& bar, const Bench& bench) {
  Outcome outcome;
  for (const Figure& figure : bench.figures) {
    if (!applies(bar, figure)) continue;
    if (bar.measure == Measure::ratio && figure.peer.empty()) {
      outcome.without_peer++;
      continue;
    }
    outcome.figures++;
    const double value = measured(bar, figure);
    if (!std::isnan(value)) outcome.values.push_back(value);
    outcome.missed += !(value >= bar.bar);
    if (outcome.worst == nullptr || is_worse(value, measured(bar, *outcome.worst))) {
      outcome.worst = &figure;
    }
  }
  return outcome;
}

double median_of(const std::vector<double>& values) {
  return values.empty() ? std::nan("") : spread_of(values).median;
}

std::string bar_name(const Bar& bar) {
  return fmt::format("{} {} {}{}", bar.isa, kind_name(bar.kind),
                     bar.type.empty() ? "all" : bar.type,
                     bar.rows_least > 1 ? fmt::format(", {}+ rows", bar.rows_least) : "");
}

}  // namespace

bool print_report(const Bench& bench) {
  print_figures(bench);
  fmt::print("\n{:<34} {:>5} {:>5} {:>7} {:>6} {:<13} {}\n", "bar", "bar", "aim", "median", "worst",
             "", "");
  const Bar* worst_bar = nullptr;
  const Figure* worst = nullptr;
  bool all_held = true;
  int bars_without_peer = 0;
  for (const Bar& bar : kBars) {
    Outcome outcome = hold(bar, bench);
    if (outcome.without_peer > 0) {
      fmt::print("{:<34} {:>5.2f} {:>5.2f} skipped: {} cases without a peer\n", bar_name(bar),
                 bar.bar, bar.aim, outcome.without_peer);
      bars_without_peer++;
    }
    if (outcome.figures == 0) continue;
    const double low = measured(bar, *outcome.worst);
    fmt::print("{:<34} {:>5.2f} {:>5.2f} {:>7.2f} {:>6.2f} {:<13} {}: {} of {} below; worst {}\n",
               bar_name(bar), bar.bar, bar.aim, median_of(outcome.values), low,
               measure_name(bar.measure), outcome.missed == 0 ? "holds" : "MISSED", outcome.missed,
               outcome.figures, outcome.worst->name.text());
    all_held &= outcome.missed == 0;
    if (worst == nullptr ||
        is_worse(low / bar.bar, measured(*worst_bar, *worst) / worst_bar->bar)) {
      worst_bar = &bar;
      worst = outcome.worst;
    }
  }
  if (bars_without_peer > 0) {
    fmt::print(
        "{} bars not held, or not by all their cases: no peer (--ik=PATH of a build for the "
        "same instructions; left out where its results differ)\n",
        bars_without_peer);
  }
  if (worst == nullptr) {
    fmt::print("nothing was held to a bar\n");
    return false;
  }
  const double value = measured(*worst_bar, *worst);
  fmt::print("{}; worst ratio {:.3f} = {:.2f} {} against a bar of {:.2f} ({})\n",
             all_held ? "all bars hold" : "bars missed", value / worst_bar->bar, value,
             measure_name(worst_bar->measure), worst_bar->bar, worst->name.text());
  return all_held && bars_without_peer == 0;
}

}  // namespace reprise::bench
