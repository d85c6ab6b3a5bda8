// Gemma 4 (text): sandwich norms, normalised values, shared keys and values, per-layer inputs, a
// scale at each layer's end, and in one model experts beside the dense feed-forward.
// Source: transformers modeling_gemma4.py.
#include <algorithm>
#include <cmath>

#include "model/common_config.h"
#include "model/family_blocks.h"
#include "model/gemma4_config.h"

namespace reprise {
namespace {

// The block's own mixture of experts, whose router sees the residual stream.
struct Experts {
  std::vector<float> router_norm;  // scale / sqrt(hidden)
  std::vector<float> scales;       // of each expert's weight
  std::vector<float> norm, post_norm, post_dense_norm;
  Linear router;
  ExpertWeights weights;
};

// What a token's own vector adds to a block.
struct LayerInput {
  Linear gate, projection;
  std::vector<float> post_norm;
};

struct Layer {
  std::vector<float> attention_norm, post_attention_norm, ffn_norm, post_ffn_norm;
  std::vector<float> query_norm, key_norm;
  AttentionWeights attention;
  FeedForwardWeights feed_forward;
  Experts experts;
  LayerInput input;
  float scale = 1;  // of the stream, last
};

// The vectors of all layers for one token: rows of a table, and a projection of its embedding.
struct LayerInputTable {
  StoredMatrix table;       // [rows, layers * layer_input], in the mapped file
  Linear projection;        // [layers * layer_input, hidden]
  std::vector<float> norm;  // [layer_input]
  float scale = 1;          // of the table's rows
};

class Gemma4 : public Family {
 public:
  Gemma4(std::vector<Layer> layers, LayerInputTable inputs)
      : layers_(std::move(layers)), inputs_(std::move(inputs)) {}

  void begin(Forward& pass) const override;
  void run_layer(int layer, Forward& pass) const override;

 private:
  void run_attention(int layer, const Layer& weights, Forward& pass) const;
  void add_experts(const Experts& weights, Forward& pass) const;
  void add_layer_input(int layer, const Layer& weights, Forward& pass) const;

  std::vector<Layer> layers_;
  LayerInputTable inputs_;
};

// layer_inputs = (norm(projection * embedding / sqrt(hidden)) + scaled row of the table) / sqrt(2).
void Gemma4::begin(Forward& pass) const {
  const ModelConfig& config = pass.config();
  if (config.layer_input == 0) return;
  const auto layers = static_cast<int>(config.layers.size());
  const int columns = layers * config.layer_input;
  const auto inverse_root = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.hidden)));
  const auto half_root = static_cast<float>(std::sqrt(0.5));
  pass.project(pass.hidden_rows(), config.hidden, [](int) {},
               {{&inputs_.projection, &pass.layer_input_rows()}});
  pass.for_each_row([&](int row) {
    float* inputs = pass.layer_inputs(row);
    pass.scale(inputs, inverse_root, columns);
    pass.norm_heads(inputs, layers, config.layer_input, inputs_.norm);
    // A token without a row of its own takes that of padding.
    const int token = pass.token(row) < inputs_.table.shape.rows ? pass.token(row) : 0;
    std::vector<float> stored(static_cast<std::size_t>(columns));
    inputs_.table.read_row(token, stored.data());
    pass.scale(stored.data(), inputs_.scale, columns);
    pass.add(inputs, stored.data(), columns);
    pass.scale(inputs, half_root, columns);
  });
}

// branch = attention of the normed stream.
void Gemma4::run_attention(int layer, const Layer& w, Forward& pass) const {
  const LayerConfig& shape = pass.layer(layer);
  pass.project(pass.normed_rows(), pass.config().hidden,
               [&](int row) { pass.norm(pass.hidden(row), w.attention_norm, pass.normed(row)); },
               {{&w.attention.query, &pass.query_rows()},
                {&w.attention.key, &pass.key_rows()},
                {&w.attention.value, &pass.value_rows()}});
  pass.for_each_row([&](int row) {
    pass.norm_heads(pass.query(row), shape.heads, shape.head_dim, w.query_norm);
    if (shape.kv_source < 0) {
      if (shape.value_is_key) {
        std::copy_n(pass.key(row), shape.kv_heads * shape.head_dim, pass.value(row));
      }
      pass.norm_heads(pass.key(row), shape.kv_heads, shape.head_dim, w.key_norm);
      pass.norm_heads(pass.value(row), shape.kv_heads, shape.value_dim, {});
    }
    pass.rotate(layer, row);
    pass.store(layer, row);
  });
  attend_and_project(pass, layer, w.attention);
}

