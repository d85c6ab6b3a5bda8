// What a model family supplies: how its files are read, how its tensors are named, how its blocks
// are wired. Everything else (batches, KV, snapshots, logits) is written once for all of them.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/gguf.h"
#include "model/model_config.h"
#include "model/weights.h"

namespace reprise {

class Forward;

class Family {
 public:
  virtual ~Family() = default;
  // One transformer block over all rows of the pass: hidden in, hidden out.
  virtual void run_layer(int layer, Forward& forward) const = 0;

  Linear embedding;               // [vocabulary, hidden]
  std::vector<float> final_norm;  // [hidden]
  Linear untied_head;             // [vocabulary, hidden]; empty when tied
  const Linear& head() const { return untied_head.matrix.rows > 0 ? untied_head : embedding; }
};

// One line per architecture that we read (families.cpp).
struct FamilyEntry {
  std::string_view architecture;  // general.architecture
  // Errors: corrupt, unsupported, not_found, naming the key.
  Result<ModelConfig> (*read_config)(const GgufFile& file);
  // Errors: as WeightLoader's.
  Result<std::unique_ptr<Family>> (*bind)(const ModelConfig& config, WeightLoader& loader);
};

// Errors: unsupported, naming the architecture and the ones we know.
Result<const FamilyEntry*> find_family(std::string_view architecture);

// The families, each in its own file.
extern const FamilyEntry kGemma3Family;
extern const FamilyEntry kLlamaFamily;

// ---- what families share when they read a GGUF file
// ------------------------------------------------

// Reads "<architecture>.<key>" of a file with one error form.
class ConfigReader {
 public:
  explicit ConfigReader(const GgufFile& file, std::string_view architecture)
      : file_(&file), prefix_(std::string(architecture) + ".") {}

  // A required integer in [low, high]; the optional forms give `fallback` when the key is absent.
  Result<int> integer(std::string_view key, int low, int high) const;
  Result<int> integer_or(std::string_view key, int fallback, int low, int high) const;
  Result<double> number(std::string_view key) const;
  Result<double> number_or(std::string_view key, double fallback) const;
  Result<std::string> text_or(std::string_view key, std::string_view fallback) const;
  // One integer for all layers, or an array of at least `layers` of them.
  Result<std::vector<int>> per_layer(std::string_view key, int layers, int low, int high) const;
  bool has(std::string_view key) const;
  const GgufFile& file() const { return *file_; }

 private:
  const GgufFile* file_;
  std::string prefix_;
};

// Sizes and names that every family states alike: hidden, feed_forward, vocabulary, context ... and
// one LayerConfig per layer with its head counts and head dims, spans standard. Checks them all.
Result<ModelConfig> read_common_config(const ConfigReader& reader, std::string_view family);

// theta^(-2i/dim) for i < dim / 2, each divided by `factor` (linear scaling; 1: none).
std::vector<double> rope_inverse_frequencies(int rotary_dim, double theta, double factor);

// The projections of one block, under the names that GGUF gives them in every family.
struct AttentionWeights {
  Linear query, key, value, output;
};
struct FeedForwardWeights {
  Linear gate, up, down;
};
Result<AttentionWeights> bind_attention(const ModelConfig& config, std::size_t layer,
                                        WeightLoader& loader);
Result<FeedForwardWeights> bind_feed_forward(const ModelConfig& config, std::size_t layer,
                                             WeightLoader& loader);

// The token embedding, the final norm and the head when it is there.
Status bind_common(const ModelConfig& config, WeightLoader& loader, Family& family);

}  // namespace reprise
