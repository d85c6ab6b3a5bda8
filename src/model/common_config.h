// What the families' settings have in common.
#pragma once
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/model_config.h"
#include "model/settings.h"

namespace reprise {

// What a family's config.json may leave out (multimodal folders store only what differs from the
// class's defaults). 0: the key is required.
struct ConfigDefaults {
  int hidden = 0, feed_forward = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int context = 0;
  double epsilon = 0;
};

// Sizes that every family states alike: hidden, vocabulary, context ..., and one LayerConfig per
// layer with its head counts, head dims and feed-forward width, span standard, scale
// 1 / sqrt(head_dim), no rope. Checks them all.
Result<ModelConfig> read_common_config(const Settings& settings, std::string_view family,
                                       const ConfigDefaults& defaults = {});

// The activation that `json_key` of config.json names, `fallback` where it is absent or null.
// Errors: unsupported for a word that no kernel has.
Result<Activation> read_activation(const Settings& settings, std::string_view json_key,
                                   Activation fallback);

// Head dims that the kernels can do, kv heads that divide heads. For families that change them.
Status check_heads(const ModelConfig& config);

// Which layers are full: layer_types of config.json ("full_attention" against `local`, another word
// is refused), GGUF's attention.sliding_window_pattern (a flag per layer, 1 = local, or a period
// whose last layer is full), sliding_window_pattern of config.json (a period); else
// is_full(layer, layers).
Result<std::vector<bool>> read_full_layers(const Settings& settings, int layers,
                                           std::string_view local, bool (*is_full)(int, int));

// `exact` as the reference computes it: rounded to bfloat16 when the folder's embeddings (or their
// scales) are of that type, else float32. GGUF files keep float32.
float checkpoint_scalar(const Settings& settings, double exact);

// Adds `rope` to the configuration unless it is there; its index.
int add_rope(ModelConfig& config, RopeConfig rope);

// Refuses attention settings of config.json that a family's code does not have.
Status refuse_flag(const Settings& settings, std::string_view json_key);

}  // namespace reprise
