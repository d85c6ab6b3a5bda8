// Gemma 3 (text): sandwich norms, query and key norms, gated GELU, windows with every sixth layer
// full. Source: transformers modeling_gemma3.py; GGUF norms already carry the "+1".
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "model/family.h"
#include "model/forward.h"

namespace reprise {
namespace {

constexpr int kPattern = 6;               // a full layer after every five windowed ones
constexpr double kLocalTheta = 10'000.0;  // of windowed layers; most files do not state it

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
    const ModelConfig& config = pass.config();
    const LayerConfig& shape = config.layers[static_cast<std::size_t>(layer)];
    pass.project(pass.normed_rows(), config.hidden,
                 [&](int row) { pass.norm(pass.hidden(row), w.attention_norm, pass.normed(row)); },
                 {{&w.attention.query, &pass.query_rows()},
                  {&w.attention.key, &pass.key_rows()},
                  {&w.attention.value, &pass.value_rows()}});
    pass.for_each_row([&](int row) {
      pass.norm_heads(pass.query(row), shape.heads, w.query_norm);
      pass.norm_heads(pass.key(row), shape.kv_heads, w.key_norm);
      pass.rotate(layer, row);
      pass.store(layer, row);
    });
    pass.attend(layer);
    pass.project(pass.attended_rows(), shape.heads * shape.value_dim, [](int) {},
                 {{&w.attention.output, &pass.branch_rows()}});
    pass.project(
        pass.normed_rows(), config.hidden,
        [&](int row) {
          pass.norm(pass.branch(row), w.post_attention_norm, pass.branch(row));
          pass.add(pass.hidden(row), pass.branch(row), config.hidden);
          pass.norm(pass.hidden(row), w.ffn_norm, pass.normed(row));
        },
        {{&w.feed_forward.gate, &pass.gate_rows()}, {&w.feed_forward.up, &pass.up_rows()}});
    pass.project(pass.gate_rows(), config.feed_forward,
                 [&](int row) { pass.gelu_tanh_multiply(pass.gate(row), pass.up(row)); },
                 {{&w.feed_forward.down, &pass.branch_rows()}});
    pass.for_each_row([&](int row) {
      pass.norm(pass.branch(row), w.post_ffn_norm, pass.branch(row));
      pass.add(pass.hidden(row), pass.branch(row), config.hidden);
    });
  }

 private:
  std::vector<Layer> layers_;
};

// Which layers are full: the file's pattern (one period, or a flag per layer: 1 = windowed), else
// every sixth.
Result<std::vector<bool>> full_layers(const ConfigReader& reader, int layer_count) {
  std::vector<bool> full;
  TRY_ASSIGN(const std::vector<std::int64_t> pattern,
             reader.file().integers("gemma3.attention.sliding_window_pattern"));
  if (pattern.size() > 1) {
    TRY_ASSIGN(const std::vector<int> windowed,
               reader.per_layer("attention.sliding_window_pattern", layer_count, 0, 1));
    for (const int flag : windowed) full.push_back(flag == 0);
    return full;
  }
  const std::int64_t period = pattern.empty() ? kPattern : pattern[0];
  if (period < 1) {
    return fail(Errc::corrupt,
                fmt::format("key gemma3.attention.sliding_window_pattern: got {}, "
                            "expected at least 1",
                            period),
                "gemma3.attention.sliding_window_pattern");
  }
  for (int layer = 0; layer < layer_count; layer++) full.push_back((layer + 1) % period == 0);
  return full;
}

// Linear scaling of the full layers' angles (4B and larger); anything else is refused by name.
Result<double> global_rope_factor(const ConfigReader& reader) {
  TRY_ASSIGN(const std::string type, reader.text_or("rope.scaling.type", "none"));
  if (type == "none") return 1.0;
  if (type == "linear") return reader.number_or("rope.scaling.factor", 1.0);
  return fail(
      Errc::unsupported,
      fmt::format("key gemma3.rope.scaling.type: \"{}\" is not supported (supported: none, linear)",
                  type),
      "gemma3.rope.scaling.type");
}

Result<ModelConfig> read_config(const GgufFile& file) {
  const ConfigReader reader(file, "gemma3");
  TRY_ASSIGN(ModelConfig config, read_common_config(reader, "gemma3"));
  const int layer_count = static_cast<int>(config.layers.size());
  TRY_ASSIGN(const int window, reader.integer("attention.sliding_window", 1, 1 << 30));
  TRY_ASSIGN(const std::vector<bool> full, full_layers(reader, layer_count));
  TRY_ASSIGN(const double global_theta, reader.number_or("rope.freq_base", 1e6));
  TRY_ASSIGN(const double local_theta, reader.number_or("rope.freq_base_swa", kLocalTheta));
  TRY_ASSIGN(const double factor, global_rope_factor(reader));
  TRY_ASSIGN(const double softcap, reader.number_or("final_logit_softcapping", 0));
  const int head_dim = config.layers[0].head_dim;
  // The 27B model alone scales by hidden / heads instead of the head dim.
  const int scaled_dim = layer_count == 62 ? config.hidden / config.layers[0].heads : head_dim;
  TRY_ASSIGN(const double scale,
             reader.number_or("attention.scale", 1.0 / std::sqrt(static_cast<double>(scaled_dim))));
  config.final_softcap = static_cast<float>(softcap);
  config.embedding_scale =
      std::sqrt(static_cast<float>(config.hidden));  // exact rounding: IEEE sqrt
  config.ropes = {
      {kernels::RopeLayout::half_split, rope_inverse_frequencies(head_dim, local_theta, 1.0)},
      {kernels::RopeLayout::half_split, rope_inverse_frequencies(head_dim, global_theta, factor)}};
  for (std::size_t layer = 0; layer < config.layers.size(); layer++) {
    LayerConfig& target = config.layers[layer];
    target.span =
        full[layer] ? LayerSpan{SpanKind::standard, 0} : LayerSpan{SpanKind::rotating, window};
    target.attention_scale = static_cast<float>(scale);
    target.rope = full[layer] ? 1 : 0;
  }
  return config;
}

Result<std::unique_ptr<Family>> bind(const ModelConfig& config, WeightLoader& loader) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    const LayerConfig& shape = config.layers[i];
    const std::string at = fmt::format("blk.{}.", i);
    Layer layer;
    TRY_ASSIGN(layer.attention_norm, loader.vector(at + "attn_norm.weight", config.hidden));
    TRY_ASSIGN(layer.post_attention_norm,
               loader.vector(at + "post_attention_norm.weight", config.hidden));
    TRY_ASSIGN(layer.ffn_norm, loader.vector(at + "ffn_norm.weight", config.hidden));
    TRY_ASSIGN(layer.post_ffn_norm, loader.vector(at + "post_ffw_norm.weight", config.hidden));
    TRY_ASSIGN(layer.query_norm, loader.vector(at + "attn_q_norm.weight", shape.head_dim));
    TRY_ASSIGN(layer.key_norm, loader.vector(at + "attn_k_norm.weight", shape.head_dim));
    TRY_ASSIGN(layer.attention, bind_attention(config, i, loader));
    TRY_ASSIGN(layer.feed_forward, bind_feed_forward(config, i, loader));
    layers.push_back(std::move(layer));
  }
  std::unique_ptr<Family> family = std::make_unique<Gemma3>(std::move(layers));
  TRY(bind_common(config, loader, *family));
  return family;
}

}  // namespace

const FamilyEntry kGemma3Family = {"gemma3", read_config, bind};

}  // namespace reprise
