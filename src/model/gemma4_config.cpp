// Gemma 4's settings: two head sizes, layers that share keys and values, per-layer inputs, experts
// beside the dense feed-forward. Source: transformers configuration_gemma4.py.
#include "model/gemma4_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/core.h>

#include "model/common_config.h"
#include "model/family_blocks.h"
#include "model/rope_settings.h"

namespace reprise {
namespace {

constexpr double kGlobalTheta = 1e6, kLocalTheta = 1e4;
constexpr double kGlobalPartial = 0.25;
constexpr int kSizeMax = 1 << 24;
constexpr ConfigDefaults kDefaults = {.hidden = 2304,
                                      .feed_forward = 9216,
                                      .layers = 30,
                                      .heads = 8,
                                      .kv_heads = 4,
                                      .head_dim = 256,
                                      .context = 131072,
                                      .epsilon = 1e-6};
constexpr int kGlobalHeadDim = 512;

// Attention in both directions cannot be cached token by token. "vision" means image tokens only.
Status refuse_bidirectional(const Settings& settings) {
  const JsonValue* value = settings.json("use_bidirectional_attention");
  if (value == nullptr || (value->is_bool() && !value->get_bool())) return {};
  if (value->is_string() && value->get_string() == "vision") return {};
  return fail(Errc::unsupported,
              fmt::format("key use_bidirectional_attention: got {}, expected null, false or "
                          "\"vision\": other kinds are not supported",
                          to_json(*value)),
              "use_bidirectional_attention");
}

// transformers makes the last layer full whatever a folder says; GGUF files state it.
Result<std::vector<bool>> read_spans(const Settings& settings, ModelConfig& config) {
  const auto layers = static_cast<int>(config.layers.size());
  TRY_ASSIGN(std::vector<bool> full,
             read_full_layers(settings, layers, "sliding_attention",
                              [](int layer, int) { return (layer + 1) % 6 == 0; }));
  if (!settings.is_gguf()) full.back() = true;
  constexpr SettingName kWindow = {"attention.sliding_window", "sliding_window"};
  TRY_ASSIGN(const int window, settings.is_gguf() ? settings.integer(kWindow, 1, 1 << 30)
                                                  : settings.integer_or(kWindow, 512, 1, 1 << 30));
  for (std::size_t i = 0; i < full.size(); i++) {
    config.layers[i].span =
        full[i] ? LayerSpan{SpanKind::standard, 0} : LayerSpan{SpanKind::rotating, window};
    config.layers[i].attention_scale = 1;
  }
  return full;
}

// Overwrites a layer's size when its object in per_layer_config has the key.
Status override_size(const JsonObject& object, std::string_view key, int high, int& size) {
  const JsonValue* value = object.if_contains(key);
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_int64() || value->get_int64() < 1 || value->get_int64() > high) {
    return fail(Errc::corrupt,
                fmt::format("key per_layer_config: {}: got {}, expected an integer from 1 to {}",
                            key, to_json(*value), high),
                "per_layer_config");
  }
  size = static_cast<int>(value->get_int64());
  return {};
}

// What differs from the model's settings, by layer: {"5": {"head_dim": 512}}.
Status apply_overrides(const JsonValue& overrides, ModelConfig& config) {
  if (!overrides.is_object()) {
    return fail(Errc::corrupt, "key per_layer_config: expected an object", "per_layer_config");
  }
  for (const auto& [name, value] : overrides.get_object()) {
    std::size_t index = 0;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, index);
    if (error != std::errc() || stop != end || !value.is_object()) {
      return fail(Errc::corrupt,
                  fmt::format("key per_layer_config: got \"{}\", expected a layer's number with an "
                              "object",
                              std::string_view(name)),
                  "per_layer_config");
    }
    if (index >= config.layers.size()) continue;
    LayerConfig& layer = config.layers[index];
    const JsonObject& object = value.get_object();
    TRY(override_size(object, "head_dim", 1 << 16, layer.head_dim));
    TRY(override_size(object, "num_key_value_heads", 1 << 10, layer.kv_heads));
    TRY(override_size(object, "num_attention_heads", 1 << 10, layer.heads));
    TRY(override_size(object, "intermediate_size", kSizeMax, layer.feed_forward));
  }
  return {};
}

