// One forward pass: the rows of a batch, their buffers, and the building blocks that families wire.
// Rows are independent everywhere but in attend(), so every block may cut them among threads at
// will.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "model/decoder.h"
#include "model/experts.h"
#include "model/model_config.h"
#include "model/row_buffer.h"
#include "model/weights.h"

namespace reprise {

// Rows of queries (tokens times heads of a group) of one attention task.
inline constexpr int kAttentionRows = 48;

// A gated feed-forward: down(act(gate(x)) * up(x)).
struct FeedForwardWeights {
  Linear gate, up, down;
};

// One product of a projection: out = weights * x + bias for all rows.
struct Projection {
  const Linear* weights = nullptr;
  const RowBuffer* out = nullptr;

  bool is_empty() const { return weights == nullptr || weights->matrix.rows == 0; }
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

  // ---- one row, for families
  const ModelConfig& config() const { return *config_; }
  const LayerConfig& layer(int index) const {
    return config_->layers[static_cast<std::size_t>(index)];
  }
  TokenId token(int row) const { return row_info_[static_cast<std::size_t>(row)].token; }
  Position position(int row) const { return row_info_[static_cast<std::size_t>(row)].position; }

  float* hidden(int row) const { return hidden_.row(row); }      // [hidden] the residual stream
  float* normed(int row) const { return normed_.row(row); }      // [hidden] input of a projection
  float* branch(int row) const { return branch_.row(row); }      // [hidden] a block's output
  float* query(int row) const { return query_.row(row); }        // [heads * head_dim]
  float* key(int row) const { return key_.row(row); }            // [kv_heads * head_dim]
  float* value(int row) const { return value_.row(row); }        // [kv_heads * value_dim]
  float* attended(int row) const { return attended_.row(row); }  // [heads * value_dim]
  float* gate(int row) const { return gate_.row(row); }          // [feed_forward]
  float* up(int row) const { return up_.row(row); }              // [feed_forward]
  // With ModelConfig::has_attention_gate [heads * value_dim], experts.count [experts] and [hidden],
  // layer_input [layers * layer_input]:
  float* attention_gate(int row) const { return attention_gate_.row(row); }
  float* router(int row) const { return router_.row(row); }
  float* expert_sum(int row) const { return expert_sum_.row(row); }
  float* layer_inputs(int row) const { return layer_inputs_.row(row); }
  const RowBuffer& hidden_rows() const { return hidden_; }
  const RowBuffer& normed_rows() const { return normed_; }
  const RowBuffer& branch_rows() const { return branch_; }
  const RowBuffer& query_rows() const { return query_; }
  const RowBuffer& key_rows() const { return key_; }
  const RowBuffer& value_rows() const { return value_; }
  const RowBuffer& attended_rows() const { return attended_; }
  const RowBuffer& gate_rows() const { return gate_; }
  const RowBuffer& up_rows() const { return up_; }
  const RowBuffer& attention_gate_rows() const { return attention_gate_; }
  const RowBuffer& router_rows() const { return router_; }
  const RowBuffer& layer_input_rows() const { return layer_inputs_; }

  // ---- building blocks
  // For every row: prepare(row) fills the row of `x` [columns]; then all `products` of x. A product
  // without weights (an empty matrix) is left out.
  template <class Prepare>
  void project(const RowBuffer& x, int columns, Prepare&& prepare,
               std::initializer_list<Projection> products) {
    pool_->parallel_for(tiles(), [&](int tile, int) {
      for (int row = tile * kernels::kTileRows; row < end_of_tile(tile); row++) prepare(row);
      convert_tile(tile, x, columns, products);
    });
    multiply(products);
  }

  // Calls run(row) for every row.
  template <class Run>
  void for_each_row(Run&& run) {
    pool_->parallel_for(tiles(), [&](int tile, int) {
      for (int row = tile * kernels::kTileRows; row < end_of_tile(tile); row++) run(row);
    });
  }

