// Loading: family, configuration, weights, identity.
#include "model/model.h"

#include <utility>

#include <fmt/core.h>

#include "base/hash.h"
#include "kernels/kernels.h"

namespace reprise {
namespace {

// Everything that shapes a key or a value besides the weights, as text.
std::string describe(const ModelConfig& config) {
  std::string text = fmt::format(
      "numeric {} family {} hidden {} feed_forward {} epsilon {:a} embedding_scale {:a} softcap "
      "{:a}\n",
      kernels::kNumericVersion, config.family, config.hidden, config.feed_forward,
      config.norm_epsilon, config.embedding_scale, config.final_softcap);
  for (const LayerConfig& layer : config.layers) {
    text += fmt::format("layer {} {} heads {} {} dims {} {} scale {:a} rope {}\n",
                        std::to_underlying(layer.span.kind), layer.span.size, layer.heads,
                        layer.kv_heads, layer.head_dim, layer.value_dim, layer.attention_scale,
                        layer.rope);
  }
  for (const RopeConfig& rope : config.ropes) {
    text += fmt::format("rope {} {:a}", std::to_underlying(rope.layout), rope.scale);
    for (const double frequency : rope.inverse_frequencies) text += fmt::format(" {:a}", frequency);
    text += '\n';
  }
  return text;
}

}  // namespace

Result<Model> Model::load(const GgufFile& file, ThreadPool& pool, const LoadProgress& progress) {
  TRY_ASSIGN(const std::optional<std::string_view> architecture, file.text("general.architecture"));
  if (!architecture) {
    return fail(Errc::corrupt, "key general.architecture is missing from the file",
                "general.architecture");
  }
  TRY_ASSIGN(const FamilyEntry* const entry, find_family(*architecture));
  TRY_ASSIGN(ModelConfig config, entry->read_config(file));
  WeightLoader loader(file, pool, progress);
  TRY_ASSIGN(std::unique_ptr<Family> family, entry->bind(config, loader));
  Model model;
  const std::string identity = describe(config) + loader.inventory();
  model.fingerprint_ = content_hash(std::as_bytes(std::span(identity)));
  model.weight_bytes_ = loader.packed_bytes();
  model.config_ = std::make_unique<const ModelConfig>(std::move(config));
  model.family_ = std::move(family);
  return model;
}

}  // namespace reprise
