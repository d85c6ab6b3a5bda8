// Llama (1 to 3.x, SmolLM2 and others of the shape): pre-norm blocks, SwiGLU, full attention.
// Source: transformers modeling_llama.py; GGUF files interleave the rows of q and k for interleaved
// RoPE.
#include <cmath>

#include <fmt/core.h>

#include "model/family.h"
#include "model/forward.h"

namespace reprise {
namespace {

struct Layer {
  std::vector<float> attention_norm, ffn_norm;
  AttentionWeights attention;
  FeedForwardWeights feed_forward;
};

class Llama : public Family {
 public:
  explicit Llama(std::vector<Layer> layers) : layers_(std::move(layers)) {}

  void run_layer(int layer, Forward& pass) const override {
    const Layer& w = layers_[static_cast<std::size_t>(layer)];
    const ModelConfig& config = pass.config();
    const LayerConfig& shape = config.layers[static_cast<std::size_t>(layer)];
    pass.project(pass.normed_rows(), config.hidden,
                 [&](int row) { pass.norm(pass.hidden(row), w.attention_norm, pass.normed(row)); },
                 {{&w.attention.query, &pass.query_rows()},
                  {&w.attention.key, &pass.key_rows()},
                  {&w.attention.value, &pass.value_rows()}});
    pass.for_each_row([&](int row) {
      pass.rotate(layer, row);
      pass.store(layer, row);
    });
    pass.attend(layer);
    pass.project(pass.attended_rows(), shape.heads * shape.value_dim, [](int) {},
                 {{&w.attention.output, &pass.branch_rows()}});
    pass.project(
        pass.normed_rows(), config.hidden,
        [&](int row) {
          pass.add(pass.hidden(row), pass.branch(row), config.hidden);
          pass.norm(pass.hidden(row), w.ffn_norm, pass.normed(row));
        },
        {{&w.feed_forward.gate, &pass.gate_rows()}, {&w.feed_forward.up, &pass.up_rows()}});
    pass.project(pass.gate_rows(), config.feed_forward,
                 [&](int row) { pass.silu_multiply(pass.gate(row), pass.up(row)); },
                 {{&w.feed_forward.down, &pass.branch_rows()}});
    pass.for_each_row(
        [&](int row) { pass.add(pass.hidden(row), pass.branch(row), config.hidden); });
  }

 private:
  std::vector<Layer> layers_;
};

// Refuses what this family's files may ask for and we would get wrong.
Status check_variant(const ConfigReader& reader) {
  TRY_ASSIGN(const int experts, reader.integer_or("expert_count", 0, 0, 1 << 16));
  if (experts > 0) {
    return fail(
        Errc::unsupported,
        fmt::format(
            "key llama.expert_count: got {}, mixture-of-experts Llama files are not supported",
            experts),
        "llama.expert_count");
  }
  TRY_ASSIGN(const std::string scaling, reader.text_or("rope.scaling.type", "none"));
  if (scaling != "none" && scaling != "linear") {
    return fail(
        Errc::unsupported,
        fmt::format(
            "key llama.rope.scaling.type: \"{}\" is not supported (supported: none, linear, "
            "and llama3 through the tensor rope_freqs.weight)",
            scaling),
        "llama.rope.scaling.type");
  }
  return {};
}

// Divides the angles by the file's per-pair factors (Llama 3 scaling), when it has them.
Status apply_rope_factors(const GgufFile& file, RopeConfig& rope) {
  const GgufTensor* factors = file.find_tensor("rope_freqs.weight");
  if (factors == nullptr) return {};
  if (factors->type != kernels::WeightType::f32 ||
      factors->elements() != static_cast<std::int64_t>(rope.inverse_frequencies.size())) {
    return fail(
        Errc::corrupt,
        fmt::format("tensor rope_freqs.weight: got {} elements of type {}, expected {} of type F32",
                    factors->elements(), ggml_type_name(factors->type_id),
                    rope.inverse_frequencies.size()),
        "rope_freqs.weight");
  }
  for (std::size_t i = 0; i < rope.inverse_frequencies.size(); i++) {
    float factor = 0;
    std::memcpy(&factor, factors->bytes.data() + i * sizeof factor, sizeof factor);
    if (!(factor > 0)) {
      return fail(Errc::corrupt,
                  fmt::format("tensor rope_freqs.weight: factor {} is {}, expected > 0", i, factor),
                  "rope_freqs.weight");
    }
    rope.inverse_frequencies[i] /= static_cast<double>(factor);
  }
  return {};
}

Result<ModelConfig> read_config(const GgufFile& file) {
  const ConfigReader reader(file, "llama");
  TRY(check_variant(reader));
  TRY_ASSIGN(ModelConfig config, read_common_config(reader, "llama"));
  const int head_dim = config.layers[0].head_dim;
  TRY_ASSIGN(const double theta, reader.number_or("rope.freq_base", 10'000.0));
  TRY_ASSIGN(const double factor, reader.number_or("rope.scaling.factor", 1.0));
  TRY_ASSIGN(const int rotary_dim,
             reader.integer_or("rope.dimension_count", head_dim, 2, head_dim));
  TRY_ASSIGN(const double scale,
             reader.number_or("attention.scale", 1.0 / std::sqrt(static_cast<double>(head_dim))));
  if (rotary_dim % 2 != 0) {
    return fail(
        Errc::corrupt,
        fmt::format("key llama.rope.dimension_count: got {}, expected an even number", rotary_dim),
        "llama.rope.dimension_count");
  }
  RopeConfig rope{kernels::RopeLayout::interleaved,
                  rope_inverse_frequencies(rotary_dim, theta, factor)};
  TRY(apply_rope_factors(file, rope));
  config.ropes = {rope};
  for (LayerConfig& layer : config.layers) {
    layer.attention_scale = static_cast<float>(scale);
    layer.rope = 0;
  }
  return config;
}

Result<std::unique_ptr<Family>> bind(const ModelConfig& config, WeightLoader& loader) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    const std::string at = fmt::format("blk.{}.", i);
    Layer layer;
    TRY_ASSIGN(layer.attention_norm, loader.vector(at + "attn_norm.weight", config.hidden));
    TRY_ASSIGN(layer.ffn_norm, loader.vector(at + "ffn_norm.weight", config.hidden));
    TRY_ASSIGN(layer.attention, bind_attention(config, i, loader));
    TRY_ASSIGN(layer.feed_forward, bind_feed_forward(config, i, loader));
    layers.push_back(std::move(layer));
  }
  std::unique_ptr<Family> family = std::make_unique<Llama>(std::move(layers));
  TRY(bind_common(config, loader, *family));
  return family;
}

}  // namespace

const FamilyEntry kLlamaFamily = {"llama", read_config, bind};

}  // namespace reprise
