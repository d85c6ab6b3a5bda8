// What a model is, in one canonical form for all families and file formats. Validated by its maker.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "kernels/kernels.h"
#include "kv/kv_layout.h"

namespace reprise {

// Rotary embedding of one layer: inverse frequencies already scaled (linear, llama3 ...), so that
// the angle of pair i at position p is p * inverse_frequencies[i]. Empty: the layer has none
// (NoPE).
struct RopeConfig {
  kernels::RopeLayout layout = kernels::RopeLayout::half_split;
  std::vector<double> inverse_frequencies;  // rotary_dim / 2 of them
  double scale = 1.0;                       // of cos and sin (yarn's attention factor)

  int rotary_dim() const { return static_cast<int>(inverse_frequencies.size()) * 2; }
  bool operator==(const RopeConfig&) const = default;
};

struct LayerConfig {
  LayerSpan span;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int value_dim = 0;
  float attention_scale = 0;  // of q before the scores
  int rope = -1;              // index into ModelConfig::ropes; -1: none
};

struct ModelConfig {
  std::string family;        // snapshot tag: "gemma3", "llama"
  std::string architecture;  // the file's word for it
  std::string name;          // general.name, for people
  int vocabulary = 0;        // rows of the output head
  int hidden = 0;
  int feed_forward = 0;
  Position context_length = 0;  // trained context
  float norm_epsilon = 0;
  float embedding_scale = 1;
  float final_softcap = 0;  // 0: none
  bool tied_embeddings = false;
  std::vector<RopeConfig> ropes;  // distinct ones
  std::vector<LayerConfig> layers;

  KvLayout kv_layout(kernels::KvType type) const;
};

}  // namespace reprise
