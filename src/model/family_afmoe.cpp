// Afmoe (Arcee Trinity): sandwich norms, gated attention, windows with RoPE and full layers
// without, a mixture of experts with sigmoid scores beside shared experts behind the first dense
// layers. Source: transformers modeling_afmoe.py; llama.cpp's conversion/afmoe.py (q and k as they
// are).
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "kernels/math.h"
#include "model/common_config.h"
#include "model/family_blocks.h"
#include "model/rope_settings.h"

namespace reprise {
namespace {

constexpr double kTheta = 1e4;
constexpr float kSumEpsilon = 1e-20F;
constexpr int kCountMax = 1 << 12, kSharedMax = 64;
// GGUF's words for score functions (llama.cpp's llama-hparams.h).
constexpr int kGgufSoftmax = 1, kGgufSigmoid = 2;
constexpr TensorName kNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_mlp_layernorm"},
    {"post_ffw_norm", "post_mlp_layernorm"},
    {"ffn_gate_inp", "mlp.router.gate"},
    {"exp_probs_b.bias", "mlp.expert_bias"},
    {"ffn_exps", "mlp.experts"},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
};

struct Layer {
  std::vector<float> attention_norm, post_attention_norm, ffn_norm, post_ffn_norm;
  std::vector<float> query_norm, key_norm;
  AttentionWeights attention;
  Linear attention_gate;
  FeedForwardWeights feed_forward;  // dense, or of the shared experts (empty: none)
  Linear router;
  std::vector<float> expert_bias;  // [experts] for the choice only
  ExpertWeights experts;
};

class Afmoe : public Family {
 public:
  explicit Afmoe(std::vector<Layer> layers) : layers_(std::move(layers)) {}

  void run_layer(int layer, Forward& pass) const override {
    const Layer& w = layers_[static_cast<std::size_t>(layer)];
    gated_attention(pass, layer, w.attention_norm, w.query_norm, w.key_norm, w.attention,
                    w.attention_gate);
    const int hidden = pass.config().hidden;
    const auto prepare = [&](int row) {
      pass.norm(pass.branch(row), w.post_attention_norm, pass.branch(row));
      pass.add(pass.hidden(row), pass.branch(row), hidden);
      pass.norm(pass.hidden(row), w.ffn_norm, pass.normed(row));
    };
    if (pass.layer(layer).has_experts) {
      const Projection route = {&w.router, &pass.router_rows()};
      if (pass.layer(layer).feed_forward > 0) {
        pass.feed_forward(w.feed_forward, pass.config().activation, prepare, {route});
      } else {
        pass.project(pass.normed_rows(), hidden, prepare, {route});
      }
      run_experts(layer, w, pass);
    } else {
      pass.feed_forward(w.feed_forward, pass.config().activation, prepare);
    }
    pass.for_each_row([&](int row) {
      pass.norm(pass.branch(row), w.post_ffn_norm, pass.branch(row));
      pass.add(pass.hidden(row), pass.branch(row), hidden);
    });
  }

 private:
  // branch = what the chosen experts make of normed, plus the shared experts' branch. The bias
  // takes part in the choice, not in the weights.
  void run_experts(int layer, const Layer& w, Forward& pass) const {
    const ModelConfig& config = pass.config();
    pass.for_each_row([&](int row) {
      const std::span scores(pass.router(row), w.expert_bias.size());
      if (config.experts.has_sigmoid_scores) {
        for (float& score : scores) score = kernels::sigmoid_f32(score);
      } else {
        softmax(scores);
      }
      std::vector<float> biased = w.expert_bias;
      pass.add(biased.data(), scores.data(), config.experts.count);
      const std::span<ExpertChoice> chosen = pass.choices(row);
      choose_experts(biased, chosen);
      for (ExpertChoice& choice : chosen) {
        choice.weight = scores[static_cast<std::size_t>(choice.expert)];
      }
      if (config.experts.normalises) normalise_weights(chosen, kSumEpsilon);
      for (ExpertChoice& choice : chosen) choice.weight *= config.experts.weight_scale;
    });
    pass.run_experts(w.experts, pass.config().activation, pass.normed_rows());
    const auto hidden = static_cast<std::size_t>(config.hidden);
    const bool has_shared = pass.layer(layer).feed_forward > 0;
    pass.for_each_row([&](int row) {
      if (!has_shared) std::fill_n(pass.branch(row), hidden, 0.0F);
      pass.add(pass.branch(row), pass.expert_sum(row), config.hidden);
    });
  }

