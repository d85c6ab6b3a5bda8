// Settings from GGUF metadata and config.json.
#include "model/settings.h"

#include <cmath>
#include <limits>

#include <fmt/core.h>

namespace reprise {
namespace {

std::unexpected<Error> wrong_kind(const std::string& key, std::string_view expected) {
  return fail(Errc::corrupt, fmt::format("key {}: expected {}", key, expected), key);
}

// An integer however JSON spells it (8, 8.0); nullopt for anything else.
std::optional<std::int64_t> integer_of(const JsonValue& value) {
  if (value.is_int64()) return value.get_int64();
  if (!value.is_double()) return std::nullopt;
  const double number = value.get_double();
  if (!(std::abs(number) < 0x1p62) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

Result<std::string> text_of(const JsonObject& object, std::string_view key) {
  const JsonValue* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) {
    return fail(Errc::corrupt, fmt::format("config.json: key {}: expected a text", key),
                std::string(key));
  }
  return std::string(value->get_string());
}

}  // namespace

std::unexpected<Error> missing_setting(const std::string& key) {
  return fail(Errc::not_found, fmt::format("key {} is missing from the model", key), key);
}

std::unexpected<Error> setting_out_of_range(const std::string& key, std::int64_t got, int low,
                                            int high) {
  return fail(Errc::corrupt, fmt::format("key {}: got {}, expected {} to {}", key, got, low, high),
              key);
}

Result<Settings> Settings::read(const Checkpoint& checkpoint) {
  Settings settings(checkpoint);
  if (settings.is_gguf()) {
    TRY_ASSIGN(const std::optional<std::string_view> architecture,
               checkpoint.gguf()->text("general.architecture"));
    if (!architecture) return missing_setting("general.architecture");
    settings.architecture_ = *architecture;
    settings.outer_model_type_ = *architecture;
    return settings;
  }
  settings.outer_ = settings.text_ = checkpoint.config();
  TRY_ASSIGN(settings.outer_model_type_, text_of(*settings.outer_, "model_type"));
  settings.architecture_ = settings.outer_model_type_;
  const JsonValue* text = settings.outer_->if_contains("text_config");
  if (text != nullptr && !text->is_null()) {
    if (!text->is_object()) return wrong_kind("text_config", "an object");
    settings.text_ = &text->get_object();
    if (settings.text_->contains("model_type")) {
      TRY_ASSIGN(settings.architecture_, text_of(*settings.text_, "model_type"));
    }
  }
  return settings;
}

std::string Settings::display_name() const {
  if (!is_gguf()) return checkpoint_->folder().filename().string();
  const auto name = checkpoint_->gguf()->text("general.name");
  return name && *name ? std::string(**name) : std::string();
}

const JsonValue* Settings::json(std::string_view key) const {
  for (const JsonObject* object : {text_, outer_}) {
    if (object == nullptr || key.empty()) continue;
    const JsonValue* value = object->if_contains(key);
    if (value != nullptr && !value->is_null()) return value;
  }
  return nullptr;
}

std::string Settings::spelled(SettingName name) const {
  if (!is_gguf()) return std::string(name.json);
  return fmt::format("{}.{}", architecture_, name.gguf);
}

bool Settings::has(SettingName name) const {
  if (!is_gguf()) return json(name.json) != nullptr;
  return !name.gguf.empty() && checkpoint_->gguf()->find(spelled(name)) != nullptr;
}

Result<int> Settings::integer(SettingName name, int low, int high) const {
  const std::string key = spelled(name);
  if (!has(name)) return missing_setting(key);
  std::int64_t value = 0;
  if (is_gguf()) {
    TRY_ASSIGN(const std::optional<std::int64_t> stored, checkpoint_->gguf()->integer(key));
    value = *stored;
  } else {
    const std::optional<std::int64_t> stored = integer_of(*json(name.json));
    if (!stored) return wrong_kind(key, "an integer");
    value = *stored;
  }
  if (value < low || value > high) return setting_out_of_range(key, value, low, high);
  return static_cast<int>(value);
}

Result<int> Settings::integer_or(SettingName name, int fallback, int low, int high) const {
  return has(name) ? integer(name, low, high) : Result<int>(fallback);
}

Result<double> Settings::number(SettingName name) const {
  const std::string key = spelled(name);
  if (!has(name)) return missing_setting(key);
  double value = 0;
  if (is_gguf()) {
    TRY_ASSIGN(const std::optional<double> stored, checkpoint_->gguf()->number(key));
    value = *stored;
  } else {
    const JsonValue* stored = json(name.json);
    if (!stored->is_number()) return wrong_kind(key, "a number");
    value = stored->to_number<double>();
  }
  if (!(value > 0) || value > static_cast<double>(std::numeric_limits<float>::max())) {
    return fail(Errc::corrupt,
                fmt::format("key {}: got {}, expected a positive number", key, value), key);
  }
  return value;
}

Result<double> Settings::number_or(SettingName name, double fallback) const {
  return has(name) ? number(name) : Result<double>(fallback);
}

Result<bool> Settings::flag_or(SettingName name, bool fallback) const {
  if (!has(name)) return fallback;
  const std::string key = spelled(name);
  if (is_gguf()) {
    TRY_ASSIGN(const std::optional<bool> stored, checkpoint_->gguf()->boolean(key));
    return *stored;
  }
  const JsonValue* stored = json(name.json);
  if (stored->is_bool()) return stored->get_bool();
  const std::optional<std::int64_t> number = integer_of(*stored);
  if (!number) return wrong_kind(key, "true or false");
  return *number != 0;
}

Result<std::string> Settings::text_or(SettingName name, std::string_view fallback) const {
  if (!has(name)) return std::string(fallback);
  const std::string key = spelled(name);
  if (is_gguf()) {
    TRY_ASSIGN(const std::optional<std::string_view> stored, checkpoint_->gguf()->text(key));
    return std::string(*stored);
  }
  const JsonValue* stored = json(name.json);
  if (!stored->is_string()) return wrong_kind(key, "a text");
  return std::string(stored->get_string());
}

Result<std::vector<int>> Settings::per_layer(SettingName name, int layers, int low,
                                             int high) const {
  if (!has(name)) return std::vector<int>();
  const std::string key = spelled(name);
  std::vector<std::int64_t> values;
  if (is_gguf()) {
    TRY_ASSIGN(values, checkpoint_->gguf()->integers(key));
  } else if (const JsonValue* stored = json(name.json); stored->is_array()) {
    for (const JsonValue& item : stored->get_array()) {
      const std::optional<std::int64_t> value =
          item.is_bool() ? std::int64_t{item.get_bool()} : integer_of(item);
      if (!value) return wrong_kind(key, "a list of integers");
      values.push_back(*value);
    }
  } else {
    TRY_ASSIGN(const int value, integer(name, low, high));
    values.push_back(value);
  }
  if (values.size() == 1) values.resize(static_cast<std::size_t>(layers), values[0]);
  // Lists may be longer than the model has layers (layers for multi-token prediction).
  if (values.size() < static_cast<std::size_t>(layers)) {
    return fail(Errc::corrupt,
                fmt::format("key {}: got {} values for {} layers", key, values.size(), layers),
                key);
  }
  std::vector<int> result;
  for (int layer = 0; layer < layers; layer++) {
    const std::int64_t value = values[static_cast<std::size_t>(layer)];
    if (value < low || value > high) return setting_out_of_range(key, value, low, high);
    result.push_back(static_cast<int>(value));
  }
  return result;
}

Result<std::vector<std::string>> Settings::texts(std::string_view key, int layers) const {
  std::vector<std::string> result;
  const JsonValue* stored = json(key);
  if (stored == nullptr) return result;
  const std::string name(key);
  if (!stored->is_array()) return wrong_kind(name, "a list of texts");
  for (const JsonValue& item : stored->get_array()) {
    if (!item.is_string()) return wrong_kind(name, "a list of texts");
    result.emplace_back(item.get_string());
  }
  if (result.size() < static_cast<std::size_t>(layers)) {
    return fail(Errc::corrupt,
                fmt::format("key {}: got {} values for {} layers", name, result.size(), layers),
                name);
  }
  result.resize(static_cast<std::size_t>(layers));
  return result;
}

}  // namespace reprise
