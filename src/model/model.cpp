// Loading: family, configuration, weights, identity; and the snapshot contract's methods.
#include "model/model.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "base/hash.h"
#include "base/log.h"
#include "kernels/kernels.h"

namespace reprise {
namespace {

// Tensors that are not part of the text model, or that settings are read from: by a piece of their
// name, by how it begins.
constexpr std::array<std::string_view, 11> kIgnoredPieces = {
    "vision",       "audio",      "multi_modal_projector",
    "rotary_emb",   "input_min",  "input_max",
    "output_min",   "output_max", "rope_freqs",
    "rope_factors", ".mtp"};
constexpr std::array<std::string_view, 4> kIgnoredStarts = {"mtp.", "v.", "mm.", "lm_head."};

// Everything that shapes a key or a value besides the weights, as text.
std::string describe(const ModelConfig& config) {
  std::string text = fmt::format(
      "numeric {} family {} activation {} hidden {} epsilon {:a} {:a} embedding_scale {:a} logits "
      "{:a} {:a} "
      "layer_input {} {} {:a} gate {} experts {} {} {} {} {} {:a} query_key_norm {} temperature "
      "{:a} {:a}\n",
      kernels::kNumericVersion, config.family, std::to_underlying(config.activation), config.hidden,
      config.norm_epsilon, config.post_norm_epsilon, config.embedding_scale, config.logit_scale,
      config.final_softcap, config.layer_input, config.layer_input_rows, config.layer_input_scale,
      config.has_attention_gate, config.experts.count, config.experts.used,
      config.experts.feed_forward, config.experts.has_sigmoid_scores, config.experts.normalises,
      config.experts.weight_scale, config.has_query_key_norm, config.temperature_scale,
      config.temperature_length);
  for (const LayerConfig& layer : config.layers) {
    text += fmt::format("layer {} {} heads {} {} dims {} {} scale {:a} rope {} kv {} {} ff {} {}\n",
                        std::to_underlying(layer.span.kind), layer.span.size, layer.heads,
                        layer.kv_heads, layer.head_dim, layer.value_dim, layer.attention_scale,
                        layer.rope, layer.kv_source, layer.value_is_key, layer.feed_forward,
                        layer.has_experts);
  }
  for (const RopeConfig& rope : config.ropes) {
    text += fmt::format("rope {} {:a}", std::to_underlying(rope.layout), rope.scale);
    for (const double frequency : rope.inverse_frequencies) text += fmt::format(" {:a}", frequency);
    text += '\n';
  }
  return text;
}

// Quantisation schemes of folders that we do not have, by name, before any tensor is looked at.
Status check_quantization(const Settings& settings) {
  if (settings.is_gguf()) return {};
  const JsonValue* value = settings.json("quantization");
  if (value == nullptr) value = settings.json("quantization_config");
  if (value == nullptr || !value->is_object()) return {};
  for (const std::string_view key : {"quant_method", "mode"}) {
    const JsonValue* scheme = value->get_object().if_contains(key);
    if (scheme == nullptr || !scheme->is_string()) continue;
    const std::string name(scheme->get_string());
    if (key == "mode" && name == "affine") continue;
    return fail(
        Errc::unsupported,
        fmt::format("quantization {}: \"{}\" is not supported (supported: MLX affine)", key, name),
        "quantization");
  }
  return {};
}

// Keys and values of a layer that reads another layer's: files may store them, nobody reads them.
bool is_superfluous_kv(const ModelConfig& config, std::string_view name) {
  for (std::size_t i = 0; i < config.layers.size(); i++) {
    if (config.layers[i].kv_source < 0) continue;
    if (!name.contains(fmt::format("layers.{}.", i)) && !name.contains(fmt::format("blk.{}.", i))) {
      continue;
    }
    for (const std::string_view part : {"k_proj", "v_proj", "k_norm", "attn_k", "attn_v"}) {
      if (name.contains(part)) return true;
    }
  }
  return false;
}

void warn_of_untaken(const WeightLoader& loader, const ModelConfig& config) {
  std::size_t count = 0;
  std::string_view first;
  for (const std::string_view name : loader.untaken()) {
    const bool ignored =
        std::ranges::any_of(kIgnoredPieces, [&](auto piece) { return name.contains(piece); }) ||
        std::ranges::any_of(kIgnoredStarts, [&](auto start) { return name.starts_with(start); });
    if (ignored || is_superfluous_kv(config, name)) continue;
    if (count++ == 0) first = name;
  }
  if (count == 0) return;
  spdlog::warn("{} tensors of the model are not used, {} first", count, first);
}

// Cuts rows of the head that have no token, and notes ids that must never be sampled.
Status apply_vocabulary(const ModelOptions& options, ModelConfig& config) {
  if (options.vocabulary > 0) config.vocabulary = std::min(config.vocabulary, options.vocabulary);
  for (const TokenId id : options.suppressed) {
    if (id >= 0 && id < config.vocabulary) config.suppressed.push_back(id);
  }
  if (config.suppressed.size() < static_cast<std::size_t>(config.vocabulary)) return {};
  return fail(Errc::corrupt, "every token of the model is suppressed", "suppress_tokens");
}

// A step reads one row of an embedding that is not the head too, and the experts that it uses.
std::size_t bytes_of_a_token(const WeightLoader& loader, const ModelConfig& config,
                             const Family& family) {
  std::size_t bytes = loader.packed_bytes() - loader.expert_bytes();
  if (config.experts.count > 0) {
    bytes += loader.expert_bytes() / static_cast<std::size_t>(config.experts.count) *
             static_cast<std::size_t>(config.experts.used);
  }
  const kernels::PanelMatrix& embedding = family.embedding.matrix;
  if (&family.head() == &family.embedding) return bytes;
  return bytes - static_cast<std::size_t>(embedding.panel_count()) * embedding.panel_bytes();
}

// Of keys and values: whoever reads them refuses a snapshot that has several types.
kernels::KvType row_type(const StateSnapshot& snapshot) {
  for (const NamedTensor& tensor : snapshot.tensors) {
    if (const auto type = kv_type_of(tensor.dtype)) return *type;
  }
  return kernels::KvType::f16;
}

}  // namespace

Result<Model> Model::load(std::unique_ptr<const Checkpoint> checkpoint, ThreadPool& pool,
                          const ModelOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  TRY_ASSIGN(const Settings settings, Settings::read(*checkpoint));
  TRY_ASSIGN(const FamilyEntry* const entry, find_family(settings));
  TRY(check_quantization(settings));
  TRY_ASSIGN(ModelConfig config, entry->read_config(settings));
  TRY(apply_vocabulary(options, config));
  WeightLoader loader(*checkpoint, TensorNames(*checkpoint, entry->names), options.quantization);
  TRY_ASSIGN(std::unique_ptr<Family> family, entry->bind(config, loader));
  warn_of_untaken(loader, config);
  Model model;
  model.weights_ = loader.finish(pool, options.progress);
  const std::string identity =
      describe(config) + loader.inventory() +
      fmt::format("quantization {}\n", std::to_underlying(options.quantization));
  model.fingerprint_ = content_hash(std::as_bytes(std::span(identity)));
  model.weight_bytes_ = loader.packed_bytes();
  model.stored_bytes_ = loader.stored_bytes();
  model.token_bytes_ = bytes_of_a_token(loader, config, *family);
  model.config_ = std::make_unique<const ModelConfig>(std::move(config));
  model.family_ = std::move(family);
  if (loader.needs_files()) model.checkpoint_ = std::move(checkpoint);
  checkpoint.reset();
  model.load_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return model;
}

SnapshotWords Model::snapshot_words() const {
  const FamilyEntry* entry = find_family_by_tag(config_->family);
  SnapshotWords words{config_->family};
  words.standard = entry->standard;
  words.rotating = entry->rotating;
  return words;
}

Result<StateSnapshot> Model::snapshot_sequence_state(const SequenceCache& cache) const {
  return snapshot_sequence(cache, snapshot_words());
}

Result<SequenceCache> Model::restore_sequence_state(const StateSnapshot& snapshot,
                                                    PagePool& pool) const {
  return restore_sequence(snapshot, snapshot_words(), pool);
}

bool Model::snapshot_truncatable_to(const StateSnapshot& snapshot, Position target) const {
  return reprise::snapshot_truncatable_to(snapshot, snapshot_words(),
                                          config_->kv_layout(row_type(snapshot)), target);
}

Result<SequenceCache> Model::restore_sequence_state_truncated(const StateSnapshot& snapshot,
                                                              PagePool& pool,
                                                              Position target) const {
  return restore_sequence_truncated(snapshot, snapshot_words(), pool, target);
}

}  // namespace reprise
