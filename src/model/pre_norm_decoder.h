// The plain decoder of Llama and Qwen: norm before attention and before the feed-forward, SwiGLU,
// full attention, with what the members of this line differ in as options.
#pragma once
#include <vector>

#include "model/family_blocks.h"

namespace reprise {

class PreNormDecoder : public Family {
 public:
  struct Layer {
    std::vector<float> attention_norm, ffn_norm;
    std::vector<float> query_norm, key_norm;  // empty: no norm of queries and keys
    AttentionWeights attention;
    FeedForwardWeights feed_forward;  // or
    Linear router;                    // these
    ExpertWeights experts;
  };
  struct Options {
    bool has_query_key_norm = false;
  };

  PreNormDecoder(std::vector<Layer> layers, Options options)
      : layers_(std::move(layers)), options_(options) {}
  static Result<std::unique_ptr<Family>> bind(const ModelConfig& config, WeightLoader& loader,
                                              Options options);
  void run_layer(int layer, Forward& pass) const override;

 private:
  void run_experts(const Layer& weights, Forward& pass) const;

  std::vector<Layer> layers_;
  Options options_;
};

// The settings of this line: one rope for all layers (GGUF's q and k in `gguf_layout`).
Result<ModelConfig> read_pre_norm_config(const Settings& settings, std::string_view family,
                                         kernels::RopeLayout gguf_layout, double default_theta);

}  // namespace reprise
