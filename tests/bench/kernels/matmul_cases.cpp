// GEMM and GEMV of every weight type, ours beside the peer's plain and interleaved forms.
#include <algorithm>
#include <memory>
#include <random>

#include <fmt/core.h>

#include "bench/kernels/bench.h"
#include "bench/kernels/ring.h"
#include "unit/kernels/matrices.h"

namespace reprise::bench {
namespace {

using kernels::AlignedBytes;
using kernels::KernelTable;
using kernels::PanelMatrix;
using kernels::WeightForm;
using kernels::WeightType;

struct Shape {
  int outputs;
  int inputs;
};
constexpr Shape kSquare{2560, 2560};
constexpr Shape kShapes[] = {kSquare, {640, 2048}, {2048, 640}, {1024, 640}};
constexpr Shape kHead{262'144, 640};
constexpr int kRows[] = {2, 4, 8, 32, 512};
constexpr int kQuickRows[] = {4, 32, 512};
constexpr WeightType kMainTypes[] = {WeightType::q4_0, WeightType::q5_0, WeightType::q8_0,
                                     WeightType::q4_k, WeightType::q6_k, WeightType::mlx4,
                                     WeightType::mlx8};
// Distinct rows of a matrix; the rest repeats them, which no kernel can notice.
constexpr int kPatternRows = 64;

WeightForm form_of(WeightType type) {
  return {type, kernels::is_affine(type) ? 64 : 0, kernels::ScaleType::f16};
}

std::string type_name(WeightType type) {
  if (!kernels::is_affine(type)) return kernels::weight_traits(type).name;
  return fmt::format("MLX{}", kernels::affine_bits(type));
}

std::vector<float> normal_floats(std::size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Our side: packed weights, activations, room for the outputs.
struct OurMatmul {
  OurMatmul(const KernelTable& kernel_table, const kernels::PackedMatrix& pattern, Shape shape,
            int row_count, const std::vector<float>& x, bool from_memory)
      : table(kernel_table),
        matrix(pattern.matrix),
        rows(row_count),
        weights(pattern.bytes.data(), pattern.bytes.size(),
                matrix.panel_bytes() * static_cast<std::size_t>(shape.outputs / 16), from_memory),
        activations(kernels::activation_bytes(matrix.activations(), rows, shape.inputs)),
        out(static_cast<std::size_t>(shape.outputs) * static_cast<std::size_t>(rows)) {
    matrix.rows = shape.outputs;
    table.make_activations(matrix.activations(), x.data(), static_cast<std::size_t>(shape.inputs),
                           rows, shape.inputs, 0, (rows + 3) / 4, activations.data());
  }
  void run() {
    matrix.panels = weights.next();
    table.matmul(matrix, activations.data(), rows, 0, matrix.panel_count(), out.data(),
                 static_cast<std::size_t>(matrix.rows), scratch.data());
  }

  const KernelTable& table;
  PanelMatrix matrix;
  int rows;
  Ring weights;
  AlignedBytes activations;
  std::vector<float> out;
  AlignedBytes scratch{kernels::kMatmulScratchBytes};
};

// The peer's side, in one of its forms.
struct PeerMatmul {
  PeerMatmul(const Peer& library, PeerType form, const std::vector<std::uint8_t>& pattern,
             Shape matrix_shape, int row_count, bool from_memory)
      : peer(library),
        type(form),
        activation_type(peer.activation_type(form.id)),
        shape(matrix_shape),
        rows(row_count),
        weights(pattern.data(), pattern.size(),
                peer.row_bytes(type.id, shape.inputs) * static_cast<std::size_t>(shape.outputs),
                from_memory),
        activations(peer.row_bytes(activation_type, shape.inputs) * static_cast<std::size_t>(rows)),
        out(static_cast<std::size_t>(shape.outputs) * static_cast<std::size_t>(rows)) {}

  bool prepare(const std::vector<float>& x) {
    const std::size_t row_bytes = peer.row_bytes(activation_type, shape.inputs);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); row++) {
      if (!peer.quantize_activations(activation_type,
                                     x.data() + row * static_cast<std::size_t>(shape.inputs),
                                     shape.inputs, activations.data() + row * row_bytes)) {
        return false;
      }
    }
    return run();
  }
  bool run() {
    return peer.multiply(shape.outputs, rows, shape.inputs, type.id, weights.next(),
                         activation_type, activations.data(), out.data());
  }

  const Peer& peer;
  PeerType type;
  int activation_type;
  Shape shape;
  int rows;
  Ring weights;
  AlignedBytes activations;
  std::vector<float> out;
};

struct MatmulCase {
  const KernelTable* table;
  WeightType type;
  Shape shape;
  int rows;
  bool from_memory;

