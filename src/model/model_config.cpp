// The KV layout that a configuration implies.
#include "model/model_config.h"

namespace reprise {

KvLayout ModelConfig::kv_layout(kernels::KvType type) const {
  std::vector<std::optional<LayerKv>> kv;
  kv.reserve(layers.size());
  for (const LayerConfig& layer : layers) {
    kv.push_back(LayerKv{layer.span, layer.kv_heads, layer.head_dim, layer.value_dim});
  }
  return make_kv_layout(kv, type);
}

}  // namespace reprise
