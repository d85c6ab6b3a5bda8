// reprise_kernel_bench [--ik=PATH] [--quick] [--check] [Google Benchmark's flags]
//
// Times every kernel on one thread beside what the machine can do at most, and, with --ik, beside
// the kernels of ik_llama.cpp (PATH: its libggml.so; a build for AVX2 is compared with our AVX2
// kernels, one for AVX-512 with VNNI with those). Google Benchmark lists, filters
// (--benchmark_filter=gemm/Q4_0) and writes JSON (--benchmark_out=FILE); the sampling is ours
// (sampler.h). --quick: a subset under two minutes. --check: exit status 1 when a bar is missed,
// when cases that have one lacked the peer, and when nothing was held to a bar; so filter what PATH
// is built for (--benchmark_filter=/avx2).
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "bench/kernels/bench.h"
#include "bench/kernels/report.h"

namespace {

constexpr int kNotHere = 77;  // what ctest takes for "skipped"

struct Arguments {
  bool quick = false;
  bool check = false;
  std::string ik;
  std::vector<char*> others;  // Google Benchmark's
};

Arguments parse(int count, char** arguments) {
  Arguments parsed;
  constexpr std::string_view kIk = "--ik=";
  for (int i = 0; i < count; i++) {
    const std::string_view argument = arguments[i];
    if (argument == "--quick") {
      parsed.quick = true;
    } else if (argument == "--check") {
      parsed.check = true;
    } else if (argument.starts_with(kIk)) {
      parsed.ik = argument.substr(kIk.size());
    } else {
      parsed.others.push_back(arguments[i]);
    }
  }
  return parsed;
}

}  // namespace

int main(int count, char** arguments) {
  Arguments parsed = parse(count, arguments);
  int others = static_cast<int>(parsed.others.size());
  benchmark::Initialize(&others, parsed.others.data());
  if (benchmark::ReportUnrecognizedArguments(others, parsed.others.data())) return 2;
  if (!reprise::bench::Probe::is_supported()) {
    fmt::print(stderr, "reprise_kernel_bench: the probe needs a CPU with AVX2 and FMA\n");
    return kNotHere;
  }
  reprise::bench::Bench bench;
  bench.quick = parsed.quick;
  if (bench.quick) bench.plan.case_seconds = 0.4;
  if (!parsed.ik.empty()) {
    auto peer = reprise::bench::Peer::load(parsed.ik);
    if (!peer) {
      fmt::print(stderr, "reprise_kernel_bench: {}\n", peer.error().message);
      return 2;
    }
    bench.peer = std::move(peer).value();
    benchmark::AddCustomContext("ik", bench.peer->is_avx512() ? "avx512" : "avx2");
  }
  reprise::bench::register_matmul_cases(bench);
  reprise::bench::register_attention_cases(bench);
  reprise::bench::register_rowwise_cases(bench);
  const std::size_t matched = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  if (bench.figures.empty()) {  // listed only, or nothing by that name
    if (parsed.check) fmt::print(stderr, "reprise_kernel_bench: nothing ran to hold to a bar\n");
    return matched == 0 ? 2 : parsed.check ? 1 : 0;
  }
  const bool held = reprise::bench::print_report(bench);
  return parsed.check && !held ? 1 : 0;
}
