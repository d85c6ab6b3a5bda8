// From samples to figures.
#include "bench/kernels/bench.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

namespace reprise::bench {
namespace {

// Fewer quiet samples than these, and all of them count.
constexpr std::size_t kQuietLeast = 3;

// The spread of the values whose flag says quiet, or of all of them where too few do.
Spread quiet_spread(const std::vector<double>& values, const std::vector<bool>& quiet) {
  std::vector<double> chosen;
  for (std::size_t i = 0; i < values.size(); i++) {
    if (quiet[i]) chosen.push_back(values[i]);
  }
  return spread_of(chosen.size() >= kQuietLeast ? std::move(chosen) : values);
}

// The median of a value of each sample.
template <class Value>
double median(const Samples& samples, Value value) {
  std::vector<double> values;
  std::vector<bool> quiet;
  for (const Sample& sample : samples) {
    values.push_back(value(sample));
    quiet.push_back(sample.quiet);
  }
  return quiet_spread(values, quiet).median;
}

double median_seconds(const Samples& samples) {
  return median(samples, [](const Sample& sample) { return sample.seconds; });
}

// Our rate over the peer's, round by round.
Spread ratios(const Contender& ours, const Samples& our_samples, const Contender& peer,
              const Samples& peer_samples) {
  std::vector<double> values;
  std::vector<bool> quiet;
  for (std::size_t round = 0; round < our_samples.size(); round++) {
    const Sample &own = our_samples[round], &other = peer_samples[round];
    values.push_back(ours.work / own.seconds / (peer.work / other.seconds));
    quiet.push_back(own.quiet && other.quiet);
  }
  return quiet_spread(values, quiet);
}

// Another core may take the memory for one slice and not for the next. So the upper quartiles of
// both, what each reaches with the memory to itself, not a quotient slice by slice.
double share_of_bandwidth(double bytes, const Samples& samples) {
  std::vector<double> rates, probes;
  for (const Sample& sample : samples) {
    rates.push_back(bytes * 1e-9 / sample.seconds);
    probes.push_back(sample.peaks.memory);
  }
  return spread_of(rates).high / spread_of(probes).high;
}

bool reads_memory(Kind kind) {
  return kind == Kind::gemv_from_memory || kind == Kind::attention_decode;
}
bool is_elementwise(Kind kind) {
  return kind == Kind::activations || kind == Kind::norm;
}

Figure make_figure(const CaseName& name, std::span<const Contender> contenders,
                   const std::vector<Samples>& samples) {
  const Contender& ours = contenders[0];
  const Samples& own = samples[0];
  Figure figure;
  figure.name = name;
  figure.rounds = static_cast<int>(own.size());
  const double seconds = median_seconds(own);
  figure.rate = ours.work / seconds * 1e-9;
  const auto share = [&](double work, double Peaks::* peak) {
    return median(own, [&](const Sample& sample) {
      return work * 1e-9 / sample.seconds / (sample.peaks.*peak);
    });
  };
  if (!is_elementwise(name.kind)) {
    figure.of_fma = share(ours.work, &Peaks::fma);
    figure.of_int8 = share(ours.work, &Peaks::int8);
  }
  figure.byte_rate = ours.bytes / seconds * 1e-9;
  if (reads_memory(name.kind)) {
    figure.of_bandwidth = share_of_bandwidth(ours.bytes, own);
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < contenders.size(); i++) {
    const double rate = contenders[i].work / median_seconds(samples[i]) * 1e-9;
    if (best != 0 && rate <= figure.peer_rate) continue;
    best = i;
    figure.peer = contenders[i].name;
    figure.peer_rate = rate;
    figure.ratio = ratios(ours, own, contenders[i], samples[i]);
  }
  double quiet = 0, taken = 0;
  for (const Samples& of_one : samples) {
    for (const Sample& sample : of_one) quiet += sample.quiet, taken += 1;
  }
  figure.quiet = quiet / taken;
  return figure;
}

}  // namespace

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::gemm:
      return "gemm";
    case Kind::gemv:
      return "gemv";
    case Kind::gemv_from_memory:
      return "gemv_memory";
    case Kind::attention_prefill:
      return "prefill";
    case Kind::attention_decode:
      return "decode";
    case Kind::activations:
      return "activations";
    case Kind::norm:
      return "norm";
  }
  return "?";
}

std::string CaseName::text() const {
  const std::string at = depth >= 0 ? fmt::format("/depth:{}", depth) : std::string();
  return fmt::format("{}/{}/{}/rows:{}{}/{}", kind_name(kind), type, shape, rows, at, isa);
}

const Peer* Bench::peer_for(std::string_view isa) const {
  if (!peer || isa == "scalar") return nullptr;
  return peer->is_avx512() == isa.starts_with("avx512") ? &*peer : nullptr;
}

void Bench::run(benchmark::State& state, const CaseName& name,
                std::span<const Contender> contenders) {
  const auto samples = sample(contenders, probe, name.isa, reads_memory(name.kind), plan);
  const Figure figure = make_figure(name, contenders, samples);
  for (auto _ : state) state.SetIterationTime(median_seconds(samples[0]));
  state.counters[is_elementwise(name.kind) ? "Gelements/s" : "GMAC/s"] = figure.rate;
  if (!is_elementwise(name.kind)) {
    state.counters["of_fma_peak"] = figure.of_fma;
    state.counters["of_int8_peak"] = figure.of_int8;
  }
  if (figure.byte_rate > 0) state.counters["GB/s"] = figure.byte_rate;
  if (reads_memory(name.kind)) state.counters["of_bandwidth"] = figure.of_bandwidth;
  if (!figure.peer.empty()) {
    state.SetLabel("ik: " + figure.peer);
    state.counters["ik_GMAC/s"] = figure.peer_rate;
    state.counters["ratio"] = figure.ratio.median;
    state.counters["ratio_low"] = figure.ratio.low;
    state.counters["ratio_high"] = figure.ratio.high;
  }
  state.counters["rounds"] = figure.rounds;
  state.counters["quiet"] = figure.quiet;
  figures.push_back(figure);
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); i++) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    ab += x * y, aa += x * x, bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

}  // namespace reprise::bench