// branch = norm(dense feed-forward's branch) + norm(experts of the stream).
void Gemma4::add_experts(const Experts& w, Forward& pass) const {
  const ModelConfig& config = pass.config();
  pass.project(pass.normed_rows(), config.hidden,
               [&](int row) { pass.norm(pass.hidden(row), w.router_norm, pass.normed(row)); },
               {{&w.router, &pass.router_rows()}});
  pass.for_each_row([&](int row) {
    const std::span scores(pass.router(row), static_cast<std::size_t>(config.experts.count));
    const std::span<ExpertChoice> chosen = pass.choices(row);
    softmax(scores);
    choose_experts(scores, chosen);
    for (ExpertChoice& choice : chosen) {
      choice.weight = scores[static_cast<std::size_t>(choice.expert)];
    }
    normalise_weights(chosen, 0);
    for (ExpertChoice& choice : chosen) {
      choice.weight *= w.scales[static_cast<std::size_t>(choice.expert)];
    }
    pass.norm(pass.hidden(row), w.norm, pass.normed(row));
  });
  pass.run_experts(w.weights, pass.config().activation, pass.normed_rows());
  pass.for_each_row([&](int row) {
    pass.norm(pass.branch(row), w.post_dense_norm, pass.branch(row));
    pass.norm(pass.expert_sum(row), w.post_norm, pass.expert_sum(row));
    pass.add(pass.branch(row), pass.expert_sum(row), config.hidden);
  });
}

// hidden += norm(feed-forward's branch); then hidden += norm(proj(gelu(gate(hidden)) * input)).
void Gemma4::add_layer_input(int layer, const Layer& w, Forward& pass) const {
  const ModelConfig& config = pass.config();
  const auto end_feed_forward = [&](int row) {
    pass.norm(pass.branch(row), w.post_ffn_norm, pass.branch(row));
    pass.add(pass.hidden(row), pass.branch(row), config.hidden);
  };
  if (config.layer_input == 0) {
    pass.for_each_row([&](int row) {
      end_feed_forward(row);
      pass.scale(pass.hidden(row), w.scale, config.hidden);
    });
    return;
  }
  pass.project(pass.hidden_rows(), config.hidden, end_feed_forward,
               {{&w.input.gate, &pass.gate_rows()}});
  pass.project(pass.gate_rows(), config.layer_input,
               [&](int row) {
                 pass.activate(pass.config().activation, pass.gate(row),
                               pass.layer_inputs(row) + layer * config.layer_input,
                               config.layer_input);
               },
               {{&w.input.projection, &pass.branch_rows()}});
  pass.for_each_row([&](int row) {
    pass.norm(pass.branch(row), w.input.post_norm, pass.branch(row));
    pass.add(pass.hidden(row), pass.branch(row), config.hidden);
    pass.scale(pass.hidden(row), w.scale, config.hidden);
  });
}

void Gemma4::run_layer(int layer, Forward& pass) const {
  const Layer& w = layers_[static_cast<std::size_t>(layer)];
  run_attention(layer, w, pass);
  pass.feed_forward(w.feed_forward, pass.config().activation, [&](int row) {
    pass.norm(pass.branch(row), w.post_attention_norm, pass.branch(row));
    pass.add(pass.hidden(row), pass.branch(row), pass.config().hidden);
    pass.norm(pass.hidden(row), w.ffn_norm, pass.normed(row));
  });
  if (pass.layer(layer).has_experts) add_experts(w.experts, pass);
  add_layer_input(layer, w, pass);
}

Result<Experts> bind_layer_experts(const ModelConfig& config, std::size_t layer,
                                   WeightLoader& loader) {
  const int count = config.experts.count;
  Experts experts;
  TRY_ASSIGN(experts.norm, bind_norm(layer, "pre_ffw_norm_2", config.hidden, loader));
  TRY_ASSIGN(experts.post_dense_norm, bind_norm(layer, "post_ffw_norm_1", config.hidden, loader));
  TRY_ASSIGN(experts.post_norm, bind_norm(layer, "post_ffw_norm_2", config.hidden, loader));
  TRY_ASSIGN(experts.router_norm,
             loader.vector(block_name(layer, "ffn_gate_inp.scale"), config.hidden));
  const double root = std::sqrt(static_cast<double>(config.hidden));
  for (float& scale : experts.router_norm) scale = static_cast<float>(scale / root);
  TRY_ASSIGN(experts.scales, loader.vector(block_name(layer, "ffn_down_exps.scale"), count));
  TRY_ASSIGN(experts.router,
             loader.float_linear(block_name(layer, "ffn_gate_inp"), count, config.hidden));
  TRY_ASSIGN(experts.weights, bind_experts(config, layer, loader));
  return experts;
}

