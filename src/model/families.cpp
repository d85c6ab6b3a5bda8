// The list of families, and what they share when they read a file.
#include <array>
#include <limits>

#include <fmt/core.h>

#include "kernels/math.h"
#include "model/family.h"

namespace reprise {
namespace {

constexpr std::array kFamilies = {&kGemma3Family, &kLlamaFamily};

std::unexpected<Error> out_of_range(const std::string& key, std::int64_t got, int low, int high) {
  return fail(Errc::corrupt, fmt::format("key {}: got {}, expected {} to {}", key, got, low, high),
              key);
}

std::unexpected<Error> missing(const std::string& key) {
  return fail(Errc::not_found, fmt::format("key {} is missing from the file", key), key);
}

}  // namespace

Result<const FamilyEntry*> find_family(std::string_view architecture) {
  std::string known;
  for (const FamilyEntry* family : kFamilies) {
    if (family->architecture == architecture) return family;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family->architecture);
  }
  return fail(
      Errc::unsupported,
      fmt::format("architecture \"{}\" is not supported (supported: {})", architecture, known),
      "general.architecture");
}

bool ConfigReader::has(std::string_view key) const {
  return file_->find(prefix_ + std::string(key)) != nullptr;
}

Result<int> ConfigReader::integer(std::string_view key, int low, int high) const {
  const std::string name = prefix_ + std::string(key);
  TRY_ASSIGN(const std::optional<std::int64_t> value, file_->integer(name));
  if (!value) return missing(name);
  if (*value < low || *value > high) return out_of_range(name, *value, low, high);
  return static_cast<int>(*value);
}

Result<int> ConfigReader::integer_or(std::string_view key, int fallback, int low, int high) const {
  return has(key) ? integer(key, low, high) : Result<int>(fallback);
}

Result<double> ConfigReader::number(std::string_view key) const {
  const std::string name = prefix_ + std::string(key);
  TRY_ASSIGN(const std::optional<double> value, file_->number(name));
  if (!value) return missing(name);
  if (!(*value > 0) || *value > std::numeric_limits<float>::max()) {
    return fail(Errc::corrupt,
                fmt::format("key {}: got {}, expected a positive number", name, *value), name);
  }
  return *value;
}

Result<double> ConfigReader::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : Result<double>(fallback);
}

Result<std::string> ConfigReader::text_or(std::string_view key, std::string_view fallback) const {
  TRY_ASSIGN(const std::optional<std::string_view> value, file_->text(prefix_ + std::string(key)));
  return std::string(value.value_or(fallback));
}

Result<std::vector<int>> ConfigReader::per_layer(std::string_view key, int layers, int low,
                                                 int high) const {
  const std::string name = prefix_ + std::string(key);
  TRY_ASSIGN(std::vector<std::int64_t> values, file_->integers(name));
  if (values.empty()) return missing(name);
  if (values.size() == 1) values.resize(static_cast<std::size_t>(layers), values[0]);
  if (values.size() < static_cast<std::size_t>(layers)) {
    return fail(Errc::corrupt,
                fmt::format("key {}: got {} values for {} layers", name, values.size(), layers),
                name);
  }
  std::vector<int> result;
  for (int layer = 0; layer < layers; layer++) {
    const std::int64_t value = values[static_cast<std::size_t>(layer)];
    if (value < low || value > high) return out_of_range(name, value, low, high);
    result.push_back(static_cast<int>(value));
  }
  return result;
}

namespace {

// Head counts and head dims of every layer. Head dims must be what the kernels can do.
Status read_heads(const ConfigReader& reader, int layer_count, ModelConfig& config) {
  constexpr int kHeadsMax = 1 << 10;
  TRY_ASSIGN(const std::vector<int> heads,
             reader.per_layer("attention.head_count", layer_count, 1, kHeadsMax));
  std::vector<int> kv_heads = heads;
  if (reader.has("attention.head_count_kv")) {
    TRY_ASSIGN(kv_heads, reader.per_layer("attention.head_count_kv", layer_count, 1, kHeadsMax));
  }
  TRY_ASSIGN(const int key_length,
             reader.integer_or("attention.key_length", config.hidden / heads[0], 1, 1 << 16));
  TRY_ASSIGN(const int value_length,
             reader.integer_or("attention.value_length", key_length, 1, 1 << 16));
  for (const int dim : {key_length, value_length}) {
    if (dim % 16 != 0 || dim > kernels::kHeadDimMax) {
      return fail(Errc::unsupported,
                  fmt::format("head dim: got {}, expected a multiple of 16 up to {}", dim,
                              kernels::kHeadDimMax),
                  "attention.key_length");
    }
  }
  for (int i = 0; i < layer_count; i++) {
    const auto at = static_cast<std::size_t>(i);
    if (heads[at] % kv_heads[at] != 0) {
      return fail(Errc::corrupt,
                  fmt::format("layer {}: {} heads are not a multiple of {} kv heads", i, heads[at],
                              kv_heads[at]),
                  "attention.head_count_kv");
    }
    LayerConfig layer;
    layer.heads = heads[at];
    layer.kv_heads = kv_heads[at];
    layer.head_dim = key_length;
    layer.value_dim = value_length;
    config.layers.push_back(layer);
  }
  return {};
}

}  // namespace