  // out = rms_norm(x) * weight over [columns]; out may be x. Without epsilon: the configuration's.
  void norm(const float* x, std::span<const float> weight, float* out) const {
    norm(x, weight, config_->norm_epsilon, out);
  }
  void norm(const float* x, std::span<const float> weight, float epsilon, float* out) const;
  // The same for each of `heads` heads of [head_dim] floats, in place; an empty weight is ones.
  void norm_heads(float* x, int heads, int head_dim, std::span<const float> weight) const;
  void add(float* x, const float* y, int columns) const {
    kernels_->add(x, y, static_cast<std::size_t>(columns));
  }
  void scale(float* x, float factor, int columns) const {
    kernels_->scale(x, factor, static_cast<std::size_t>(columns));
  }
  void multiply_by(float* x, const float* y, int columns) const {
    kernels_->multiply(x, y, static_cast<std::size_t>(columns));
  }
  // gate = act(gate) * up
  void activate(Activation activation, float* gate, const float* up, int columns) const;
  // x = x * sigmoid(gate)
  void sigmoid_multiply(float* x, const float* gate, int columns) const {
    kernels_->sigmoid_multiply(x, gate, static_cast<std::size_t>(columns));
  }
  // Rotates the row's queries, and its keys where the layer has its own, as the layer's RopeConfig
  // says (nothing when it has none).
  void rotate(int layer, int row) const;
  // Scales the row's queries; writes its keys and values to their places in the cache where the
  // layer has its own.
  void store(int layer, int row);
  // Attention of all rows over the keys and values of their sequences -> attended rows. In the last
  // layer that has its own only rows whose logits are wanted go on: the buffers shrink to them.
  void attend(int layer);
  // branch = down(act(gate(x)) * up(x)); prepare(row) fills the row of normed_rows().
  template <class Prepare>
  void feed_forward(const FeedForwardWeights& weights, Activation activation, Prepare&& prepare,
                    std::initializer_list<Projection> more = {}) {
    project(normed_, config_->hidden, prepare,
            {{&weights.gate, &gate_}, {&weights.up, &up_}, at(more, 0), at(more, 1)});
    const int width = weights.gate.matrix.rows;
    project(gate_, width, [&](int row) { activate(activation, gate(row), up(row), width); },
            {{&weights.down, &branch_}});
  }
  // The row's expert choices, to be filled before run_experts.
  std::span<ExpertChoice> choices(int row) { return experts_->choices(row); }
  // expert_sum(row) = what the row's experts make of its row of `input` [hidden].
  void run_experts(const ExpertWeights& weights, Activation activation, const RowBuffer& input) {
    experts_->run(weights, activation, input, expert_sum_, rows_);
  }

 private:
  struct EntryRows {
    int first = 0;
    int count = 0;
  };
  struct Row {
    int entry = 0;
    TokenId token = 0;
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
  void end_finite_rows(std::size_t row);
  void lay_out_rows(std::span<BatchEntry> entries);
  void embed();
  std::span<const float> compute_logits();
  void convert_tile(int tile, const RowBuffer& x, int columns,
                    std::initializer_list<Projection> products);
  void multiply(std::initializer_list<Projection> products);
  static Projection at(std::initializer_list<Projection> list, std::size_t index) {
    return index < list.size() ? list.begin()[index] : Projection();
  }
  // The layer whose keys and values `layer` reads.
  int kv_layer(int layer) const {
    const int source = this->layer(layer).kv_source;
    return source >= 0 ? source : layer;
  }
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
  int last_kv_layer_;

  std::span<BatchEntry> entries_;
  std::vector<EntryRows> entry_rows_;
  std::vector<Row> row_info_;
  int rows_ = 0;

  RowBuffer hidden_, normed_, query_, key_, value_, attended_, branch_, gate_, up_, logits_;
  RowBuffer attention_gate_, router_, expert_sum_, layer_inputs_;
  std::vector<RowBuffer> cosines_, sines_;  // per rope of the configuration
  MemoryBlock activations_[kernels::kActivationFormats];
  MemoryBlock scratch_;  // per worker
  std::size_t scratch_stride_ = 0;
  std::optional<ExpertPass> experts_;
  std::vector<AttentionTask> attention_tasks_;  // what threads run
  std::vector<AttentionTask> split_tasks_;  // whole tasks whose segments were split among threads
  std::vector<float> split_states_;
  std::vector<std::uint8_t> finite_;  // per row: its keys and values of every layer
};

}  // namespace reprise
