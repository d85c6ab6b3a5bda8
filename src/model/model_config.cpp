// The KV layout that a configuration implies.
#include "model/model_config.h"

#include "base/check.h"

namespace reprise {

int ModelConfig::last_kv_layer() const {
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (layers[i].kv_source < 0) return static_cast<int>(i);
  }
  CHECK(!"some layer owns keys and values");
  return -1;
}

KvLayout ModelConfig::kv_layout(kernels::KvType type) const {
  std::vector<std::optional<LayerKv>> kv;
  kv.reserve(layers.size());
  for (const LayerConfig& layer : layers) {
    if (layer.kv_source >= 0) {
      kv.emplace_back(std::nullopt);
      continue;
    }
    kv.push_back(LayerKv{layer.span, layer.kv_heads, layer.head_dim, layer.value_dim});
  }
  return make_kv_layout(kv, type);
}

}  // namespace reprise