// Full layers have heads of their own size, and in some models their own count of kv heads and no
// value projection.
Status read_folder_heads(const Settings& settings, const std::vector<bool>& full,
                         ModelConfig& config) {
  TRY_ASSIGN(const bool value_is_key, settings.flag_or({"", "attention_k_eq_v"}, false));
  TRY_ASSIGN(const int head_dim,
             settings.integer_or({"", "global_head_dim"}, kGlobalHeadDim, 1, 1 << 16));
  TRY_ASSIGN(const int kv_heads,
             settings.integer_or({"", "num_global_key_value_heads"}, 0, 1, 1 << 10));
  const JsonValue* overrides = settings.json("per_layer_config");
  for (std::size_t i = 0; i < full.size(); i++) {
    if (!full[i]) continue;
    config.layers[i].value_is_key = value_is_key;
    if (overrides != nullptr) continue;  // it states every difference
    config.layers[i].head_dim = head_dim;
    if (value_is_key && kv_heads > 0) config.layers[i].kv_heads = kv_heads;
  }
  return overrides == nullptr ? Status() : apply_overrides(*overrides, config);
}

// GGUF states the full layers' head size as the model's; a missing value projection says that the
// keys' is meant.
Status read_gguf_heads(const Settings& settings, const std::vector<bool>& full,
                       ModelConfig& config) {
  TRY_ASSIGN(const int local_dim, settings.integer({"attention.key_length_swa", ""}, 1, 1 << 16));
  for (std::size_t i = 0; i < full.size(); i++) {
    if (!full[i]) config.layers[i].head_dim = local_dim;
    const std::string value = block_name(i, "attn_v.weight");
    config.layers[i].value_is_key = settings.checkpoint().find(value) == nullptr;
  }
  return {};
}

// Layers behind the first `layers - shared` read the keys and values of the last one before them
// of their own kind.
Status share_layers(const Settings& settings, const std::vector<bool>& full, ModelConfig& config) {
  const auto layers = static_cast<int>(config.layers.size());
  constexpr SettingName kShared = {"attention.shared_kv_layers", "num_kv_shared_layers"};
  TRY_ASSIGN(const int shared, settings.integer_or(kShared, 0, 0, layers - 1));
  TRY_ASSIGN(const bool doubles, settings.flag_or({"", "use_double_wide_mlp"}, false));
  const int first = layers - shared;
  for (int i = first; i < layers; i++) {
    const auto index = static_cast<std::size_t>(i);
    LayerConfig& layer = config.layers[index];
    for (int j = first - 1; j >= 0 && layer.kv_source < 0; j--) {
      if (full[static_cast<std::size_t>(j)] == full[index]) layer.kv_source = j;
    }
    const LayerConfig& source =
        config.layers[static_cast<std::size_t>(std::max(0, layer.kv_source))];
    if (layer.kv_source < 0 || source.head_dim != layer.head_dim ||
        source.kv_heads != layer.kv_heads) {
      return fail(Errc::corrupt,
                  fmt::format("key {}: layer {} shares keys and values, but no layer before {} has "
                              "{} kv heads of {} dims with the same attention",
                              settings.spelled(kShared), i, first, layer.kv_heads, layer.head_dim),
                  settings.spelled(kShared));
    }
    layer.value_is_key = false;
    if (doubles && !settings.is_gguf()) layer.feed_forward *= 2;
  }
  return {};
}

Result<RopeConfig> global_rope(const Settings& settings, int head_dim, Position context_length) {
  TRY_ASSIGN(RopeSettings rope, read_rope_settings(settings, "full_attention", kGlobalTheta));
  if (!settings.is_gguf()) {
    if (settings.json("rope_parameters") == nullptr) rope.partial = kGlobalPartial;
    if (rope.type == "default" && rope.partial < 1) rope.type = "proportional";
    return make_rope(rope, head_dim, kernels::RopeLayout::half_split, context_length);
  }
  // The pairs that do not rotate have huge factors.
  constexpr const char* kFactors = "rope_freqs.weight";
  if (settings.checkpoint().find(kFactors) == nullptr) {
    return fail(Errc::not_found, fmt::format("tensor {} is missing from the model", kFactors),
                kFactors);
  }
  TRY_ASSIGN(RopeConfig config,
             make_rope(rope, head_dim, kernels::RopeLayout::half_split, context_length));
  TRY(apply_rope_factors(settings.checkpoint(), context_length, config));
  return config;
}

