// Attention of a batch: work cut into tasks, each over the pages of one sequence.
#include <algorithm>

#include "base/check.h"
#include "model/forward.h"

namespace reprise {
namespace {

float* aligned_floats(void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return reinterpret_cast<float*>((address + 63) & ~std::uintptr_t{63});
}

}  // namespace

// Cuts the rows into tasks. Where an entry has few rows (decode), the segments of its history are
// spread over the threads; the parts merge in ascending order either way, so the bits are the same.
void Forward::plan_attention(int layer) {
  const LayerConfig& config = config_->layers[static_cast<std::size_t>(layer)];
  const int group = config.heads / config.kv_heads;
  const int tokens_per_task = std::max(1, kAttentionRows / group);
  const std::size_t state_floats = kernels::attention_state_floats(config.value_dim);
  attention_tasks_.clear();
  split_tasks_.clear();
  std::size_t states = 0;
  for (std::size_t entry = 0; entry < entries_.size(); entry++) {
    const int tokens = entry_rows_[entry].count;
    for (int first = 0; first < tokens; first += tokens_per_task) {
      AttentionTask task;
      task.entry = static_cast<int>(entry);
      task.first_row = entry_rows_[entry].first + first;
      task.tokens = std::min(tokens_per_task, tokens - first);
      const Position begin =
          config.span.first_visible(row_info_[static_cast<std::size_t>(task.first_row)].position);
      const Position last =
          row_info_[static_cast<std::size_t>(task.first_row + task.tokens - 1)].position;
      const int first_segment = static_cast<int>(begin / kernels::kSegmentPositions);
      task.segments = static_cast<int>(last / kernels::kSegmentPositions) - first_segment + 1;
      const bool split = task.tokens == tokens && task.segments > 1 && pool_->threads() > 1 &&
                         config.kv_heads * static_cast<int>(entries_.size()) < 4 * pool_->threads();
      for (task.kv_head = 0; task.kv_head < config.kv_heads; task.kv_head++) {
        if (!split) {
          attention_tasks_.push_back(task);
          continue;
        }
        task.state = states;
        split_tasks_.push_back(task);
        for (int i = 0; i < task.segments; i++) {
          AttentionTask part = task;
          part.segment = first_segment + i;
          part.state = states;
          attention_tasks_.push_back(part);
          states += state_floats * static_cast<std::size_t>(task.tokens * group);
        }
      }
    }
  }
  // Sixteen floats of slack so that the states can start at a 64-byte boundary.
  if (split_states_.size() < states + 16) split_states_.resize(states + 16);
}

void Forward::attend(int layer) {
  if (layer == last_kv_layer_) keep_wanted_rows();
  plan_attention(layer);
  pool_->parallel_for(static_cast<int>(attention_tasks_.size()), [&](int task, int worker) {
    run_attention(layer, attention_tasks_[static_cast<std::size_t>(task)], worker);
  });
  for (const AttentionTask& task : split_tasks_) merge_split(layer, task);
}

kernels::KvBlocks Forward::blocks_of(int layer, const AttentionTask& task) const {
  const SequenceCache& cache = *entries_[static_cast<std::size_t>(task.entry)].cache;
  const LayerPlace place = cache.layout().layers[static_cast<std::size_t>(kv_layer(layer))];
  const SpanGroup& group = cache.layout().groups[static_cast<std::size_t>(place.group)];
  return {cache.pages(place.group), group.block_offset(place.index, task.kv_head), group.shape};
}

// Copies the task's queries side by side and says what each may see. Returns the number of rows.
int Forward::gather_queries(int layer, const AttentionTask& task, float* queries,
                            kernels::VisibleRange* visible) const {
  const LayerConfig& config = config_->layers[static_cast<std::size_t>(layer)];
  const int group = config.heads / config.kv_heads;
  const int columns = group * config.head_dim;
  int rows = 0;
  for (int token = 0; token < task.tokens; token++) {
    const int row = task.first_row + token;
    const Position position = row_info_[static_cast<std::size_t>(row)].position;
    std::copy_n(query(row) + task.kv_head * columns, columns, queries + token * columns);
    for (int head = 0; head < group; head++) {
      visible[rows++] = {static_cast<std::int32_t>(config.span.first_visible(position)),
                         static_cast<std::int32_t>(position)};
    }
  }
  return rows;
}

void Forward::scatter_outputs(int layer, const AttentionTask& task, const float* states) const {
  const LayerConfig& config = config_->layers[static_cast<std::size_t>(layer)];
  const int group = config.heads / config.kv_heads;
  const std::size_t token_floats =
      kernels::attention_state_floats(config.value_dim) * static_cast<std::size_t>(group);
  for (int token = 0; token < task.tokens; token++) {
    float* out = attended(task.first_row + token) + task.kv_head * group * config.value_dim;
    kernels_->finish_states(config.value_dim, group,
                            states + static_cast<std::size_t>(token) * token_floats, out,
                            static_cast<std::size_t>(config.value_dim));
  }
}

void Forward::run_attention(int layer, const AttentionTask& task, int worker) {
  const LayerConfig& config = config_->layers[static_cast<std::size_t>(layer)];
  const int group = config.heads / config.kv_heads;
  const auto rows_most = static_cast<std::size_t>(task.tokens * group);
  const std::size_t state_floats = kernels::attention_state_floats(config.value_dim) * rows_most;
  float* totals = aligned_floats(worker_scratch(worker));
  float* parts = totals + state_floats;
  float* queries = parts + state_floats;
  auto* visible = reinterpret_cast<kernels::VisibleRange*>(
      queries + rows_most * static_cast<std::size_t>(config.head_dim));
  const int rows = gather_queries(layer, task, queries, visible);
  const kernels::KvBlocks blocks = blocks_of(layer, task);
  const auto stride = static_cast<std::size_t>(config.head_dim);
  if (task.segment >= 0) {
    kernels_->attend_segment(blocks, rows, queries, stride, visible, task.segment,
                             aligned_floats(split_states_.data()) + task.state);
    return;
  }
  kernels_->clear_states(config.value_dim, rows, totals);
  const int first = visible[0].first / kernels::kSegmentPositions;
  for (int segment = first; segment < first + task.segments; segment++) {
    kernels_->attend_segment(blocks, rows, queries, stride, visible, segment, parts);
    kernels_->merge_states(config.value_dim, rows, totals, parts);
  }
  scatter_outputs(layer, task, totals);
}

void Forward::merge_split(int layer, const AttentionTask& task) {
  const LayerConfig& config = config_->layers[static_cast<std::size_t>(layer)];
  const int rows = task.tokens * (config.heads / config.kv_heads);
  const std::size_t state_floats =
      kernels::attention_state_floats(config.value_dim) * static_cast<std::size_t>(rows);
  float* totals = aligned_floats(worker_scratch(0));
  kernels_->clear_states(config.value_dim, rows, totals);
  const float* parts = aligned_floats(split_states_.data()) + task.state;
  for (int i = 0; i < task.segments; i++) {
    kernels_->merge_states(config.value_dim, rows, totals,
                           parts + static_cast<std::size_t>(i) * state_floats);
  }
  scatter_outputs(layer, task, totals);
}

}  // namespace reprise
