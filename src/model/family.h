// What a model family supplies: how its settings are read, what its tensors are called, how its
// blocks are wired. Everything else (batches, KV, snapshots, logits) is written once for all of
// them.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/model_config.h"
#include "model/settings.h"
#include "model/tensor_names.h"
#include "model/weights.h"

namespace reprise {

class Forward;

class Family {
 public:
  virtual ~Family() = default;
  // What comes between the scaled embeddings and the first block, for all rows.
  virtual void begin(Forward&) const {}
  // One transformer block over all rows of the pass: hidden in, hidden out.
  virtual void run_layer(int layer, Forward& forward) const = 0;

  Linear embedding;               // [vocabulary, hidden]
  std::vector<float> final_norm;  // [hidden]
  Linear untied_head;             // [vocabulary, hidden]; empty when tied
  const Linear& head() const { return untied_head.matrix.rows > 0 ? untied_head : embedding; }
};

// One line per family that we read (families.cpp).
struct FamilyEntry {
  std::string_view tag;           // of snapshots and for people
  std::string_view architecture;  // general.architecture of GGUF; empty: no such files
  // model_type of config.json, of the text part: "gemma3_text", and spellings of the same.
  std::array<std::string_view, 4> model_types;
  std::span<const TensorName> names;  // beside those that all families share
  // Errors: corrupt, unsupported, not_found, naming the key.
  Result<ModelConfig> (*read_config)(const Settings& settings);
  // Errors: as WeightLoader's.
  Result<std::unique_ptr<Family>> (*bind)(const ModelConfig& config, WeightLoader& loader);
  // Words of the snapshot contract for full and windowed layers.
  std::string_view standard = "standard";
  std::string_view rotating = "rotating";
};

// Errors: unsupported, naming the architecture and the ones we know.
Result<const FamilyEntry*> find_family(const Settings& settings);
// The entry of a snapshot tag; null for another.
const FamilyEntry* find_family_by_tag(std::string_view tag);

// The families, each in its own file.
extern const FamilyEntry kGemma3Family;
extern const FamilyEntry kGemma4Family;
extern const FamilyEntry kAfmoeFamily;
extern const FamilyEntry kLlama4Family;
extern const FamilyEntry kMuseGlimmerFamily;
extern const FamilyEntry kLlamaFamily;
extern const FamilyEntry kQwen2Family;
extern const FamilyEntry kQwen3Family;
extern const FamilyEntry kQwen3MoeFamily;

}  // namespace reprise
