// Muse Glimmer (text): normed embeddings, sandwich norms with an epsilon of their own behind each
// block, queries and keys normed without weights, gated attention, windows with RoPE and full
// layers without. Source: transformers modeling_muse_glimmer.py. Its layer norms are stored as what
// is to be added to 1, its final norm as it is.
#include <cmath>
#include <limits>

#include "model/common_config.h"
#include "model/family_blocks.h"
#include "model/rope_settings.h"

namespace reprise {
namespace {

// Multimodal folders store only what differs from transformers' defaults.
constexpr ConfigDefaults kDefaults = {.hidden = 6656,
                                      .feed_forward = 19968,
                                      .layers = 52,
                                      .heads = 32,
                                      .kv_heads = 2,
                                      .head_dim = 128,
                                      .context = 131072,
                                      .epsilon = 1e-5};
constexpr int kWindow = 2048;
constexpr double kTheta = 1e4;
constexpr double kPostNormEpsilon = 1e-8;
constexpr double kQueryFactor = 3.87;
constexpr double kOutputMultiplier = 0.19611613513818404;
constexpr double kSoftcap = 20;
constexpr TensorName kNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

struct Layer {
  std::vector<float> attention_norm, post_attention_norm, ffn_norm, post_ffn_norm;
  AttentionWeights attention;
  Linear attention_gate;
  FeedForwardWeights feed_forward;
};

class MuseGlimmer : public Family {
 public:
  explicit MuseGlimmer(std::vector<Layer> layers) : layers_(std::move(layers)) {}

  void begin(Forward& pass) const override {
    pass.for_each_row(
        [&](int row) { pass.norm_heads(pass.hidden(row), 1, pass.config().hidden, {}); });
  }

  void run_layer(int layer, Forward& pass) const override {
    const Layer& w = layers_[static_cast<std::size_t>(layer)];
    const int hidden = pass.config().hidden;
    const float post_epsilon = pass.config().post_norm_epsilon;
    gated_attention(pass, layer, w.attention_norm, {}, {}, w.attention, w.attention_gate);
    pass.feed_forward(w.feed_forward, pass.config().activation, [&](int row) {
      pass.norm(pass.branch(row), w.post_attention_norm, post_epsilon, pass.branch(row));
      pass.add(pass.hidden(row), pass.branch(row), hidden);
      pass.norm(pass.hidden(row), w.ffn_norm, pass.normed(row));
    });
    pass.for_each_row([&](int row) {
      pass.norm(pass.branch(row), w.post_ffn_norm, post_epsilon, pass.branch(row));
      pass.add(pass.hidden(row), pass.branch(row), hidden);
    });
  }

 private:
  std::vector<Layer> layers_;
};

// Every fourth layer, counted from the last.
bool is_full(int layer, int layers) {
  return (layers - 1 - layer) % 4 == 0;
}

// Which layers rotate: those whose layer_rope_theta is not 0. Its values are not the thetas: the
// reference takes one theta for all.
Result<std::vector<bool>> rotating_layers(const Settings& settings, int layers) {
  TRY_ASSIGN(const std::vector<int> thetas, settings.per_layer({"", "layer_rope_theta"}, layers, 0,
                                                               std::numeric_limits<int>::max()));
  std::vector<bool> rotates;
  for (int layer = 0; layer < layers; layer++) {
    rotates.push_back(thetas.empty() ? !is_full(layer, layers)
                                     : thetas[static_cast<std::size_t>(layer)] != 0);
  }
  return rotates;
}

Result<ModelConfig> read_config(const Settings& settings) {
  TRY_ASSIGN(ModelConfig config, read_common_config(settings, "muse_glimmer", kDefaults));
  TRY_ASSIGN(config.activation, read_activation(settings, "hidden_activation", Activation::silu));
  const int layers = static_cast<int>(config.layers.size());
  const int head_dim = config.layers[0].head_dim;
  TRY_ASSIGN(const int window, settings.integer_or({"", "sliding_window"}, kWindow, 1, 1 << 30));
  TRY_ASSIGN(const std::vector<bool> full,
             read_full_layers(settings, layers, "sliding_attention", is_full));
  TRY_ASSIGN(const std::vector<bool> rotates, rotating_layers(settings, layers));
  TRY_ASSIGN(const RopeSettings rope, read_rope_settings(settings, "sliding_attention", kTheta));
  TRY_ASSIGN(const RopeConfig local,
             make_rope(rope, head_dim, kernels::RopeLayout::half_split, config.context_length));
  TRY_ASSIGN(const double epsilon, settings.number_or({"", "post_norm_eps"}, kPostNormEpsilon));
  TRY_ASSIGN(const double query_factor, settings.number_or({"", "qk_scale_factor"}, kQueryFactor));
  TRY_ASSIGN(const double multiplier,
             settings.number_or({"", "output_multiplier"}, kOutputMultiplier));
  TRY_ASSIGN(const double softcap, settings.number_or({"", "final_logit_softcapping"}, kSoftcap));
  config.post_norm_epsilon = static_cast<float>(epsilon);
  config.logit_scale = static_cast<float>(multiplier);
  config.final_softcap = static_cast<float>(softcap);
  config.has_attention_gate = true;
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    LayerConfig& layer = config.layers[i];
    layer.span = full[i] ? LayerSpan{SpanKind::standard, 0} : LayerSpan{SpanKind::rotating, window};
    layer.attention_scale =
        static_cast<float>(query_factor / std::sqrt(static_cast<double>(head_dim)));
    if (rotates[i]) layer.rope = add_rope(config, local);
  }
  return config;
}

Result<std::unique_ptr<Family>> bind(const ModelConfig& config, WeightLoader& loader) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    const LayerConfig& shape = config.layers[i];
    const auto norm = [&](std::string_view name) {
      return bind_norm(i, name, config.hidden, loader, true);
    };
    Layer layer;
    TRY_ASSIGN(layer.attention_norm, norm("attn_norm"));
    TRY_ASSIGN(layer.post_attention_norm, norm("post_attention_norm"));
    TRY_ASSIGN(layer.ffn_norm, norm("ffn_norm"));
    TRY_ASSIGN(layer.post_ffn_norm, norm("post_ffw_norm"));
    TRY_ASSIGN(layer.attention, bind_attention(config, i, loader));
    TRY_ASSIGN(layer.attention_gate, loader.linear(block_name(i, "attn_gate"),
                                                   shape.heads * shape.value_dim, config.hidden));
    TRY_ASSIGN(layer.feed_forward, bind_feed_forward(config, i, loader, shape.feed_forward));
    layers.push_back(std::move(layer));
  }
  std::unique_ptr<Family> family = std::make_unique<MuseGlimmer>(std::move(layers));
  TRY(bind_common(config, loader, *family));
  return family;
}

}  // namespace

// No GGUF form is read: llama.cpp's reorders rows and folds factors into weights.
const FamilyEntry kMuseGlimmerFamily = {
    "muse_glimmer", "",       {"muse_glimmer_text", "muse_glimmer"}, kNames, read_config, bind,
    "full",         "sliding"};

}  // namespace reprise
