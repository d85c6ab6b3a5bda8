// Building blocks that work row by row, and projections.
#include "model/forward.h"

#include <algorithm>

#include "base/check.h"

namespace reprise {
namespace {

// Weight bytes of one multiplication task: large enough to stream, small enough to share fairly.
constexpr std::size_t kTaskBytes = std::size_t{96} << 10;
int largest(const ModelConfig& config, auto&& of_layer) {
  int result = 0;
  for (const LayerConfig& layer : config.layers) result = std::max(result, of_layer(layer));
  return result;
}

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Forward::Forward(const Model& model, const kernels::KernelTable& kernels, ThreadPool& pool,
                 int rows_max, int logit_rows_max)
    : model_(&model),
      config_(&model.config()),
      kernels_(&kernels),
      pool_(&pool),
      rows_max_(rows_max),
      logit_rows_max_(logit_rows_max),
      last_kv_layer_(model.config().last_kv_layer()) {
  const int query_columns =
      largest(*config_, [](const LayerConfig& l) { return l.heads * l.head_dim; });
  const int attended_columns =
      largest(*config_, [](const LayerConfig& l) { return l.heads * l.value_dim; });
  hidden_ = RowBuffer(rows_max, config_->hidden);
  normed_ = RowBuffer(rows_max, config_->hidden);
  branch_ = RowBuffer(rows_max, config_->hidden);
  query_ = RowBuffer(rows_max, query_columns);
  key_ = RowBuffer(rows_max,
                   largest(*config_, [](const LayerConfig& l) { return l.kv_heads * l.head_dim; }));
  value_ = RowBuffer(
      rows_max, largest(*config_, [](const LayerConfig& l) { return l.kv_heads * l.value_dim; }));
  attended_ = RowBuffer(rows_max, attended_columns);
  const int feed_forward = largest(*config_, [](const LayerConfig& l) { return l.feed_forward; });
  gate_ = RowBuffer(rows_max, std::max(feed_forward, config_->layer_input));
  up_ = RowBuffer(rows_max, feed_forward);
  if (config_->has_attention_gate) attention_gate_ = RowBuffer(rows_max, attended_columns);
  layer_inputs_ =
      RowBuffer(rows_max, static_cast<int>(config_->layers.size()) * config_->layer_input);
  router_ = RowBuffer(rows_max, config_->experts.count);
  expert_sum_ = RowBuffer(rows_max, config_->experts.count > 0 ? config_->hidden : 0);
  logits_ = RowBuffer(logit_rows_max, config_->vocabulary);
  for (const RopeConfig& rope : config_->ropes) {
    cosines_.emplace_back(rows_max, rope.rotary_dim() / 2);
    sines_.emplace_back(rows_max, rope.rotary_dim() / 2);
  }
  const int widest = std::max({config_->hidden, gate_.columns(), attended_columns});
  for (int format = 0; format < kernels::kActivationFormats; format++) {
    const int columns = (widest + 255) / 256 * 256;
    activations_[format] = MemoryBlock(kernels::activation_bytes(
        static_cast<kernels::ActivationFormat>(format), rows_max, columns));
  }
  // Of a worker: a matmul's scratch, or the queries, ranges and states of one attention task.
  const int group = largest(*config_, [](const LayerConfig& l) { return l.heads / l.kv_heads; });
  const int head_dim =
      largest(*config_, [](const LayerConfig& l) { return std::max(l.head_dim, l.value_dim); });
  const auto attention_rows = static_cast<std::size_t>(std::max(kAttentionRows, group));
  const std::size_t attention_bytes =
      attention_rows *
          (static_cast<std::size_t>(head_dim) * sizeof(float) + sizeof(kernels::VisibleRange) +
           2 * kernels::attention_state_floats(head_dim) * sizeof(float)) +
      256;
  scratch_stride_ = round_up(std::max(kernels::kMatmulScratchBytes, attention_bytes), 4096);
  scratch_ = MemoryBlock(scratch_stride_ * static_cast<std::size_t>(pool.threads()));
  if (config_->experts.count > 0) {
    std::vector<std::uint8_t*> scratch;
    for (int worker = 0; worker < pool.threads(); worker++) {
      scratch.push_back(worker_scratch(worker));
    }
    experts_.emplace(*config_, kernels, pool, rows_max, scratch);
  }
}

std::uint8_t* Forward::worker_scratch(int worker) const {
  return scratch_.data() + static_cast<std::size_t>(worker) * scratch_stride_;
}

std::uint8_t* Forward::activations(kernels::ActivationFormat format) const {
  return activations_[static_cast<std::size_t>(format)].data();
}

// Converts one tile of rows to every activation format that the products need.
void Forward::convert_tile(int tile, const RowBuffer& x, int columns,
                           std::initializer_list<Projection> products) {
  bool done[kernels::kActivationFormats] = {};
  for (const Projection& product : products) {
    if (product.is_empty()) continue;
    const auto format = product.weights->matrix.activations();
    if (std::exchange(done[static_cast<std::size_t>(format)], true)) continue;
    kernels_->make_activations(format, x.row(0), static_cast<std::size_t>(x.columns()), rows_,
                               columns, tile, tile + 1, activations(format));
  }
}

void Forward::multiply(std::initializer_list<Projection> products) {
  struct Piece {
    const Projection* product;
    int begin, end;
  };
  std::vector<Piece> pieces;
  for (const Projection& product : products) {
    if (product.is_empty()) continue;
    const kernels::PanelMatrix& matrix = product.weights->matrix;
    const int step = std::max(1, static_cast<int>(kTaskBytes / matrix.panel_bytes()));
    for (int begin = 0; begin < matrix.panel_count(); begin += step) {
      pieces.push_back({&product, begin, std::min(matrix.panel_count(), begin + step)});
    }
  }
  if (rows_ == 0) return;
  pool_->parallel_for(static_cast<int>(pieces.size()), [&](int task, int worker) {
    const Piece& piece = pieces[static_cast<std::size_t>(task)];
    multiply_panels(*piece.product, piece.begin, piece.end, worker);
  });
}

void Forward::multiply_panels(const Projection& product, int panel_begin, int panel_end,
                              int worker) {
  const Linear& weights = *product.weights;
  const auto stride = static_cast<std::size_t>(product.out->columns());
  float* out = product.out->row(0);
  kernels_->matmul(weights.matrix, activations(weights.matrix.activations()), rows_, panel_begin,
                   panel_end, out, stride, worker_scratch(worker));
  if (weights.bias.empty()) return;
  const int begin = panel_begin * kernels::kPanelRows;
  const int end = std::min(weights.matrix.rows, panel_end * kernels::kPanelRows);
  kernels_->add_row(out + begin, stride, weights.bias.data() + begin, rows_, end - begin);
}

void Forward::norm(const float* x, std::span<const float> weight, float epsilon, float* out) const {
  kernels_->rms_norm(x, weight.size(), weight.data(), epsilon, 1, static_cast<int>(weight.size()),
                     out, weight.size());
}

void Forward::norm_heads(float* x, int heads, int head_dim, std::span<const float> weight) const {
  const auto stride = static_cast<std::size_t>(head_dim);
  kernels_->rms_norm(x, stride, weight.empty() ? nullptr : weight.data(), config_->norm_epsilon,
                     heads, head_dim, x, stride);
}

void Forward::activate(Activation activation, float* gate, const float* up, int columns) const {
  activation_kernel(*kernels_, activation)(gate, up, static_cast<std::size_t>(columns));
}

void Forward::rotate(int layer, int row) const {
  const LayerConfig& config = config_->layers[static_cast<std::size_t>(layer)];
  if (config.rope < 0) return;
  const auto index = static_cast<std::size_t>(config.rope);
  const RopeConfig& rope = config_->ropes[index];
  const float* cosines = cosines_[index].row(row);
  const float* sines = sines_[index].row(row);
  kernels_->rope(rope.layout, query(row), 1, config.heads, config.head_dim, rope.rotary_dim(),
                 cosines, sines);
  if (config.kv_source >= 0) return;
  kernels_->rope(rope.layout, key(row), 1, config.kv_heads, config.head_dim, rope.rotary_dim(),
                 cosines, sines);
}

void Forward::store(int layer, int row) {
  const LayerConfig& config = config_->layers[static_cast<std::size_t>(layer)];
  const Row& info = row_info_[static_cast<std::size_t>(row)];
  kernels_->scale(
      query(row), config.attention_scale,
      static_cast<std::size_t>(config.heads) * static_cast<std::size_t>(config.head_dim));
  if (config.kv_source >= 0) return;
  SequenceCache& cache = *entries_[static_cast<std::size_t>(info.entry)].cache;
  const LayerPlace place = cache.layout().layers[static_cast<std::size_t>(layer)];
  const SpanGroup& group = cache.layout().groups[static_cast<std::size_t>(place.group)];
  std::uint8_t* page = cache.page_at(place.group, info.position);
  const int index = static_cast<int>(info.position % kPagePositions);
  bool finite = true;
  for (int head = 0; head < config.kv_heads; head++) {
    finite &= kernels_->store_kv(group.shape, page + group.block_offset(place.index, head), index,
                                 key(row) + head * config.head_dim,
                                 value_.row(row) + head * config.value_dim);
  }
  if (!finite) finite_[static_cast<std::size_t>(row)] = 0;
}

}  // namespace reprise
