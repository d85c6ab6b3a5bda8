// Binding and wiring that families share.
#include "model/family_blocks.h"

#include <fmt/core.h>

namespace reprise {

std::string block_name(std::size_t layer, std::string_view name) {
  return fmt::format("blk.{}.{}", layer, name);
}

Result<AttentionWeights> bind_attention(const ModelConfig& config, std::size_t layer,
                                        WeightLoader& loader) {
  const LayerConfig& shape = config.layers[layer];
  const auto linear = [&](std::string_view name, int outputs, int inputs) {
    return loader.linear(block_name(layer, name), outputs, inputs);
  };
  AttentionWeights weights;
  TRY_ASSIGN(weights.query, linear("attn_q", shape.heads * shape.head_dim, config.hidden));
  if (shape.kv_source < 0) {
    TRY_ASSIGN(weights.key, linear("attn_k", shape.kv_heads * shape.head_dim, config.hidden));
    if (!shape.value_is_key) {
      TRY_ASSIGN(weights.value, linear("attn_v", shape.kv_heads * shape.value_dim, config.hidden));
    }
  }
  TRY_ASSIGN(weights.output, linear("attn_output", config.hidden, shape.heads * shape.value_dim));
  return weights;
}

Result<FeedForwardWeights> bind_feed_forward(const ModelConfig& config, std::size_t layer,
                                             WeightLoader& loader, int width,
                                             std::string_view suffix) {
  const auto linear = [&](std::string_view name, int outputs, int inputs) {
    return loader.linear(fmt::format("blk.{}.ffn_{}{}", layer, name, suffix), outputs, inputs);
  };
  FeedForwardWeights weights;
  TRY_ASSIGN(weights.gate, linear("gate", width, config.hidden));
  TRY_ASSIGN(weights.up, linear("up", width, config.hidden));
  TRY_ASSIGN(weights.down, linear("down", config.hidden, width));
  return weights;
}

Result<ExpertWeights> bind_experts(const ModelConfig& config, std::size_t layer,
                                   WeightLoader& loader, FusedExperts fused) {
  const ExpertConfig& experts = config.experts;
  ExpertWeights weights;
  TRY_ASSIGN(weights.gate, loader.experts(layer, ExpertPart::gate, fused, experts.count,
                                          experts.feed_forward, config.hidden));
  TRY_ASSIGN(weights.up, loader.experts(layer, ExpertPart::up, fused, experts.count,
                                        experts.feed_forward, config.hidden));
  TRY_ASSIGN(weights.down, loader.experts(layer, ExpertPart::down, fused, experts.count,
                                          config.hidden, experts.feed_forward));
  return weights;
}

Result<std::vector<float>> bind_norm(std::size_t layer, std::string_view name, int size,
                                     WeightLoader& loader, bool centred) {
  // GGUF's converter has added the one already.
  const float add = centred && !loader.is_gguf() ? 1.0F : 0.0F;
  return loader.vector(block_name(layer, name) + ".weight", size, add);
}

Status bind_common(const ModelConfig& config, WeightLoader& loader, Family& family,
                   bool centred_norm) {
  TRY_ASSIGN(family.embedding, loader.first_rows("token_embd", config.vocabulary, config.hidden));
  const float add = centred_norm && !loader.is_gguf() ? 1.0F : 0.0F;
  TRY_ASSIGN(family.final_norm, loader.vector("output_norm.weight", config.hidden, add));
  if (!config.tied_embeddings) {
    TRY_ASSIGN(family.untied_head, loader.first_rows("output", config.vocabulary, config.hidden));
  }
  return {};
}

Result<ExpertConfig> read_experts(const Settings& settings, SettingName count, SettingName used,
                                  SettingName feed_forward) {
  ExpertConfig experts;
  TRY_ASSIGN(experts.count, settings.integer(count, 1, 1 << 16));
  TRY_ASSIGN(experts.used, settings.integer(used, 1, 1 << 16));
  TRY_ASSIGN(experts.feed_forward, settings.integer(feed_forward, 1, 1 << 24));
  if (experts.used > experts.count) {
    return setting_out_of_range(settings.spelled(used), experts.used, 1, experts.count);
  }
  return experts;
}

void attend_and_project(Forward& pass, int layer, const AttentionWeights& weights) {
  const LayerConfig& shape = pass.layer(layer);
  pass.attend(layer);
  pass.project(pass.attended_rows(), shape.heads * shape.value_dim, [](int) {},
               {{&weights.output, &pass.branch_rows()}});
}

void gated_attention(Forward& pass, int layer, std::span<const float> attention_norm,
                     std::span<const float> query_norm, std::span<const float> key_norm,
                     const AttentionWeights& weights, const Linear& gate) {
  const LayerConfig& shape = pass.layer(layer);
  pass.project(pass.normed_rows(), pass.config().hidden,
               [&](int row) { pass.norm(pass.hidden(row), attention_norm, pass.normed(row)); },
               {{&weights.query, &pass.query_rows()},
                {&weights.key, &pass.key_rows()},
                {&weights.value, &pass.value_rows()},
                {&gate, &pass.attention_gate_rows()}});
  pass.for_each_row([&](int row) {
    pass.norm_heads(pass.query(row), shape.heads, shape.head_dim, query_norm);
    pass.norm_heads(pass.key(row), shape.kv_heads, shape.head_dim, key_norm);
    pass.rotate(layer, row);
    pass.store(layer, row);
  });
  pass.attend(layer);
  const int columns = shape.heads * shape.value_dim;
  pass.project(pass.attended_rows(), columns,
               [&](int row) {
                 pass.sigmoid_multiply(pass.attended(row), pass.attention_gate(row), columns);
               },
               {{&weights.output, &pass.branch_rows()}});
}

}  // namespace reprise