Result<RopeConfig> local_rope(const Settings& settings, int head_dim, Position context_length) {
  RopeSettings rope;
  TRY_ASSIGN(rope.theta, settings.number_or({"rope.freq_base_swa", ""}, kLocalTheta));
  TRY_ASSIGN(const int rotary,
             settings.integer_or({"rope.dimension_count_swa", ""}, head_dim, 2, head_dim));
  rope.partial = static_cast<double>(rotary) / head_dim;
  if (settings.json("rope_parameters") != nullptr) {
    TRY_ASSIGN(rope, read_rope_settings(settings, "sliding_attention", kLocalTheta));
  }
  return make_rope(rope, head_dim, kernels::RopeLayout::half_split, context_length);
}

Status read_experts_of(const Settings& settings, ModelConfig& config) {
  constexpr SettingName kCount = {"expert_count", "num_experts"};
  TRY_ASSIGN(bool has_experts, settings.flag_or({"", "enable_moe_block"}, false));
  if (settings.is_gguf()) {
    TRY_ASSIGN(const int count, settings.integer_or(kCount, 0, 0, 1 << 16));
    has_experts = count > 0;
  }
  if (!has_experts) return {};
  TRY_ASSIGN(config.experts, read_experts(settings, kCount, {"expert_used_count", "top_k_experts"},
                                          {"expert_feed_forward_length", "moe_intermediate_size"}));
  for (LayerConfig& layer : config.layers) layer.has_experts = true;
  return {};
}

// The table's rows are what it has, whatever the settings say.
Status read_layer_inputs(const Settings& settings, ModelConfig& config) {
  constexpr SettingName kWidth = {"embedding_length_per_layer_input",
                                  "hidden_size_per_layer_input"};
  // transformers' default for folders that do not say.
  TRY_ASSIGN(config.layer_input,
             settings.integer_or(kWidth, settings.is_gguf() ? 0 : 256, 0, 1 << 16));
  if (config.layer_input == 0) return {};
  const TensorNames names(settings.checkpoint(), kGemma4Names);
  const std::string name = names.stored("per_layer_token_embd.weight");
  const StoredTensor* table = settings.checkpoint().find(name);
  if (table == nullptr || table->shape.size() != 2) {
    return fail(
        Errc::not_found,
        fmt::format("tensor {} [vocabulary, layers * {}] is missing", name, config.layer_input),
        name);
  }
  if (table->shape[0] < 1 || table->shape[0] > kSizeMax) {
    return setting_out_of_range(name, table->shape[0], 1, kSizeMax);
  }
  config.layer_input_rows = static_cast<int>(table->shape[0]);
  config.layer_input_scale =
      checkpoint_scalar(settings, std::sqrt(static_cast<double>(config.layer_input)));
  return {};
}

}  // namespace

Result<ModelConfig> read_gemma4_config(const Settings& settings) {
  TRY(refuse_bidirectional(settings));
  TRY_ASSIGN(
      ModelConfig config,
      read_common_config(settings, "gemma4", settings.is_gguf() ? ConfigDefaults() : kDefaults));
  TRY_ASSIGN(config.activation,
             read_activation(settings, "hidden_activation", Activation::gelu_tanh));
  TRY_ASSIGN(const std::vector<bool> full, read_spans(settings, config));
  TRY(settings.is_gguf() ? read_gguf_heads(settings, full, config)
                         : read_folder_heads(settings, full, config));
  for (LayerConfig& layer : config.layers) layer.value_dim = layer.head_dim;
  TRY(check_heads(config));
  TRY(share_layers(settings, full, config));
  for (std::size_t i = 0; i < full.size(); i++) {
    LayerConfig& layer = config.layers[i];
    TRY_ASSIGN(RopeConfig rope, full[i]
                                    ? global_rope(settings, layer.head_dim, config.context_length)
                                    : local_rope(settings, layer.head_dim, config.context_length));
    layer.rope = add_rope(config, std::move(rope));
  }
  TRY(read_experts_of(settings, config));
  TRY(read_layer_inputs(settings, config));
  TRY_ASSIGN(const double softcap,
             settings.number_or({"final_logit_softcapping", "final_logit_softcapping"}, 0));
  config.final_softcap = static_cast<float>(softcap);
  config.embedding_scale =
      checkpoint_scalar(settings, std::sqrt(static_cast<double>(config.hidden)));
  return config;
}

}  // namespace reprise
