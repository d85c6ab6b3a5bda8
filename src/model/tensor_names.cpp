// Translation of tensor names. Source: gguf-py's tensor_mapping.py for the names all families
// share.
#include "model/tensor_names.h"

#include <array>
#include <optional>

#include <fmt/core.h>

namespace reprise {
namespace {

constexpr TensorName kShared[] = {
    {"token_embd", "embed_tokens"},
    {"output_norm", "norm"},
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_gate", "self_attn.gate_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
constexpr std::array<std::string_view, 4> kPrefixes = {"language_model.model.",
                                                       "model.language_model.", "model.", ""};
constexpr std::array<std::string_view, 3> kHeads = {"lm_head", "language_model.lm_head", "output"};

std::optional<std::string_view> look_up(std::span<const TensorName> names, std::string_view name) {
  for (const TensorName& entry : names) {
    if (entry.gguf == name) return entry.folder;
  }
  return std::nullopt;
}

}  // namespace

TensorNames::TensorNames(const Checkpoint& checkpoint, std::span<const TensorName> family)
    : is_gguf_(checkpoint.format() == CheckpointFormat::gguf),
      family_(family),
      prefix_("model."),
      head_(kHeads[0]) {
  for (const std::string_view prefix : kPrefixes) {
    if (checkpoint.find(fmt::format("{}embed_tokens.weight", prefix)) == nullptr) continue;
    prefix_ = prefix;
    break;
  }
  for (const std::string_view head : kHeads) {
    if (checkpoint.find(fmt::format("{}.weight", head)) == nullptr) continue;
    head_ = head;
    break;
  }
}

// A module's or tensor's name within its block, suffix and all.
std::string TensorNames::in_block(std::string_view name) const {
  for (const std::span<const TensorName> names : {family_, std::span<const TensorName>(kShared)}) {
    if (const auto whole = look_up(names, name)) return std::string(*whole);
  }
  const std::size_t dot = name.rfind('.');
  const std::string_view module = name.substr(0, dot);
  const std::string_view suffix = dot == std::string_view::npos ? "" : name.substr(dot);
  for (const std::span<const TensorName> names : {family_, std::span<const TensorName>(kShared)}) {
    if (const auto found = look_up(names, module)) return fmt::format("{}{}", *found, suffix);
  }
  return std::string(name);
}

std::string TensorNames::stored(std::string_view name) const {
  if (is_gguf_) return std::string(name);
  if (name == "output" || name.starts_with("output.")) return head_ + std::string(name.substr(6));
  if (!name.starts_with("blk.")) return prefix_ + in_block(name);
  const std::size_t end = name.find('.', 4);
  return fmt::format("{}layers.{}.{}", prefix_, name.substr(4, end - 4),
                     in_block(name.substr(end + 1)));
}

}  // namespace reprise