  std::vector<Layer> layers_;
};

std::unexpected<Error> unsupported(const Settings& settings, SettingName name, std::string_view got,
                                   std::string_view expected) {
  const std::string key = settings.spelled(name);
  return fail(Errc::unsupported, fmt::format("key {}: got {}, expected {}", key, got, expected),
              key);
}

// Every fourth layer is full where the file says nothing.
Result<std::vector<bool>> full_layers(const Settings& settings, int layers) {
  TRY_ASSIGN(std::vector<bool> full,
             read_full_layers(settings, layers, "sliding_attention",
                              [](int layer, int) { return (layer + 1) % 4 == 0; }));
  constexpr SettingName kPeriod = {"", "global_attn_every_n_layers"};
  if (settings.json("layer_types") != nullptr || !settings.has(kPeriod)) return full;
  TRY_ASSIGN(const int period, settings.integer(kPeriod, 1, kCountMax));
  for (std::size_t i = 0; i < full.size(); i++) {
    full[i] = (i + 1) % static_cast<std::size_t>(period) == 0;
  }
  return full;
}

// transformers has only sigmoid scores; files of others may name softmax.
Result<bool> has_sigmoid_scores(const Settings& settings) {
  constexpr SettingName kScores = {"expert_gating_func", "score_func"};
  if (settings.is_gguf()) {
    TRY_ASSIGN(const int scores, settings.integer_or(kScores, 0, 0, kCountMax));
    if (scores == 0 || scores == kGgufSigmoid) return true;
    if (scores == kGgufSoftmax) return false;
    return unsupported(settings, kScores, fmt::format("{}", scores), "1 (softmax) or 2 (sigmoid)");
  }
  TRY_ASSIGN(const std::string scores, settings.text_or(kScores, "sigmoid"));
  if (scores == "sigmoid") return true;
  if (scores == "softmax") return false;
  return unsupported(settings, kScores, scores, "sigmoid or softmax");
}

Status read_mixture(const Settings& settings, ModelConfig& config) {
  for (const SettingName name : {SettingName{"expert_group_count", "n_group"},
                                 SettingName{"expert_group_count", "num_expert_groups"}}) {
    TRY_ASSIGN(const int groups, settings.integer_or(name, 1, 0, kCountMax));
    if (groups > 1) return unsupported(settings, name, fmt::format("{}", groups), "1");
  }
  TRY_ASSIGN(config.experts, read_experts(settings, {"expert_count", "num_experts"},
                                          {"expert_used_count", "num_experts_per_tok"},
                                          {"expert_feed_forward_length", "moe_intermediate_size"}));
  TRY_ASSIGN(config.experts.has_sigmoid_scores, has_sigmoid_scores(settings));
  TRY_ASSIGN(config.experts.normalises,
             settings.flag_or({"expert_weights_norm", "route_norm"}, true));
  TRY_ASSIGN(const double scale, settings.number_or({"expert_weights_scale", "route_scale"}, 1.0));
  config.experts.weight_scale = static_cast<float>(scale);
  constexpr SettingName kShared = {"expert_shared_count", "num_shared_experts"};
  TRY_ASSIGN(const int shared, settings.is_gguf() ? settings.integer(kShared, 0, kSharedMax)
                                                  : settings.integer_or(kShared, 2, 0, kSharedMax));
  TRY_ASSIGN(const int dense, settings.integer_or({"leading_dense_block_count", "num_dense_layers"},
                                                  settings.is_gguf() ? 0 : 1, 0, kCountMax));
  for (std::size_t i = static_cast<std::size_t>(dense); i < config.layers.size(); i++) {
    config.layers[i].has_experts = true;
    config.layers[i].feed_forward = shared * config.experts.feed_forward;
  }
  return {};
}

Result<ModelConfig> read_config(const Settings& settings) {
  ConfigDefaults defaults;
  if (!settings.is_gguf()) defaults.head_dim = 128;
  TRY_ASSIGN(ModelConfig config, read_common_config(settings, "afmoe", defaults));
  TRY_ASSIGN(config.activation, read_activation(settings, "hidden_act", Activation::silu));
  TRY(read_mixture(settings, config));
  TRY_ASSIGN(const int window,
             settings.integer({"attention.sliding_window", "sliding_window"}, 1, 1 << 30));
  TRY_ASSIGN(const std::vector<bool> full,
             full_layers(settings, static_cast<int>(config.layers.size())));
  TRY_ASSIGN(RopeSettings rope, read_rope_settings(settings, "sliding_attention", kTheta));
  TRY_ASSIGN(rope.theta, settings.number_or({"rope.freq_base_swa", ""}, rope.theta));
  TRY_ASSIGN(const RopeConfig local,
             make_rope(rope, config.layers[0].head_dim, kernels::RopeLayout::half_split,
                       config.context_length));
  // GGUF has no key for it: llama.cpp always scales. Exact in bfloat16 files too, as the reference
  // multiplies.
  TRY_ASSIGN(const bool scales, settings.flag_or({"", "mup_enabled"}, settings.is_gguf()));
  if (scales) {
    config.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(config.hidden)));
  }
  config.has_attention_gate = true;
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    LayerConfig& layer = config.layers[i];
    layer.span = full[i] ? LayerSpan{SpanKind::standard, 0} : LayerSpan{SpanKind::rotating, window};
    if (!full[i]) layer.rope = add_rope(config, local);
  }
  return config;
}

