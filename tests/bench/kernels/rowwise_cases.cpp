// Row by row work: activations to bytes, norms.
#include <random>

#include <fmt/core.h>

#include "bench/kernels/bench.h"
#include "unit/kernels/matrices.h"

namespace reprise::bench {
namespace {

using kernels::ActivationFormat;
using kernels::AlignedBytes;
using kernels::KernelTable;

struct Format {
  ActivationFormat format;
  const char* name;
  PeerType peer;  // its format of the same kind
};
constexpr Format kFormats[] = {{ActivationFormat::int8_group32, "group32", {99, "q8_2_x4"}},
                               {ActivationFormat::int8_group64, "group64", {}},
                               {ActivationFormat::int8_group128, "group128", {}},
                               {ActivationFormat::int8_group256, "group256", {148, "q8_K32"}}};

struct RowwiseCase {
  const KernelTable* table;
  int rows;
  int columns;

  std::size_t elements() const { return static_cast<std::size_t>(rows * columns); }
  CaseName name(Kind kind, const char* type) const {
    return {kind, type, fmt::format("{}", columns), rows, -1, table->isa};
  }
};

std::vector<float> random_rows(const RowwiseCase& one) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> x(one.elements());
  for (float& value : x) value = normal(random);
  return x;
}

void run_activations(Bench& bench, const RowwiseCase& one, const Format& format,
                     benchmark::State& state) {
  const std::vector<float> x = random_rows(one);
  const AlignedBytes out(kernels::activation_bytes(format.format, one.rows, one.columns));
  const auto columns = static_cast<std::size_t>(one.columns);
  const auto work = static_cast<double>(one.elements());
  std::vector<Contender> contenders = {{"reprise",
                                        [&] {
                                          one.table->make_activations(
                                              format.format, x.data(), columns, one.rows,
                                              one.columns, 0, (one.rows + 3) / 4, out.data());
                                        },
                                        work, 0}};
  const Peer* const peer = bench.peer_for(one.table->isa);
  std::vector<std::uint8_t> theirs;
  if (peer != nullptr && peer->knows(format.peer)) {
    const std::size_t row_bytes = peer->row_bytes(format.peer.id, one.columns);
    theirs.resize(row_bytes * static_cast<std::size_t>(one.rows));
    const auto quantize = [&, row_bytes] {
      bool done = true;
      for (std::size_t row = 0; row < static_cast<std::size_t>(one.rows); row++) {
        done &= peer->quantize_activations(format.peer.id, x.data() + row * columns, one.columns,
                                           theirs.data() + row * row_bytes);
      }
      return done;
    };
    if (quantize()) contenders.push_back({format.peer.name, [quantize] { quantize(); }, work, 0});
  }
  bench.run(state, one.name(Kind::activations, format.name), contenders);
}

void run_norm(Bench& bench, const RowwiseCase& one, benchmark::State& state) {
  const std::vector<float> x = random_rows(one);
  const std::vector<float> weight(static_cast<std::size_t>(one.columns), 1.5f);
  std::vector<float> out(x.size());
  const auto columns = static_cast<std::size_t>(one.columns);
  const Contender ours = {"reprise",
                          [&] {
                            one.table->rms_norm(x.data(), columns, weight.data(), 1e-6f, one.rows,
                                                one.columns, out.data(), columns);
                          },
                          static_cast<double>(one.elements()), 0};
  bench.run(state, one.name(Kind::norm, "rms_norm"), std::span(&ours, 1));
}

}  // namespace

void register_rowwise_cases(Bench& bench) {
  for (const KernelTable* table : kernels::available_kernels()) {
    for (const int columns : {640, 2560}) {
      for (const int rows : {1, 32}) {
        if (bench.quick && rows * columns != 32 * 2560) continue;
        const RowwiseCase one{table, rows, columns};
        for (const Format& format : kFormats) {
          if (columns % (format.format == ActivationFormat::int8_group256 ? 256 : 128) != 0) {
            continue;
          }
          register_case(one.name(Kind::activations, format.name),
                        [&bench, one, format](benchmark::State& state) {
                          run_activations(bench, one, format, state);
                        });
        }
        register_case(one.name(Kind::norm, "rms_norm"),
                      [&bench, one](benchmark::State& state) { run_norm(bench, one, state); });
      }
    }
  }
}

}  // namespace reprise::bench