Result<ModelConfig> read_common_config(const ConfigReader& reader, std::string_view family) {
  constexpr int kSizeMax = 1 << 24;
  ModelConfig config;
  config.family = family;
  TRY_ASSIGN(const std::optional<std::string_view> architecture,
             reader.file().text("general.architecture"));
  TRY_ASSIGN(const std::optional<std::string_view> name, reader.file().text("general.name"));
  config.architecture = architecture.value_or("");
  config.name = name.value_or("");
  TRY_ASSIGN(config.hidden, reader.integer("embedding_length", 32, kSizeMax));
  TRY_ASSIGN(config.feed_forward, reader.integer("feed_forward_length", 1, kSizeMax));
  TRY_ASSIGN(config.context_length, reader.integer("context_length", 1, 1 << 30));
  TRY_ASSIGN(const int layer_count, reader.integer("block_count", 1, 1 << 12));
  TRY_ASSIGN(const double epsilon, reader.number("attention.layer_norm_rms_epsilon"));
  config.norm_epsilon = static_cast<float>(epsilon);
  const GgufTensor* embedding = reader.file().find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->dims.size() != 2) return missing("token_embd.weight");
  if (embedding->dims[1] < 1 || embedding->dims[1] > kSizeMax) {
    return out_of_range("token_embd.weight", embedding->dims[1], 1, kSizeMax);
  }
  config.vocabulary = static_cast<int>(embedding->dims[1]);
  config.tied_embeddings = reader.file().find_tensor("output.weight") == nullptr;
  TRY(read_heads(reader, layer_count, config));
  return config;
}

std::vector<double> rope_inverse_frequencies(int rotary_dim, double theta, double factor) {
  std::vector<double> inverse;
  for (int i = 0; i < rotary_dim / 2; i++) {
    inverse.push_back(kernels::pow_f64(theta, -2.0 * i / rotary_dim) / factor);
  }
  return inverse;
}

Result<AttentionWeights> bind_attention(const ModelConfig& config, std::size_t layer,
                                        WeightLoader& loader) {
  const LayerConfig& shape = config.layers[layer];
  const std::string at = fmt::format("blk.{}.attn_", layer);
  const int query_rows = shape.heads * shape.head_dim;
  const int attended_rows = shape.heads * shape.value_dim;
  AttentionWeights weights;
  TRY_ASSIGN(weights.query, loader.linear(at + "q", query_rows, config.hidden));
  TRY_ASSIGN(weights.key, loader.linear(at + "k", shape.kv_heads * shape.head_dim, config.hidden));
  TRY_ASSIGN(weights.value,
             loader.linear(at + "v", shape.kv_heads * shape.value_dim, config.hidden));
  TRY_ASSIGN(weights.output, loader.linear(at + "output", config.hidden, attended_rows));
  return weights;
}

Result<FeedForwardWeights> bind_feed_forward(const ModelConfig& config, std::size_t layer,
                                             WeightLoader& loader) {
  const std::string at = fmt::format("blk.{}.ffn_", layer);
  FeedForwardWeights weights;
  TRY_ASSIGN(weights.gate, loader.linear(at + "gate", config.feed_forward, config.hidden));
  TRY_ASSIGN(weights.up, loader.linear(at + "up", config.feed_forward, config.hidden));
  TRY_ASSIGN(weights.down, loader.linear(at + "down", config.hidden, config.feed_forward));
  return weights;
}

Status bind_common(const ModelConfig& config, WeightLoader& loader, Family& family) {
  TRY_ASSIGN(family.embedding,
             loader.matrix("token_embd.weight", config.vocabulary, config.hidden));
  TRY_ASSIGN(family.final_norm, loader.vector("output_norm.weight", config.hidden));
  if (!config.tied_embeddings) {
    TRY_ASSIGN(family.untied_head,
               loader.matrix("output.weight", config.vocabulary, config.hidden));
  }
  return {};
}

}  // namespace reprise
