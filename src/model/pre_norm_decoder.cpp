// Wiring of the plain decoder. Source: transformers modeling_llama.py, modeling_qwen3_moe.py.
#include "model/pre_norm_decoder.h"

#include <cmath>

#include "model/common_config.h"
#include "model/rope_settings.h"

namespace reprise {

void PreNormDecoder::run_layer(int layer, Forward& pass) const {
  const Layer& w = layers_[static_cast<std::size_t>(layer)];
  const int hidden = pass.config().hidden;
  const LayerConfig& shape = pass.layer(layer);
  pass.project(pass.normed_rows(), hidden,
               [&](int row) { pass.norm(pass.hidden(row), w.attention_norm, pass.normed(row)); },
               {{&w.attention.query, &pass.query_rows()},
                {&w.attention.key, &pass.key_rows()},
                {&w.attention.value, &pass.value_rows()}});
  pass.for_each_row([&](int row) {
    if (options_.has_query_key_norm) {
      pass.norm_heads(pass.query(row), shape.heads, shape.head_dim, w.query_norm);
      pass.norm_heads(pass.key(row), shape.kv_heads, shape.head_dim, w.key_norm);
    }
    pass.rotate(layer, row);
    pass.store(layer, row);
  });
  attend_and_project(pass, layer, w.attention);
  if (shape.has_experts) {
    run_experts(w, pass);
    return;
  }
  pass.feed_forward(w.feed_forward, pass.config().activation, [&](int row) {
    pass.add(pass.hidden(row), pass.branch(row), hidden);
    pass.norm(pass.hidden(row), w.ffn_norm, pass.normed(row));
  });
  pass.for_each_row([&](int row) { pass.add(pass.hidden(row), pass.branch(row), hidden); });
}

// Softmax over all experts; the most probable ones by their probabilities.
void PreNormDecoder::run_experts(const Layer& w, Forward& pass) const {
  const ModelConfig& config = pass.config();
  pass.project(pass.normed_rows(), config.hidden,
               [&](int row) {
                 pass.add(pass.hidden(row), pass.branch(row), config.hidden);
                 pass.norm(pass.hidden(row), w.ffn_norm, pass.normed(row));
               },
               {{&w.router, &pass.router_rows()}});
  pass.for_each_row([&](int row) {
    const std::span scores(pass.router(row), static_cast<std::size_t>(config.experts.count));
    const std::span<ExpertChoice> chosen = pass.choices(row);
    softmax(scores);
    choose_experts(scores, chosen);
    for (ExpertChoice& choice : chosen) {
      choice.weight = scores[static_cast<std::size_t>(choice.expert)];
    }
    if (config.experts.normalises) normalise_weights(chosen, 0);
  });
  pass.run_experts(w.experts, pass.config().activation, pass.normed_rows());
  pass.for_each_row(
      [&](int row) { pass.add(pass.hidden(row), pass.expert_sum(row), config.hidden); });
}

Result<std::unique_ptr<Family>> PreNormDecoder::bind(const ModelConfig& config,
                                                     WeightLoader& loader, Options options) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    const LayerConfig& shape = config.layers[i];
    Layer layer;
    TRY_ASSIGN(layer.attention_norm, bind_norm(i, "attn_norm", config.hidden, loader));
    TRY_ASSIGN(layer.ffn_norm, bind_norm(i, "ffn_norm", config.hidden, loader));
    if (options.has_query_key_norm) {
      TRY_ASSIGN(layer.query_norm, bind_norm(i, "attn_q_norm", shape.head_dim, loader));
      TRY_ASSIGN(layer.key_norm, bind_norm(i, "attn_k_norm", shape.head_dim, loader));
    }
    TRY_ASSIGN(layer.attention, bind_attention(config, i, loader));
    if (shape.has_experts) {
      TRY_ASSIGN(layer.router, loader.float_linear(block_name(i, "ffn_gate_inp"),
                                                   config.experts.count, config.hidden));
      TRY_ASSIGN(layer.experts, bind_experts(config, i, loader));
    } else {
      TRY_ASSIGN(layer.feed_forward, bind_feed_forward(config, i, loader, shape.feed_forward));
    }
    layers.push_back(std::move(layer));
  }
  std::unique_ptr<Family> family = std::make_unique<PreNormDecoder>(std::move(layers), options);
  TRY(bind_common(config, loader, *family));
  return family;
}

Result<ModelConfig> read_pre_norm_config(const Settings& settings, std::string_view family,
                                         kernels::RopeLayout gguf_layout, double default_theta) {
  TRY_ASSIGN(ModelConfig config, read_common_config(settings, family));
  TRY_ASSIGN(config.activation, read_activation(settings, "hidden_act", Activation::silu));
  const int head_dim = config.layers[0].head_dim;
  TRY_ASSIGN(RopeSettings settings_of_rope,
             read_rope_settings(settings, "full_attention", default_theta));
  TRY_ASSIGN(
      const int rotary_dim,
      settings.integer_or({"rope.dimension_count", ""},
                          static_cast<int>(head_dim * settings_of_rope.partial), 2, head_dim));
  settings_of_rope.partial = static_cast<double>(rotary_dim) / head_dim;
  const kernels::RopeLayout layout =
      settings.is_gguf() ? gguf_layout : kernels::RopeLayout::half_split;
  TRY_ASSIGN(RopeConfig rope, make_rope(settings_of_rope, head_dim, layout, config.context_length));
  if (settings.is_gguf())
    TRY(apply_rope_factors(settings.checkpoint(), config.context_length, rope));
  TRY_ASSIGN(
      const double scale,
      settings.number_or({"attention.scale", ""}, 1.0 / std::sqrt(static_cast<double>(head_dim))));
  const int index = add_rope(config, std::move(rope));
  for (LayerConfig& layer : config.layers) {
    layer.attention_scale = static_cast<float>(scale);
    layer.rope = index;
  }
  return config;
}

}  // namespace reprise
