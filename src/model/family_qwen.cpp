// Qwen 2 (biases on q, k and v), Qwen 3 (norms of queries and keys) and its mixture of experts.
// Source: transformers modeling_qwen2.py, modeling_qwen3.py, modeling_qwen3_moe.py.
#include <algorithm>

#include <fmt/core.h>

#include "model/common_config.h"
#include "model/pre_norm_decoder.h"

namespace reprise {
namespace {

constexpr double kTheta = 1e6;
constexpr TensorName kMoeNames[] = {{"ffn_gate_inp", "mlp.gate"}, {"ffn_exps", "mlp.experts"}};

// Released models have no windows; a file that asks for them would be computed wrongly.
Result<ModelConfig> read_dense(const Settings& settings, std::string_view family) {
  TRY(refuse_flag(settings, "use_sliding_window"));
  return read_pre_norm_config(settings, family, kernels::RopeLayout::half_split, kTheta);
}

Result<ModelConfig> read_qwen2(const Settings& settings) {
  return read_dense(settings, "qwen2");
}

Result<ModelConfig> read_qwen3(const Settings& settings) {
  return read_dense(settings, "qwen3");
}

// A layer has experts when (i + 1) is a multiple of decoder_sparse_step and it is not listed as
// dense.
Result<ModelConfig> read_qwen3_moe(const Settings& settings) {
  TRY_ASSIGN(ModelConfig config, read_dense(settings, "qwen3_moe"));
  const char* count = settings.has({"", "num_experts"}) ? "num_experts" : "num_local_experts";
  TRY_ASSIGN(config.experts, read_experts(settings, {"expert_count", count},
                                          {"expert_used_count", "num_experts_per_tok"},
                                          {"expert_feed_forward_length", "moe_intermediate_size"}));
  TRY_ASSIGN(const int step, settings.integer_or({"", "decoder_sparse_step"}, 1, 1, 1 << 12));
  std::vector<std::int64_t> dense;
  if (const JsonValue* list = settings.json("mlp_only_layers"); list && list->is_array()) {
    for (const JsonValue& layer : list->get_array()) {
      if (layer.is_int64()) dense.push_back(layer.get_int64());
    }
  }
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    const auto layer = static_cast<std::int64_t>(i);
    const bool listed = std::ranges::find(dense, layer) != dense.end();
    config.layers[i].has_experts = !listed && (layer + 1) % step == 0;
  }
  // GGUF has no key for it: released models normalise.
  TRY_ASSIGN(config.experts.normalises,
             settings.flag_or({"", "norm_topk_prob"}, settings.is_gguf()));
  return config;
}

Result<std::unique_ptr<Family>> bind_qwen2(const ModelConfig& config, WeightLoader& loader) {
  return PreNormDecoder::bind(config, loader, {});
}

Result<std::unique_ptr<Family>> bind_qwen3(const ModelConfig& config, WeightLoader& loader) {
  return PreNormDecoder::bind(config, loader, {.has_query_key_norm = true});
}

}  // namespace

const FamilyEntry kQwen2Family = {"qwen2", "qwen2", {"qwen2"}, {}, read_qwen2, bind_qwen2};
const FamilyEntry kQwen3Family = {"qwen3", "qwen3", {"qwen3"}, {}, read_qwen3, bind_qwen3};
const FamilyEntry kQwen3MoeFamily = {"qwen3_moe", "qwen3moe",     {"qwen3_moe"},
                                     kMoeNames,   read_qwen3_moe, bind_qwen3};

}  // namespace reprise
