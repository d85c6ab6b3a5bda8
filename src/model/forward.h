// One forward pass: the rows of a batch, their buffers, and the building blocks that families wire.
// Rows are independent everywhere but in attend(), so every block may cut them among threads at
// will.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "model/decoder.h"
#include "model/model_config.h"
#include "model/weights.h"

namespace reprise {

// Rows of queries (tokens times heads of a group) of one attention task.
inline constexpr int kAttentionRows = 48;

// A matrix of floats [rows, columns], rows back to back.
class RowBuffer {
 public:
  RowBuffer() = default;
  RowBuffer(int rows, int columns)
      : columns_(columns),
        memory_(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns) *
                sizeof(float)) {}
  float* row(int index) const {
    return reinterpret_cast<float*>(memory_.data()) +
           static_cast<std::size_t>(index) * static_cast<std::size_t>(columns_);
  }
  int columns() const { return columns_; }

 private:
  int columns_ = 0;
  MemoryBlock memory_;
};

// One product of a projection: out = weights * x + bias for all rows.
struct Projection {
  const Linear* weights = nullptr;
  const RowBuffer* out = nullptr;
};

class Forward {
 public:
  Forward(const Model& model, const kernels::KernelTable& kernels, ThreadPool& pool, int rows_max,
          int logit_rows_max);

  // ---- the whole pass (decoder.cpp)
  // --------------------------------------------------------------
  std::span<const float> run(std::span<BatchEntry> entries);
  int rows_max() const { return rows_max_; }
  int logit_rows_max() const { return logit_rows_max_; }

  // ---- buffers of one row, for families
  // ------------------------------------------------------------
  const ModelConfig& config() const { return *config_; }
  float* hidden(int row) const { return hidden_.row(row); }      // [hidden] the residual stream
  float* normed(int row) const { return normed_.row(row); }      // [hidden] input of a projection
  float* attended(int row) const { return attended_.row(row); }  // [heads * value_dim]
  float* branch(int row) const { return branch_.row(row); }      // [hidden] a block's output
  float* gate(int row) const { return gate_.row(row); }          // [feed_forward]
  float* up(int row) const { return up_.row(row); }              // [feed_forward]
  float* query(int row) const { return query_.row(row); }        // [heads * head_dim]
  float* key(int row) const { return key_.row(row); }            // [kv_heads * head_dim]
  const RowBuffer& normed_rows() const { return normed_; }
  const RowBuffer& attended_rows() const { return attended_; }
  const RowBuffer& query_rows() const { return query_; }
  const RowBuffer& key_rows() const { return key_; }
  const RowBuffer& value_rows() const { return value_; }
  const RowBuffer& branch_rows() const { return branch_; }
  const RowBuffer& gate_rows() const { return gate_; }
  const RowBuffer& up_rows() const { return up_; }

  // ---- building blocks
  // ------------------------------------------------------------------------------- For every row:
  // prepare(row) fills the row of `x` [columns]; then all `products` of x.
  template <class Prepare>
  void project(const RowBuffer& x, int columns, Prepare&& prepare,
               std::initializer_list<Projection> products) {
    pool_->parallel_for(tiles(), [&](int tile, int) {
      for (int row = tile * kernels::kTileRows; row < end_of_tile(tile); row++) prepare(row);
      convert_tile(tile, x, columns, products);
    });
    multiply(columns, products);
  }

  // Calls run(row) for every row.
  template <class Run>
  void for_each_row(Run&& run) {
    pool_->parallel_for(tiles(), [&](int tile, int) {
      for (int row = tile * kernels::kTileRows; row < end_of_tile(tile); row++) run(row);
    });
  }

  // out = rms_norm(x) * weight over [columns]; out may be x.
  void norm(const float* x, std::span<const float> weight, float* out) const;
  // The same for each of `heads` heads of [head_dim] floats, in place.
  void norm_heads(float* x, int heads, std::span<const float> weight) const;
  void add(float* x, const float* y, int columns) const {
    kernels_->add(x, y, static_cast<std::size_t>(columns));
  }
  void gelu_tanh_multiply(float* gate, const float* up) const;
  void silu_multiply(float* gate, const float* up) const;
  // Rotates the row's queries and keys as the layer's RopeConfig says (nothing when it has none).
  void rotate(int layer, int row) const;
  // Scales the row's queries and writes its keys and values to their places in the cache.
  void store(int layer, int row);
  // Attention of all rows over the keys and values of their sequences -> attended rows. In the last
  // layer only rows whose logits are wanted go on: the buffers shrink to them.
  void attend(int layer);

 private:
  struct EntryRows {
    int first = 0;
    int count = 0;
  };
  struct Row {
    int entry = 0;
    Position position = 0;
  };
  // A piece of attention work: queries of consecutive rows of one entry that share a kv head.
  struct AttentionTask {
    int entry = 0;
    int first_row = 0;
    int tokens = 0;
    int kv_head = 0;
    int segment = -1;       // -1: all segments; else only this one, into `state`
    int segments = 0;       // of the whole task
    std::size_t state = 0;  // offset into split_states_ (floats)
  };

  int tiles() const { return (rows_ + kernels::kTileRows - 1) / kernels::kTileRows; }
  int end_of_tile(int tile) const {
    const int end = (tile + 1) * kernels::kTileRows;
    return end < rows_ ? end : rows_;
  }
  void keep_wanted_rows();
  void lay_out_rows(std::span<BatchEntry> entries);
  void embed(std::span<BatchEntry> entries);
  std::span<const float> compute_logits(std::span<BatchEntry> entries);
  void convert_tile(int tile, const RowBuffer& x, int columns,
                    std::initializer_list<Projection> products);
  void multiply(int columns, std::initializer_list<Projection> products);
  void multiply_panels(const Projection& product, int panel_begin, int panel_end, int worker);
  std::uint8_t* activations(kernels::ActivationFormat format) const;

  void plan_attention(int layer);
  void run_attention(int layer, const AttentionTask& task, int worker);
  void merge_split(int layer, const AttentionTask& task);
  int gather_queries(int layer, const AttentionTask& task, float* queries,
                     kernels::VisibleRange* visible) const;
  void scatter_outputs(int layer, const AttentionTask& task, const float* states) const;
  kernels::KvBlocks blocks_of(int layer, const AttentionTask& task) const;
  std::uint8_t* worker_scratch(int worker) const;

  const Model* model_;
  const ModelConfig* config_;
  const kernels::KernelTable* kernels_;
  ThreadPool* pool_;
  int rows_max_, logit_rows_max_;

  std::span<BatchEntry> entries_;
  std::vector<EntryRows> entry_rows_;
  std::vector<Row> row_info_;
  int rows_ = 0;

  RowBuffer hidden_, normed_, query_, key_, value_, attended_, branch_, gate_, up_, logits_;
  std::vector<RowBuffer> cosines_, sines_;  // per rope of the configuration
  MemoryBlock activations_[3];              // per ActivationFormat
  MemoryBlock scratch_;                     // per worker
  std::size_t scratch_stride_ = 0;
  std::vector<AttentionTask> attention_tasks_;  // what threads run
  std::vector<AttentionTask> split_tasks_;  // whole tasks whose segments were split among threads
  std::vector<float> split_states_;
  std::vector<std::uint8_t> finite_;  // per row: its keys and values of every layer
};

}  // namespace reprise