Result<LayerInput> bind_layer_input(const ModelConfig& config, std::size_t layer,
                                    WeightLoader& loader) {
  LayerInput input;
  TRY_ASSIGN(input.gate,
             loader.linear(block_name(layer, "inp_gate"), config.layer_input, config.hidden));
  TRY_ASSIGN(input.projection,
             loader.linear(block_name(layer, "proj"), config.hidden, config.layer_input));
  TRY_ASSIGN(input.post_norm, bind_norm(layer, "post_norm", config.hidden, loader));
  return input;
}

Result<Layer> bind_layer(const ModelConfig& config, std::size_t index, WeightLoader& loader) {
  const LayerConfig& shape = config.layers[index];
  const auto norm = [&](std::string_view name, int size) {
    return bind_norm(index, name, size, loader);
  };
  Layer layer;
  TRY_ASSIGN(layer.attention_norm, norm("attn_norm", config.hidden));
  TRY_ASSIGN(layer.post_attention_norm, norm("post_attention_norm", config.hidden));
  TRY_ASSIGN(layer.ffn_norm, norm("ffn_norm", config.hidden));
  TRY_ASSIGN(layer.post_ffn_norm, norm("post_ffw_norm", config.hidden));
  TRY_ASSIGN(layer.query_norm, norm("attn_q_norm", shape.head_dim));
  if (shape.kv_source < 0) {
    TRY_ASSIGN(layer.key_norm, norm("attn_k_norm", shape.head_dim));
  }
  TRY_ASSIGN(layer.attention, bind_attention(config, index, loader));
  TRY_ASSIGN(layer.feed_forward, bind_feed_forward(config, index, loader, shape.feed_forward));
  if (shape.has_experts) {
    TRY_ASSIGN(layer.experts, bind_layer_experts(config, index, loader));
  }
  if (config.layer_input > 0) {
    TRY_ASSIGN(layer.input, bind_layer_input(config, index, loader));
  }
  // GGUF files may leave it out.
  const std::string scale = block_name(index, "layer_output_scale.weight");
  if (!loader.is_gguf() || loader.has(scale)) {
    TRY_ASSIGN(const std::vector<float> value, loader.vector(scale, 1));
    layer.scale = value[0];
  }
  return layer;
}

Result<LayerInputTable> bind_layer_inputs(const ModelConfig& config, WeightLoader& loader) {
  const int columns = static_cast<int>(config.layers.size()) * config.layer_input;
  LayerInputTable inputs;
  TRY_ASSIGN(inputs.table,
             loader.lookup_table("per_layer_token_embd",
                                 std::min(config.vocabulary, config.layer_input_rows), columns));
  TRY_ASSIGN(inputs.projection, loader.linear("per_layer_model_proj", columns, config.hidden));
  TRY_ASSIGN(inputs.norm, loader.vector("per_layer_proj_norm.weight", config.layer_input));
  inputs.scale = config.layer_input_scale;
  return inputs;
}

Result<std::unique_ptr<Family>> bind(const ModelConfig& config, WeightLoader& loader) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    TRY_ASSIGN(Layer layer, bind_layer(config, i, loader));
    layers.push_back(std::move(layer));
  }
  LayerInputTable inputs;
  if (config.layer_input > 0) {
    TRY_ASSIGN(inputs, bind_layer_inputs(config, loader));
  }
  std::unique_ptr<Family> family = std::make_unique<Gemma4>(std::move(layers), std::move(inputs));
  TRY(bind_common(config, loader, *family));
  return family;
}

}  // namespace

const FamilyEntry kGemma4Family = {
    "gemma4",
    "gemma4",
    {"gemma4_text", "gemma4", "gemma4_unified", "gemma4_unified_text"},
    kGemma4Names,
    read_gemma4_config,
    bind};

}  // namespace reprise
