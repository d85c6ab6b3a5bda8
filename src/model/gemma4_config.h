// The settings of Gemma 4, from GGUF metadata or config.json.
#pragma once
#include <array>

#include "base/error.h"
#include "model/model_config.h"
#include "model/settings.h"
#include "model/tensor_names.h"

namespace reprise {

inline constexpr std::array<TensorName, 17> kGemma4Names = {{
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
    {"ffn_gate_inp", "router.proj"},
    {"ffn_gate_inp.scale", "router.scale"},
    {"ffn_down_exps.scale", "router.per_expert_scale"},
    {"ffn_exps", "experts"},
    {"layer_output_scale.weight", "layer_scalar"},
    {"inp_gate", "per_layer_input_gate"},
    {"proj", "per_layer_projection"},
    {"post_norm", "post_per_layer_input_norm"},
    {"per_layer_token_embd", "embed_tokens_per_layer"},
    {"per_layer_model_proj", "per_layer_model_projection"},
    {"per_layer_proj_norm", "per_layer_projection_norm"},
}};

// Source: transformers configuration_gemma4.py; keys of GGUF: llama.cpp's gemma4.cpp.
// Errors: corrupt, unsupported, not_found, naming the key.
Result<ModelConfig> read_gemma4_config(const Settings& settings);

}  // namespace reprise
