// Settings that families share, read and checked once.
#include "model/common_config.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "kernels/math.h"
#include "model/tensor_names.h"

namespace reprise {
namespace {

constexpr int kSizeMax = 1 << 24;
constexpr SettingName kHeads = {"attention.head_count", "num_attention_heads"};
constexpr SettingName kKvHeads = {"attention.head_count_kv", "num_key_value_heads"};
constexpr SettingName kHeadDim = {"attention.key_length", "head_dim"};
constexpr SettingName kFeedForward = {"feed_forward_length", "intermediate_size"};

Result<int> size_or(const Settings& settings, SettingName name, int fallback, int low, int high) {
  return fallback > 0 ? settings.integer_or(name, fallback, low, high)
                      : settings.integer(name, low, high);
}

// A list for all layers, or `fallback` for each; 0: the key is required.
Result<std::vector<int>> layers_or(const Settings& settings, SettingName name, int layers,
                                   int fallback, int high) {
  TRY_ASSIGN(std::vector<int> values, settings.per_layer(name, layers, 1, high));
  if (!values.empty()) return values;
  if (fallback == 0) return missing_setting(settings.spelled(name));
  return std::vector<int>(static_cast<std::size_t>(layers), fallback);
}

Status read_layers(const Settings& settings, int layers, const ConfigDefaults& defaults,
                   ModelConfig& config) {
  constexpr int kHeadsMax = 1 << 10;
  TRY_ASSIGN(const std::vector<int> heads,
             layers_or(settings, kHeads, layers, defaults.heads, kHeadsMax));
  TRY_ASSIGN(const std::vector<int> kv_heads,
             layers_or(settings, kKvHeads, layers,
                       defaults.kv_heads > 0 ? defaults.kv_heads : heads[0], kHeadsMax));
  TRY_ASSIGN(const int head_dim,
             settings.integer_or(
                 kHeadDim, defaults.head_dim > 0 ? defaults.head_dim : config.hidden / heads[0], 1,
                 1 << 16));
  TRY_ASSIGN(const int value_dim,
             settings.integer_or({"attention.value_length", ""}, head_dim, 1, 1 << 16));
  TRY_ASSIGN(const std::vector<int> feed_forward,
             layers_or(settings, kFeedForward, layers, defaults.feed_forward, kSizeMax));
  for (std::size_t i = 0; i < static_cast<std::size_t>(layers); i++) {
    LayerConfig layer;
    layer.heads = heads[i];
    layer.kv_heads = kv_heads[i];
    layer.head_dim = head_dim;
    layer.value_dim = value_dim;
    layer.feed_forward = feed_forward[i];
    layer.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
    config.layers.push_back(layer);
  }
  return check_heads(config);
}

// The embedding's rows are the vocabulary, whatever the settings say.
Status read_vocabulary(const Settings& settings, ModelConfig& config) {
  const TensorNames names(settings.checkpoint(), {});
  const std::string name = names.stored("token_embd.weight");
  const StoredTensor* embedding = settings.checkpoint().find(name);
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return fail(Errc::not_found, fmt::format("tensor {} [vocabulary, hidden] is missing", name),
                name);
  }
  const std::int64_t rows = embedding->shape[0];
  if (rows < 1 || rows > kSizeMax) return setting_out_of_range(name, rows, 1, kSizeMax);
  config.vocabulary = static_cast<int>(rows);
  config.tied_embeddings = settings.checkpoint().find(names.stored("output.weight")) == nullptr;
  return {};
}

}  // namespace

Status check_heads(const ModelConfig& config) {
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    const LayerConfig& layer = config.layers[i];
    for (const int dim : {layer.head_dim, layer.value_dim}) {
      if (dim % 16 == 0 && dim <= kernels::kHeadDimMax) continue;
      return fail(Errc::unsupported,
                  fmt::format("layer {}: head dim: got {}, expected a multiple of 16 up to {}", i,
                              dim, kernels::kHeadDimMax),
                  "head_dim");
    }
    if (layer.heads % layer.kv_heads == 0) continue;
    return fail(Errc::corrupt,
                fmt::format("layer {}: {} heads are not a multiple of {} kv heads", i, layer.heads,
                            layer.kv_heads),
                "num_key_value_heads");
  }
  return {};
}

