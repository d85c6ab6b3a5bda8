// Gemma 3 (text): sandwich norms, query and key norms, gated GELU, windows with every sixth layer
// full. Source: transformers modeling_gemma3.py; GGUF norms already carry the "+1".
#include <cmath>

#include <fmt/core.h>

#include "model/common_config.h"
#include "model/family_blocks.h"
#include "model/rope_settings.h"

namespace reprise {
namespace {

constexpr double kGlobalTheta = 1e6, kLocalTheta = 1e4;
// Multimodal folders store only what differs from transformers' defaults.
constexpr ConfigDefaults kDefaults = {.hidden = 2304,
                                      .feed_forward = 9216,
                                      .layers = 26,
                                      .heads = 8,
                                      .kv_heads = 4,
                                      .head_dim = 256,
                                      .context = 131072,
                                      .epsilon = 1e-6};
constexpr TensorName kNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

struct Layer {
  std::vector<float> attention_norm, post_attention_norm, ffn_norm, post_ffn_norm;
  std::vector<float> query_norm, key_norm;
  AttentionWeights attention;
  FeedForwardWeights feed_forward;
};

class Gemma3 : public Family {
 public:
  explicit Gemma3(std::vector<Layer> layers) : layers_(std::move(layers)) {}

  void run_layer(int layer, Forward& pass) const override {
    const Layer& w = layers_[static_cast<std::size_t>(layer)];
    const int hidden = pass.config().hidden;
    const LayerConfig& shape = pass.layer(layer);
    pass.project(pass.normed_rows(), hidden,
                 [&](int row) { pass.norm(pass.hidden(row), w.attention_norm, pass.normed(row)); },
                 {{&w.attention.query, &pass.query_rows()},
                  {&w.attention.key, &pass.key_rows()},
                  {&w.attention.value, &pass.value_rows()}});
    pass.for_each_row([&](int row) {
      pass.norm_heads(pass.query(row), shape.heads, shape.head_dim, w.query_norm);
      pass.norm_heads(pass.key(row), shape.kv_heads, shape.head_dim, w.key_norm);
      pass.rotate(layer, row);
      pass.store(layer, row);
    });
    attend_and_project(pass, layer, w.attention);
    pass.feed_forward(w.feed_forward, pass.config().activation, [&](int row) {
      pass.norm(pass.branch(row), w.post_attention_norm, pass.branch(row));
      pass.add(pass.hidden(row), pass.branch(row), hidden);
      pass.norm(pass.hidden(row), w.ffn_norm, pass.normed(row));
    });
    pass.for_each_row([&](int row) {
      pass.norm(pass.branch(row), w.post_ffn_norm, pass.branch(row));
      pass.add(pass.hidden(row), pass.branch(row), hidden);
    });
  }

 private:
  std::vector<Layer> layers_;
};

// q is scaled by query_pre_attn_scalar^-1/2. GGUF does not state it: the head dim, but for the 27B
// model (62 layers) hidden / heads.
Result<double> query_scalar(const Settings& settings, const ModelConfig& config) {
  const LayerConfig& first = config.layers[0];
  if (!settings.is_gguf()) return settings.number_or({"", "query_pre_attn_scalar"}, 256);
  return config.layers.size() == 62 ? config.hidden / first.heads : first.head_dim;
}

Result<ModelConfig> read_config(const Settings& settings) {
  TRY(refuse_flag(settings, "use_bidirectional_attention"));
  TRY_ASSIGN(
      ModelConfig config,
      read_common_config(settings, "gemma3", settings.is_gguf() ? ConfigDefaults() : kDefaults));
  TRY_ASSIGN(config.activation,
             read_activation(settings, "hidden_activation", Activation::gelu_tanh));
  const int head_dim = config.layers[0].head_dim;
  TRY_ASSIGN(const int window,
             settings.integer({"attention.sliding_window", "sliding_window"}, 1, 1 << 30));
  TRY_ASSIGN(const std::vector<bool> full,
             read_full_layers(settings, static_cast<int>(config.layers.size()), "sliding_attention",
                              [](int layer, int) { return (layer + 1) % 6 == 0; }));
  TRY_ASSIGN(const RopeSettings global,
             read_rope_settings(settings, "full_attention", kGlobalTheta));
  RopeSettings local;
  TRY_ASSIGN(local.theta,
             settings.number_or({"rope.freq_base_swa", "rope_local_base_freq"}, kLocalTheta));
  if (settings.json("rope_parameters") != nullptr) {
    TRY_ASSIGN(local, read_rope_settings(settings, "sliding_attention", local.theta));
  }
  TRY_ASSIGN(const double softcap,
             settings.number_or({"final_logit_softcapping", "final_logit_softcapping"}, 0));
  TRY_ASSIGN(const double scalar, query_scalar(settings, config));
  TRY_ASSIGN(const double scale,
             settings.number_or({"attention.scale", ""}, 1.0 / std::sqrt(scalar)));
  config.final_softcap = static_cast<float>(softcap);
  config.embedding_scale =
      checkpoint_scalar(settings, std::sqrt(static_cast<double>(config.hidden)));
  TRY_ASSIGN(RopeConfig local_rope,
             make_rope(local, head_dim, kernels::RopeLayout::half_split, config.context_length));
  TRY_ASSIGN(RopeConfig global_rope,
             make_rope(global, head_dim, kernels::RopeLayout::half_split, config.context_length));
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    LayerConfig& layer = config.layers[i];
    layer.span = full[i] ? LayerSpan{SpanKind::standard, 0} : LayerSpan{SpanKind::rotating, window};
    layer.attention_scale = static_cast<float>(scale);
    layer.rope = add_rope(config, full[i] ? global_rope : local_rope);
  }
  return config;
}

Result<std::unique_ptr<Family>> bind(const ModelConfig& config, WeightLoader& loader) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    const LayerConfig& shape = config.layers[i];
    const auto norm = [&](std::string_view name, int size) {
      return bind_norm(i, name, size, loader, true);
    };
    Layer layer;
    TRY_ASSIGN(layer.attention_norm, norm("attn_norm", config.hidden));
    TRY_ASSIGN(layer.post_attention_norm, norm("post_attention_norm", config.hidden));
    TRY_ASSIGN(layer.ffn_norm, norm("ffn_norm", config.hidden));
    TRY_ASSIGN(layer.post_ffn_norm, norm("post_ffw_norm", config.hidden));
    TRY_ASSIGN(layer.query_norm, norm("attn_q_norm", shape.head_dim));
    TRY_ASSIGN(layer.key_norm, norm("attn_k_norm", shape.head_dim));
    TRY_ASSIGN(layer.attention, bind_attention(config, i, loader));
    TRY_ASSIGN(layer.feed_forward, bind_feed_forward(config, i, loader, shape.feed_forward));
    layers.push_back(std::move(layer));
  }
  std::unique_ptr<Family> family = std::make_unique<Gemma3>(std::move(layers));
  TRY(bind_common(config, loader, *family, true));
  return family;
}

}  // namespace

const FamilyEntry kGemma3Family = {"gemma3", "gemma3",    {"gemma3_text", "gemma3"},
                                   kNames,   read_config, bind};

}  // namespace reprise
