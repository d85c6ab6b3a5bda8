// The rounds of interleaved timing.
#include "bench/kernels/sampler.h"

#include <algorithm>
#include <cmath>

namespace reprise::bench {
namespace {

double seconds_of(const Contender& contender, int calls) {
  const double begin = thread_seconds();
  for (int i = 0; i < calls; i++) contender.call();
  return thread_seconds() - begin;
}

// How many calls fill a slice; the calls made to find out also warm the caches.
int calls_per_slice(const Contender& contender, double slice_seconds) {
  contender.call();
  const double once = std::max(seconds_of(contender, 1), 1e-7);
  return std::clamp(static_cast<int>(std::lround(slice_seconds / once)), 1, 30'000);
}

Peaks mean(const Peaks& a, const Peaks& b) {
  return {(a.fma + b.fma) / 2, (a.int8 + b.int8) / 2, (a.memory + b.memory) / 2};
}

}  // namespace

std::vector<Samples> sample(std::span<const Contender> contenders, Probe& probe,
                            std::string_view isa, bool with_memory, const SamplingPlan& plan) {
  std::vector<int> calls;
  for (const Contender& contender : contenders) {
    calls.push_back(calls_per_slice(contender, plan.slice_seconds));
  }
  std::vector<Samples> samples(contenders.size());
  const double begin = thread_seconds();
  Peaks before = probe.look(isa, with_memory);
  for (int round = 0; round < plan.rounds_most; round++) {
    if (round >= plan.rounds_least && thread_seconds() - begin > plan.case_seconds) break;
    for (std::size_t turn = 0; turn < contenders.size(); turn++) {
      const std::size_t i = (turn + static_cast<std::size_t>(round)) % contenders.size();
      Sample taken;
      taken.seconds = seconds_of(contenders[i], calls[i]) / calls[i];
      const Peaks behind = probe.look(isa, with_memory);
      taken.peaks = mean(before, behind);
      before = behind;
      samples[i].push_back(taken);
    }
  }
  for (Samples& of_one : samples) {
    for (Sample& taken : of_one) taken.quiet = probe.is_quiet(isa, taken.peaks);
  }
  return samples;
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
  };
  return {at(0.5), at(0.25), at(0.75)};
}

}  // namespace reprise::bench