  CaseName name() const {
    const Kind kind = rows > 1 ? Kind::gemm : from_memory ? Kind::gemv_from_memory : Kind::gemv;
    return {kind, type_name(type), fmt::format("{}x{}", shape.outputs, shape.inputs), rows,
            -1,   table->isa};
  }
};

// The pattern rows as the peer stores them in `form`.
std::vector<std::uint8_t> peer_pattern(const Peer& peer, PeerType form, bool same_bytes,
                                       const kernels::FileMatrix& file,
                                       const PanelMatrix& pattern) {
  const auto columns = static_cast<std::size_t>(file.columns);
  std::vector<std::uint8_t> bytes(peer.row_bytes(form.id, file.columns) * kPatternRows);
  if (same_bytes && bytes.size() == file.weights.size()) {
    std::memcpy(bytes.data(), file.weights.data(), bytes.size());
    return bytes;
  }
  std::vector<float> floats(columns * kPatternRows);
  for (int row = 0; row < kPatternRows; row++) {
    kernels::unpack_row(pattern, row, floats.data() + static_cast<std::size_t>(row) * columns);
  }
  peer.quantize_weights(form.id, floats.data(), kPatternRows, file.columns, bytes.data());
  return bytes;
}

// The peer's forms that it can run and whose outputs agree with ours: the same weights exactly, or
// the same rounded once more.
std::vector<std::unique_ptr<PeerMatmul>> peer_sides(const Peer& peer, const MatmulCase& one,
                                                    const kernels::FileMatrix& file,
                                                    const PanelMatrix& pattern,
                                                    const std::vector<float>& x,
                                                    const std::vector<float>& our_out) {
  std::vector<std::unique_ptr<PeerMatmul>> sides;
  const PeerForms forms = peer_forms(one.type);
  for (const PeerType& form : {forms.plain, forms.packed}) {
    if (!peer.knows(form)) continue;
    const bool same_bytes = forms.same_bytes && form.id == forms.plain.id;
    auto side = std::make_unique<PeerMatmul>(peer, form,
                                             peer_pattern(peer, form, same_bytes, file, pattern),
                                             one.shape, one.rows, one.from_memory);
    if (!side->prepare(x)) {
      fmt::print(stderr, "{}: the peer has no kernel for {}\n", one.name().text(), form.name);
      continue;
    }
    const double alike = cosine(our_out, side->out);
    if (!(alike > (same_bytes ? 0.999 : 0.9))) {
      fmt::print(stderr, "{}: {} left out: the peer's result differs, cosine {:.4f}\n",
                 one.name().text(), form.name, alike);
      continue;
    }
    sides.push_back(std::move(side));
  }
  return sides;
}

void run_matmul(Bench& bench, const MatmulCase& one, benchmark::State& state) {
  const kernels::FileMatrix file =
      kernels::random_file(form_of(one.type), kPatternRows, one.shape.inputs, 1);
  const kernels::PackedMatrix pattern(file);
  const std::vector<float> x = normal_floats(static_cast<std::size_t>(one.rows) *
                                             static_cast<std::size_t>(one.shape.inputs));
  OurMatmul ours(*one.table, pattern, one.shape, one.rows, x, one.from_memory);
  ours.run();
  const double outputs = one.shape.outputs, inputs = one.shape.inputs;
  const double work = outputs * inputs * one.rows;
  std::vector<Contender> contenders = {
      {"reprise", [&] { ours.run(); }, work,
       static_cast<double>(ours.matrix.panel_bytes()) * ours.matrix.panel_count()}};
  std::vector<std::unique_ptr<PeerMatmul>> peers;
  if (const Peer* peer = bench.peer_for(one.table->isa)) {
    peers = peer_sides(*peer, one, file, pattern.matrix, x, ours.out);
  }
  for (const auto& side : peers) {
    const double bytes =
        static_cast<double>(side->peer.row_bytes(side->type.id, one.shape.inputs)) * outputs;
    contenders.push_back({side->type.name, [&side] { side->run(); }, work, bytes});
  }
  bench.run(state, one.name(), contenders);
}

bool fits(WeightType type, Shape shape) {
  return shape.inputs % kernels::weight_traits(type).block_columns == 0;
}

void add(Bench& bench, const MatmulCase& one) {
  if (!fits(one.type, one.shape)) return;
  register_case(one.name(),
                [&bench, one](benchmark::State& state) { run_matmul(bench, one, state); });
}

void add_main_types(Bench& bench, const KernelTable& table) {
  for (const WeightType type : kMainTypes) {
    for (const Shape shape : kShapes) {
      const bool square = shape.outputs == kSquare.outputs;
      if (bench.quick && !square) continue;
      if (!bench.quick) add(bench, {&table, type, shape, 1, false});
      add(bench, {&table, type, shape, 1, true});
      if (bench.quick) {
        for (const int rows : kQuickRows) add(bench, {&table, type, shape, rows, false});
      } else {
        for (const int rows : kRows) add(bench, {&table, type, shape, rows, false});
      }
    }
    if (!bench.quick) add(bench, {&table, type, kHead, 1, true});
  }
}

}  // namespace

void register_matmul_cases(Bench& bench) {
  for (const KernelTable* table : kernels::available_kernels()) {
    if (std::string_view(table->isa) == "scalar") {  // the twin: one small shape says enough
      for (const WeightType type : kMainTypes) add(bench, {table, type, {64, 1280}, 4, false});
      continue;
    }
    add_main_types(bench, *table);
    if (bench.quick) continue;
    for (int i = 0; i < kernels::kWeightTypes; i++) {
      const auto type = static_cast<WeightType>(i);
      if (std::ranges::find(kMainTypes, type) != std::end(kMainTypes)) continue;
      for (const int rows : {4, 512}) add(bench, {table, type, kSquare, rows, false});
      add(bench, {table, type, kSquare, 1, true});
    }
  }
}

}  // namespace reprise::bench
