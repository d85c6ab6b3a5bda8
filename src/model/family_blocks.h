// Pieces of blocks that families bind and wire alike.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "model/family.h"
#include "model/forward.h"

namespace reprise {

// The projections of attention; key and value are empty where the layer reads another's, value
// where it is the keys'.
struct AttentionWeights {
  Linear query, key, value, output;
};

// "blk.3.<name>"
std::string block_name(std::size_t layer, std::string_view name);

Result<AttentionWeights> bind_attention(const ModelConfig& config, std::size_t layer,
                                        WeightLoader& loader);
// blk.N.ffn_{gate,up,down}<suffix> of the given width ("_shexp": the shared expert).
Result<FeedForwardWeights> bind_feed_forward(const ModelConfig& config, std::size_t layer,
                                             WeightLoader& loader, int width,
                                             std::string_view suffix = "");
Result<ExpertWeights> bind_experts(const ModelConfig& config, std::size_t layer,
                                   WeightLoader& loader, FusedExperts fused = FusedExperts::rows);
// The norm weight "blk.N.<name>.weight" [size]; `centred` folders store what is to be added to 1.
Result<std::vector<float>> bind_norm(std::size_t layer, std::string_view name, int size,
                                     WeightLoader& loader, bool centred = false);
// The token embedding, the final norm and the head when it is there.
Status bind_common(const ModelConfig& config, WeightLoader& loader, Family& family,
                   bool centred_norm = false);

// Reads expert_count, expert_used_count and expert_feed_forward_length in the spellings given.
// Errors: corrupt when more are used than there are.
Result<ExpertConfig> read_experts(const Settings& settings, SettingName count, SettingName used,
                                  SettingName feed_forward);

// branch = attention of the layer's stored rows through its output projection.
void attend_and_project(Forward& pass, int layer, const AttentionWeights& weights);

// branch = output(attention * sigmoid(gate of the layer's normed input)), with norms of queries and
// keys (empty: ones). AFMoE and Muse Glimmer.
void gated_attention(Forward& pass, int layer, std::span<const float> attention_norm,
                     std::span<const float> query_norm, std::span<const float> key_norm,
                     const AttentionWeights& weights, const Linear& gate);

}  // namespace reprise
