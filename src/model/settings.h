// The settings of a model, read with one error form from either kind of file: GGUF metadata
// ("gemma3.attention.head_count") or config.json ("num_attention_heads").
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/checkpoint.h"

namespace reprise {

// A setting's name in both formats, GGUF's without the architecture in front; empty: the format
// does not have it.
struct SettingName {
  std::string_view gguf;
  std::string_view json;
};

class Settings {
 public:
  // Finds the architecture or model_type. A config.json with a text_config (multimodal folders) is
  // read through it; what it lacks is looked up beside it. The checkpoint must outlive the
  // settings. Errors: corrupt, not_found, naming the key.
  static Result<Settings> read(const Checkpoint& checkpoint);

  bool is_gguf() const { return checkpoint_->format() == CheckpointFormat::gguf; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  // GGUF: general.architecture. Folder: the model_type of the text part, and of the folder.
  const std::string& architecture() const { return architecture_; }
  const std::string& outer_model_type() const { return outer_model_type_; }
  // For people: general.name, or the folder's name.
  std::string display_name() const;

  // JSON null counts as absent.
  bool has(SettingName name) const;
  // A required integer in [low, high]; the `_or` forms give `fallback` when the key is absent.
  // Errors: not_found, corrupt; each names the key as the file spells it.
  Result<int> integer(SettingName name, int low, int high) const;
  Result<int> integer_or(SettingName name, int fallback, int low, int high) const;
  // Positive and finite in float32.
  Result<double> number(SettingName name) const;
  Result<double> number_or(SettingName name, double fallback) const;
  // Integers count as their truth (older Llama 4 files write 4 for true).
  Result<bool> flag_or(SettingName name, bool fallback) const;
  Result<std::string> text_or(SettingName name, std::string_view fallback) const;
  // One integer for all layers, or an array of at least `layers` of them; empty when absent.
  Result<std::vector<int>> per_layer(SettingName name, int layers, int low, int high) const;
  // A list of texts of at least `layers` (layer_types); empty when absent. Only folders have some.
  Result<std::vector<std::string>> texts(std::string_view json, int layers) const;
  // The JSON value of the text part (or beside it); null when absent or when this is GGUF.
  const JsonValue* json(std::string_view key) const;

  // The key as the file spells it, for messages.
  std::string spelled(SettingName name) const;

 private:
  explicit Settings(const Checkpoint& checkpoint) : checkpoint_(&checkpoint) {}

  const Checkpoint* checkpoint_;
  std::string architecture_, outer_model_type_;
  const JsonObject* text_ = nullptr;   // the effective config.json
  const JsonObject* outer_ = nullptr;  // the whole of it
};

// Errors in the house's form.
std::unexpected<Error> missing_setting(const std::string& key);
std::unexpected<Error> setting_out_of_range(const std::string& key, std::int64_t got, int low,
                                            int high);

}  // namespace reprise