Status bind_mixture(const ModelConfig& config, std::size_t i, WeightLoader& loader, Layer& layer) {
  const int shared = config.layers[i].feed_forward;
  if (shared > 0) {
    TRY_ASSIGN(layer.feed_forward, bind_feed_forward(config, i, loader, shared, "_shexp"));
  }
  TRY_ASSIGN(layer.router, loader.float_linear(block_name(i, "ffn_gate_inp"), config.experts.count,
                                               config.hidden));
  TRY_ASSIGN(layer.expert_bias,
             loader.vector(block_name(i, "exp_probs_b.bias"), config.experts.count));
  TRY_ASSIGN(layer.experts, bind_experts(config, i, loader));
  return {};
}

Result<std::unique_ptr<Family>> bind(const ModelConfig& config, WeightLoader& loader) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    const LayerConfig& shape = config.layers[i];
    const auto norm = [&](std::string_view name, int size) {
      return bind_norm(i, name, size, loader);
    };
    Layer layer;
    TRY_ASSIGN(layer.attention_norm, norm("attn_norm", config.hidden));
    TRY_ASSIGN(layer.post_attention_norm, norm("post_attention_norm", config.hidden));
    TRY_ASSIGN(layer.ffn_norm, norm("ffn_norm", config.hidden));
    TRY_ASSIGN(layer.post_ffn_norm, norm("post_ffw_norm", config.hidden));
    TRY_ASSIGN(layer.query_norm, norm("attn_q_norm", shape.head_dim));
    TRY_ASSIGN(layer.key_norm, norm("attn_k_norm", shape.head_dim));
    TRY_ASSIGN(layer.attention, bind_attention(config, i, loader));
    TRY_ASSIGN(layer.attention_gate, loader.linear(block_name(i, "attn_gate"),
                                                   shape.heads * shape.value_dim, config.hidden));
    if (shape.has_experts) {
      TRY(bind_mixture(config, i, loader, layer));
    } else {
      TRY_ASSIGN(layer.feed_forward, bind_feed_forward(config, i, loader, shape.feed_forward));
    }
    layers.push_back(std::move(layer));
  }
  std::unique_ptr<Family> family = std::make_unique<Afmoe>(std::move(layers));
  TRY(bind_common(config, loader, *family));
  return family;
}

}  // namespace

const FamilyEntry kAfmoeFamily = {"afmoe", "afmoe", {"afmoe"}, kNames, read_config, bind};

}  // namespace reprise