Result<ModelConfig> read_common_config(const Settings& settings, std::string_view family,
                                       const ConfigDefaults& defaults) {
  ModelConfig config;
  config.family = family;
  config.architecture = settings.architecture();
  config.name = settings.display_name();
  TRY_ASSIGN(config.hidden,
             size_or(settings, {"embedding_length", "hidden_size"}, defaults.hidden, 32, kSizeMax));
  TRY_ASSIGN(config.context_length, size_or(settings, {"context_length", "max_position_embeddings"},
                                            defaults.context, 1, 1 << 30));
  TRY_ASSIGN(const int layers,
             size_or(settings, {"block_count", "num_hidden_layers"}, defaults.layers, 1, 1 << 12));
  constexpr SettingName kEpsilon = {"attention.layer_norm_rms_epsilon", "rms_norm_eps"};
  TRY_ASSIGN(const double epsilon, defaults.epsilon > 0
                                       ? settings.number_or(kEpsilon, defaults.epsilon)
                                       : settings.number(kEpsilon));
  config.norm_epsilon = config.post_norm_epsilon = static_cast<float>(epsilon);
  TRY(read_vocabulary(settings, config));
  TRY(read_layers(settings, layers, defaults, config));
  return config;
}

Result<Activation> read_activation(const Settings& settings, std::string_view json_key,
                                   Activation fallback) {
  TRY_ASSIGN(const std::string word, settings.text_or({"", json_key}, ""));
  if (word.empty()) return fallback;
  if (word == "silu" || word == "swish") return Activation::silu;
  if (word == "gelu_pytorch_tanh" || word == "gelu_new") return Activation::gelu_tanh;
  if (word == "gelu") return Activation::gelu;
  return fail(
      Errc::unsupported,
      fmt::format("key {}: got \"{}\", expected \"silu\", \"gelu_pytorch_tanh\" or \"gelu\"",
                  json_key, word),
      std::string(json_key));
}

Result<std::vector<bool>> read_full_layers(const Settings& settings, int layers,
                                           std::string_view local, bool (*is_full)(int, int)) {
  std::vector<bool> full;
  TRY_ASSIGN(const std::vector<std::string> types, settings.texts("layer_types", layers));
  for (const std::string& type : types) {
    if (type != "full_attention" && type != local) {
      return fail(Errc::unsupported,
                  fmt::format("key layer_types: got \"{}\", expected \"full_attention\" or \"{}\"",
                              type, local),
                  "layer_types");
    }
    full.push_back(type == "full_attention");
  }
  if (!full.empty()) return full;
  int period = 0;
  if (settings.is_gguf()) {
    constexpr SettingName kPattern = {"attention.sliding_window_pattern", ""};
    TRY_ASSIGN(const std::vector<std::int64_t> pattern,
               settings.checkpoint().gguf()->integers(settings.spelled(kPattern)));
    if (pattern.size() > 1) {
      TRY_ASSIGN(const std::vector<int> flags, settings.per_layer(kPattern, layers, 0, 1));
      for (const int flag : flags) full.push_back(flag == 0);
      return full;
    }
    TRY_ASSIGN(period, settings.integer_or(kPattern, 0, 1, 1 << 12));
  } else {
    const char* key = settings.has({"", "sliding_window_pattern"}) ? "sliding_window_pattern"
                                                                   : "_sliding_window_pattern";
    TRY_ASSIGN(period, settings.integer_or({"", key}, 0, 1, 1 << 12));
  }
  for (int layer = 0; layer < layers; layer++) {
    full.push_back(period > 0 ? (layer + 1) % period == 0 : is_full(layer, layers));
  }
  return full;
}

float checkpoint_scalar(const Settings& settings, double exact) {
  const float value = static_cast<float>(exact);
  if (settings.is_gguf()) return value;
  const TensorNames names(settings.checkpoint(), {});
  const StoredTensor* tensor = settings.checkpoint().find(names.stored("token_embd.scales"));
  if (tensor == nullptr) tensor = settings.checkpoint().find(names.stored("token_embd.weight"));
  const bool rounds = tensor != nullptr && tensor->type == kernels::WeightType::bf16;
  return rounds ? kernels::bfloat_to_float(kernels::float_to_bfloat(value)) : value;
}

int add_rope(ModelConfig& config, RopeConfig rope) {
  const auto found = std::ranges::find(config.ropes, rope);
  if (found != config.ropes.end()) return static_cast<int>(found - config.ropes.begin());
  config.ropes.push_back(std::move(rope));
  return static_cast<int>(config.ropes.size()) - 1;
}

Status refuse_flag(const Settings& settings, std::string_view json_key) {
  if (settings.is_gguf()) return {};
  TRY_ASSIGN(const bool set, settings.flag_or({"", json_key}, false));
  if (!set) return {};
  return fail(Errc::unsupported, fmt::format("key {}: true is not supported", json_key),
              std::string(json_key));
}

}  // namespace reprise
