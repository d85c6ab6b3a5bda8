// One name for each tensor of a family, GGUF's, and what Hugging Face and MLX folders call it.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "model/checkpoint.h"

namespace reprise {

// A module inside a block ("attn_q" <-> "self_attn.q_proj") or of the whole model. With a suffix in
// both ("exp_probs_b.bias" <-> "mlp.expert_bias") it is that one tensor.
struct TensorName {
  std::string_view gguf;
  std::string_view folder;
};

// The names of a checkpoint. GGUF's are as they are; in folders the text part may stand under
// "language_model.model.", "model.language_model.", "model." or nothing.
class TensorNames {
 public:
  // `family` comes before the names that all families share.
  TensorNames(const Checkpoint& checkpoint, std::span<const TensorName> family);

  // "blk.3.attn_q.weight" as the files spell it.
  std::string stored(std::string_view name) const;

 private:
  std::string in_block(std::string_view name) const;
  bool is_gguf_;
  std::span<const TensorName> family_;
  std::string prefix_, head_;
};

}  // namespace reprise
