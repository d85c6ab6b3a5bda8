// Llama 4 (text): chunks of attention with interleaved RoPE, every few layers full attention
// without RoPE whose queries grow with the position, experts that scale their input.
// Source: transformers modeling_llama4.py; what GGUF files leave out: llama.cpp's llama4.cpp.
#include <cmath>

#include <fmt/core.h>

#include "kernels/math.h"
#include "model/common_config.h"
#include "model/family_blocks.h"
#include "model/rope_settings.h"

namespace reprise {
namespace {

constexpr double kTheta = 5e5;
constexpr int kChunk = 8192, kNoRopeInterval = 4;
constexpr double kTemperatureScale = 0.1, kTemperatureLength = 8192;
constexpr int kExpertsWithoutNorm = 128;  // of GGUF files that do not state use_qk_norm: Maverick
constexpr int kSizeMax = 1 << 24;
constexpr ConfigDefaults kDefaults = {.hidden = 5120,
                                      .feed_forward = 8192,
                                      .layers = 48,
                                      .heads = 40,
                                      .kv_heads = 8,
                                      .head_dim = 128,
                                      .context = 131072,
                                      .epsilon = 1e-5};
constexpr TensorName kNames[] = {
    {"ffn_gate", "feed_forward.gate_proj"},
    {"ffn_up", "feed_forward.up_proj"},
    {"ffn_down", "feed_forward.down_proj"},
    {"ffn_gate_inp", "feed_forward.router"},
    {"ffn_exps", "feed_forward.experts"},
    {"ffn_gate_shexp", "feed_forward.shared_expert.gate_proj"},
    {"ffn_up_shexp", "feed_forward.shared_expert.up_proj"},
    {"ffn_down_shexp", "feed_forward.shared_expert.down_proj"},
};

struct Layer {
  std::vector<float> attention_norm, ffn_norm;
  AttentionWeights attention;
  FeedForwardWeights feed_forward;  // of a layer with experts: the shared one
  Linear router;
  ExpertWeights experts;
};

class Llama4 : public Family {
 public:
  explicit Llama4(std::vector<Layer> layers) : layers_(std::move(layers)) {}

  void run_layer(int layer, Forward& pass) const override;

