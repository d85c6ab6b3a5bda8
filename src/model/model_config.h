// What a model is, in one canonical form for all families and file formats. Validated by its maker.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "kernels/kernels.h"
#include "kv/kv_layout.h"

namespace reprise {

// Rotary embedding of one layer: inverse frequencies already scaled (linear, llama3 ...), so that
// the angle of pair i at position p is p * inverse_frequencies[i]. Empty: the layer has none
// (NoPE).
struct RopeConfig {
  kernels::RopeLayout layout = kernels::RopeLayout::half_split;
  std::vector<double> inverse_frequencies;  // rotary_dim / 2 of them
  double scale = 1.0;                       // of cos and sin (yarn's attention factor)

  int rotary_dim() const { return static_cast<int>(inverse_frequencies.size()) * 2; }
  bool operator==(const RopeConfig&) const = default;
};

struct LayerConfig {
  LayerSpan span;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int value_dim = 0;
  float attention_scale = 0;  // of q before the scores
  int rope = -1;              // index into ModelConfig::ropes; -1: none
  int kv_source = -1;         // the earlier layer whose keys and values it reads; -1: its own
  int feed_forward = 0;       // width of the dense feed-forward (or of the shared expert)
  bool has_experts = false;
  bool value_is_key = false;  // values are what the key projection gives, before norm and RoPE
};

// Mixture of experts; `count` 0: none.
struct ExpertConfig {
  int count = 0;
  int used = 0;                     // per token
  int feed_forward = 0;             // width of one
  bool has_sigmoid_scores = false;  // of the router's outputs; else softmax over all
  bool normalises = true;           // the weights of a token's experts are made to sum to 1
  float weight_scale = 1;           // of the weights, last
};

// Of a gated feed-forward: gelu_tanh is gelu_pytorch_tanh, gelu the exact form.
enum class Activation : std::uint8_t { silu, gelu_tanh, gelu };

struct ModelConfig {
  std::string family;        // snapshot tag: "gemma3", "llama"
  std::string architecture;  // the files' word for it
  std::string name;          // for people
  int vocabulary = 0;        // rows of the output head that have a token
  int hidden = 0;
  Position context_length = 0;  // trained context
  float norm_epsilon = 0;
  float post_norm_epsilon = 0;  // of norms after a block; as norm_epsilon in most families
  float embedding_scale = 1;
  float logit_scale = 1;    // before the softcap
  float final_softcap = 0;  // 0: none
  Activation activation = Activation::silu;
  bool tied_embeddings = false;
  bool has_attention_gate = false;  // attention output times sigmoid of a projection
  int layer_input = 0;              // width of Gemma 4's per-layer inputs; 0: none
  int layer_input_rows = 0;         // of their table; tokens beyond it take row 0
  float layer_input_scale = 1;      // of the table's rows
  bool has_query_key_norm = false;  // Llama 4: norm of queries and keys after RoPE, no weight
  // Llama 4: layers without RoPE scale the queries of position p by
  // 1 + temperature_scale * ln(1 + floor((p + 1) / temperature_length)); scale 0: none.
  double temperature_scale = 0, temperature_length = 1;
  ExpertConfig experts;
  std::vector<TokenId> suppressed;  // ids that are never sampled: their logits are -infinity
  std::vector<RopeConfig> ropes;    // distinct ones
  std::vector<LayerConfig> layers;

  const LayerConfig& layer(std::size_t index) const { return layers[index]; }
  // The last layer with keys and values of its own: behind it only rows matter whose logits are
  // wanted.
  int last_kv_layer() const;
  KvLayout kv_layout(kernels::KvType type) const;
};

}  // namespace reprise