 private:
  std::vector<Layer> layers_;
};

// What the queries of a layer without RoPE count at `position`: 1 until temperature_length, then
// slowly more. Source: Nakanishi 2025 (scalable softmax), as transformers has it.
float temperature(const ModelConfig& config, Position position) {
  const double steps = std::floor((static_cast<double>(position) + 1) / config.temperature_length);
  return static_cast<float>(1 + config.temperature_scale * kernels::log_f64(1 + steps));
}

// Experts by their logits; sigmoid(logit) scales what goes into the expert.
void choose(Forward& pass, int row) {
  const std::span<ExpertChoice> chosen = pass.choices(row);
  const float* logits = pass.router(row);
  choose_experts({logits, static_cast<std::size_t>(pass.config().experts.count)}, chosen);
  for (ExpertChoice& choice : chosen) {
    choice.weight = 1;
    choice.input_factor = kernels::sigmoid_f32(logits[choice.expert]);
  }
}

void Llama4::run_layer(int layer, Forward& pass) const {
  const Layer& w = layers_[static_cast<std::size_t>(layer)];
  const ModelConfig& config = pass.config();
  const LayerConfig& shape = pass.layer(layer);
  pass.project(pass.normed_rows(), config.hidden,
               [&](int row) { pass.norm(pass.hidden(row), w.attention_norm, pass.normed(row)); },
               {{&w.attention.query, &pass.query_rows()},
                {&w.attention.key, &pass.key_rows()},
                {&w.attention.value, &pass.value_rows()}});
  pass.for_each_row([&](int row) {
    pass.rotate(layer, row);
    if (shape.rope >= 0 && config.has_query_key_norm) {
      pass.norm_heads(pass.query(row), shape.heads, shape.head_dim, {});
      pass.norm_heads(pass.key(row), shape.kv_heads, shape.head_dim, {});
    }
    if (shape.rope < 0 && config.temperature_scale > 0) {
      pass.scale(pass.query(row), temperature(config, pass.position(row)),
                 shape.heads * shape.head_dim);
    }
    pass.store(layer, row);
  });
  attend_and_project(pass, layer, w.attention);
  pass.feed_forward(w.feed_forward, pass.config().activation,
                    [&](int row) {
                      pass.add(pass.hidden(row), pass.branch(row), config.hidden);
                      pass.norm(pass.hidden(row), w.ffn_norm, pass.normed(row));
                    },
                    {{&w.router, &pass.router_rows()}});
  if (shape.has_experts) {
    pass.for_each_row([&](int row) { choose(pass, row); });
    pass.run_experts(w.experts, pass.config().activation, pass.normed_rows());
  }
  pass.for_each_row([&](int row) {
    if (shape.has_experts) pass.add(pass.branch(row), pass.expert_sum(row), config.hidden);
    pass.add(pass.hidden(row), pass.branch(row), config.hidden);
  });
}

// A GGUF window of 0 means that every layer is full, with RoPE and without temperature.
Result<bool> is_plain(const Settings& settings) {
  constexpr SettingName kWindow = {"attention.sliding_window", ""};
  TRY_ASSIGN(const int window, settings.integer_or(kWindow, kChunk, 0, 1 << 30));
  return settings.is_gguf() && window == 0;
}

// Which layers have RoPE: no_rope_layers holds 1 for those that do.
Result<std::vector<bool>> read_rope_layers(const Settings& settings, int layers) {
  constexpr SettingName kInterval = {"", "no_rope_layer_interval"};
  TRY_ASSIGN(const int interval, settings.integer_or(kInterval, kNoRopeInterval, 1, 1 << 12));
  TRY_ASSIGN(const bool plain, is_plain(settings));
  std::vector<bool> has_rope;
  const JsonValue* list = settings.json("no_rope_layers");
  if (list != nullptr && !(list->is_array() && list->get_array().empty())) {
    TRY_ASSIGN(const std::vector<int> flags,
               settings.per_layer({"", "no_rope_layers"}, layers, 0, 1));
    for (const int flag : flags) has_rope.push_back(flag == 1);
    return has_rope;
  }
  for (int layer = 0; layer < layers; layer++) {
    has_rope.push_back(plain || (layer + 1) % interval != 0);
  }
  return has_rope;
}

// Layers with RoPE see their chunk unless layer_types says otherwise.
Status read_spans(const Settings& settings, const std::vector<bool>& has_rope,
                  ModelConfig& config) {
  TRY_ASSIGN(const bool plain, is_plain(settings));
  std::vector<bool> full(has_rope.size(), plain);
  if (!plain) {
    full = has_rope;
    full.flip();
  }
  const bool states = settings.json("layer_types") != nullptr ||
                      settings.has({"attention.sliding_window_pattern", ""});
  if (states && !plain) {
    TRY_ASSIGN(full, read_full_layers(settings, static_cast<int>(full.size()), "chunked_attention",
                                      [](int, int) { return true; }));
  }
  TRY_ASSIGN(const int chunk,
             settings.integer_or({"attention.sliding_window", "attention_chunk_size"}, kChunk,
                                 plain ? 0 : 1, 1 << 30));
  for (std::size_t i = 0; i < full.size(); i++) {
    config.layers[i].span =
        full[i] ? LayerSpan{SpanKind::standard, 0} : LayerSpan{SpanKind::chunked, chunk};
  }
  return {};
}

Status read_temperature(const Settings& settings, ModelConfig& config) {
  TRY_ASSIGN(const bool plain, is_plain(settings));
  TRY_ASSIGN(const bool tunes, settings.flag_or({"", "attn_temperature_tuning"}, !plain));
  if (!tunes) return {};
  TRY_ASSIGN(config.temperature_scale,
             settings.number_or({"attention.temperature_scale", "attn_scale"}, kTemperatureScale));
  TRY_ASSIGN(
      config.temperature_length,
      settings.number_or({"attention.temperature_length", "floor_scale"}, kTemperatureLength));
  return {};
}

std::unexpected<Error> wrong_expert_layers(const JsonValue& got) {
  return fail(Errc::corrupt,
              fmt::format("key moe_layers: got {}, expected a list of layers", to_json(got)),
              "moe_layers");
}

// The layers with experts: moe_layers, else every interleave_moe_layer_step-th (0: none).
Result<bool> mark_expert_layers(const Settings& settings, ModelConfig& config) {
  bool any = false;
  const JsonValue* list = settings.json("moe_layers");
  if (list != nullptr) {
    if (!list->is_array()) return wrong_expert_layers(*list);
    for (const JsonValue& item : list->get_array()) {
      if (!item.is_int64() || item.get_int64() < 0) return wrong_expert_layers(item);
      const auto layer = static_cast<std::size_t>(item.get_int64());
      if (layer >= config.layers.size()) continue;
      config.layers[layer].has_experts = any = true;
    }
    return any;
  }
  constexpr SettingName kStep = {"interleave_moe_layer_step", "interleave_moe_layer_step"};
  TRY_ASSIGN(const int step, settings.is_gguf() ? settings.integer(kStep, 0, 1 << 12)
                                                : settings.integer_or(kStep, 1, 0, 1 << 12));
  for (int layer = step - 1; step > 0 && layer < static_cast<int>(config.layers.size());
       layer += step) {
    config.layers[static_cast<std::size_t>(layer)].has_experts = any = true;
  }
  return any;
}

// Folders call the experts' width intermediate_size and the dense layers' intermediate_size_mlp.
Status read_feed_forward(const Settings& settings, ModelConfig& config) {
  TRY_ASSIGN(const bool has_experts, mark_expert_layers(settings, config));
  if (has_experts && settings.is_gguf()) {
    TRY_ASSIGN(config.experts,
               read_experts(settings, {"expert_count", ""}, {"expert_used_count", ""},
                            {"expert_feed_forward_length", ""}));
  } else if (has_experts) {
    TRY_ASSIGN(config.experts.count,
               settings.integer_or({"", "num_local_experts"}, 16, 1, 1 << 16));
    TRY_ASSIGN(config.experts.used,
               settings.integer_or({"", "num_experts_per_tok"}, 1, 1, config.experts.count));
    TRY_ASSIGN(config.experts.feed_forward,
               settings.integer_or({"", "intermediate_size"}, 8192, 1, kSizeMax));
  }
  TRY_ASSIGN(const int dense,
             settings.integer_or({"", "intermediate_size_mlp"}, 16384, 1, kSizeMax));
  for (LayerConfig& layer : config.layers) {
    if (layer.has_experts) {
      layer.feed_forward = config.experts.feed_forward;
    } else if (!settings.is_gguf()) {
      layer.feed_forward = dense;
    }
  }
  return {};
}

Result<ModelConfig> read_config(const Settings& settings) {
  TRY_ASSIGN(
      ModelConfig config,
      read_common_config(settings, "llama4", settings.is_gguf() ? ConfigDefaults() : kDefaults));
  TRY_ASSIGN(config.activation, read_activation(settings, "hidden_act", Activation::silu));
  const auto layers = static_cast<int>(config.layers.size());
  const int head_dim = config.layers[0].head_dim;
  TRY_ASSIGN(const std::vector<bool> has_rope, read_rope_layers(settings, layers));
  TRY(read_spans(settings, has_rope, config));
  TRY(read_temperature(settings, config));
  TRY(read_feed_forward(settings, config));
  TRY_ASSIGN(config.has_query_key_norm,
             settings.flag_or({"", "use_qk_norm"},
                              !settings.is_gguf() || config.experts.count != kExpertsWithoutNorm));
  TRY_ASSIGN(const RopeSettings rope_settings,
             read_rope_settings(settings, "full_attention", kTheta));
  TRY_ASSIGN(RopeConfig rope, make_rope(rope_settings, head_dim, kernels::RopeLayout::interleaved,
                                        config.context_length));
  if (settings.is_gguf())
    TRY(apply_rope_factors(settings.checkpoint(), config.context_length, rope));
  TRY_ASSIGN(
      const double scale,
      settings.number_or({"attention.scale", ""}, 1.0 / std::sqrt(static_cast<double>(head_dim))));
  for (std::size_t i = 0; i < has_rope.size(); i++) {
    config.layers[i].attention_scale = static_cast<float>(scale);
    if (has_rope[i]) config.layers[i].rope = add_rope(config, rope);
  }
  return config;
}

Result<std::unique_ptr<Family>> bind(const ModelConfig& config, WeightLoader& loader) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    const LayerConfig& shape = config.layers[i];
    Layer layer;
    TRY_ASSIGN(layer.attention_norm, bind_norm(i, "attn_norm", config.hidden, loader));
    TRY_ASSIGN(layer.ffn_norm, bind_norm(i, "ffn_norm", config.hidden, loader));
    TRY_ASSIGN(layer.attention, bind_attention(config, i, loader));
    TRY_ASSIGN(layer.feed_forward, bind_feed_forward(config, i, loader, shape.feed_forward,
                                                     shape.has_experts ? "_shexp" : ""));
    if (shape.has_experts) {
      TRY_ASSIGN(layer.router, loader.float_linear(block_name(i, "ffn_gate_inp"),
                                                   config.experts.count, config.hidden));
      TRY_ASSIGN(layer.experts, bind_experts(config, i, loader, FusedExperts::columns));
    }
    layers.push_back(std::move(layer));
  }
  std::unique_ptr<Family> family = std::make_unique<Llama4>(std::move(layers));
  TRY(bind_common(config, loader, *family));
  return family;
}

}  // namespace

const FamilyEntry kLlama4Family = {"llama4", "llama4",    {"llama4_text", "llama4"},
                                   kNames,   read_config, bind};

}  // namespace reprise
