// Spellings of rotary embedding, and its frequencies.
#include "model/rope_settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include <fmt/core.h>

#include "kernels/math.h"

namespace reprise {
namespace {

constexpr std::array<std::string_view, 5> kTypes = {"default", "linear", "llama3", "yarn",
                                                    "proportional"};
constexpr float kNeverRotates = 1e20F;
constexpr double kAngleMax = 0x1p27;  // of kernels::rope_angles

// Overwrites `target` when the object has the key.
Status read_number(const JsonObject& object, std::string_view key, double& target) {
  const JsonValue* value = object.if_contains(key);
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_number() || !std::isfinite(value->to_number<double>())) {
    return fail(Errc::corrupt, fmt::format("rope key {}: expected a number", key),
                std::string(key));
  }
  target = value->to_number<double>();
  return {};
}

Status read_object(const JsonObject& object, RopeSettings& rope) {
  for (const std::string_view key : {"type", "rope_type"}) {  // the second wins
    const JsonValue* type = object.if_contains(key);
    if (type != nullptr && type->is_string()) rope.type = type->get_string();
  }
  TRY(read_number(object, "rope_theta", rope.theta));
  TRY(read_number(object, "factor", rope.factor));
  TRY(read_number(object, "partial_rotary_factor", rope.partial));
  TRY(read_number(object, "low_freq_factor", rope.low_frequency));
  TRY(read_number(object, "high_freq_factor", rope.high_frequency));
  TRY(read_number(object, "original_max_position_embeddings", rope.original_context));
  TRY(read_number(object, "beta_fast", rope.beta_fast));
  TRY(read_number(object, "beta_slow", rope.beta_slow));
  TRY(read_number(object, "attention_factor", rope.attention_factor));
  TRY(read_number(object, "mscale", rope.mscale));
  TRY(read_number(object, "mscale_all_dim", rope.mscale_all_dim));
  const JsonValue* truncate = object.if_contains("truncate");
  if (truncate != nullptr && truncate->is_bool()) rope.truncate = truncate->get_bool();
  return {};
}

const JsonObject* object_of(const JsonValue* value) {
  return value != nullptr && value->is_object() ? &value->get_object() : nullptr;
}

Status read_json(const Settings& settings, std::string_view layer_type, RopeSettings& rope) {
  TRY_ASSIGN(rope.theta, settings.number_or({"", "rope_theta"}, rope.theta));
  TRY_ASSIGN(rope.partial, settings.number_or({"", "partial_rotary_factor"}, rope.partial));
  TRY_ASSIGN(rope.original_context,
             settings.number_or({"", "original_max_position_embeddings"}, rope.original_context));
  if (const JsonObject* parameters = object_of(settings.json("rope_parameters"))) {
    if (const JsonObject* nested = object_of(parameters->if_contains(layer_type))) {
      return read_object(*nested, rope);
    }
    return read_object(*parameters, rope);
  }
  const JsonObject* scaling = object_of(settings.json("rope_scaling"));
  return scaling == nullptr ? Status() : read_object(*scaling, rope);
}

Status read_gguf(const Settings& settings, RopeSettings& rope) {
  if (settings.checkpoint().find("rope_factors_long.weight") != nullptr) rope.type = "longrope";
  if (rope.type == "longrope") return {};
  TRY_ASSIGN(rope.theta, settings.number_or({"rope.freq_base", ""}, rope.theta));
  TRY_ASSIGN(rope.type, settings.text_or({"rope.scaling.type", ""}, "default"));
  if (rope.type == "none") rope.type = "default";
  TRY_ASSIGN(rope.factor, settings.number_or({"rope.scaling.factor", ""}, 1.0));
  TRY_ASSIGN(rope.original_context, settings.number_or({"rope.scaling.original_context_length", ""},
                                                       rope.original_context));
  TRY_ASSIGN(rope.beta_fast, settings.number_or({"rope.scaling.yarn_beta_fast", ""}, 32.0));
  TRY_ASSIGN(rope.beta_slow, settings.number_or({"rope.scaling.yarn_beta_slow", ""}, 1.0));
  return {};
}

// The share of frequency `inverse` that llama3 scaling keeps: 1 (short waves) to 0 (long ones).
double llama3_kept(const RopeSettings& rope, double inverse) {
  const double wave = 2 * std::numbers::pi / inverse;
  if (wave < rope.original_context / rope.high_frequency) return 1;
  if (wave > rope.original_context / rope.low_frequency) return 0;
  if (rope.high_frequency == rope.low_frequency) return 0;
  return (rope.original_context / wave - rope.low_frequency) /
         (rope.high_frequency - rope.low_frequency);
}

// The dimension that turns `rotations` times within the original context.
double yarn_dimension(const RopeSettings& rope, int dim, double rotations) {
  const double turns = rope.original_context / (rotations * 2 * std::numbers::pi);
  return dim * kernels::log_f64(turns) / (2 * kernels::log_f64(rope.theta));
}

void apply_yarn(const RopeSettings& rope, int dim, RopeConfig& config) {
  double low = yarn_dimension(rope, dim, rope.beta_fast);
  double high = yarn_dimension(rope, dim, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < config.inverse_frequencies.size(); i++) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    double& inverse = config.inverse_frequencies[i];
    inverse = inverse / rope.factor * ramp + inverse * (1 - ramp);
  }
  const auto magnitude = [&](double scale) {
    return rope.factor <= 1 ? 1.0 : 0.1 * scale * kernels::log_f64(rope.factor) + 1.0;
  };
  config.scale = rope.attention_factor > 0 ? rope.attention_factor
                 : rope.mscale != 0 && rope.mscale_all_dim != 0
                     ? magnitude(rope.mscale) / magnitude(rope.mscale_all_dim)
                     : magnitude(1.0);
}

Status check_partial(const RopeSettings& rope) {
  if (rope.partial <= 1) return {};
  return fail(
      Errc::corrupt,
      fmt::format("rope key partial_rotary_factor: got {}, expected at most 1", rope.partial),
      "partial_rotary_factor");
}

// Whether the kernels can turn a pair of this inverse frequency at every position.
bool can_turn(double inverse, Position context_length) {
  return inverse * context_length <= kAngleMax;
}

Status check_frequencies(const RopeSettings& rope, const RopeConfig& config,
                         Position context_length) {
  for (std::size_t i = 0; i < config.inverse_frequencies.size(); i++) {
    const double inverse = config.inverse_frequencies[i];
    if (can_turn(inverse, context_length)) continue;
    return fail(Errc::corrupt,
                fmt::format("rope key rope_theta: got {}, which with factor {} turns pair {} by {} "
                            "a token and {} within {} tokens, expected at most {}",
                            rope.theta, rope.factor, i, inverse, inverse * context_length,
                            context_length, kAngleMax),
                "rope_theta");
  }
  if (config.scale > 0 && config.scale <= std::numeric_limits<float>::max()) return {};
  return fail(Errc::corrupt,
              fmt::format("rope key attention_factor: {}, mscale {} and mscale_all_dim {} scale by "
                          "{}, expected a positive number",
                          rope.attention_factor, rope.mscale, rope.mscale_all_dim, config.scale),
              "attention_factor");
}

Status check_numbers(const RopeSettings& rope) {
  const std::pair<const char*, double> positive[] = {
      {"rope_theta", rope.theta},
      {"factor", rope.factor},
      {"partial_rotary_factor", rope.partial},
      {"low_freq_factor", rope.low_frequency},
      {"high_freq_factor", rope.high_frequency},
      {"original_max_position_embeddings", rope.original_context},
      {"beta_fast", rope.beta_fast},
      {"beta_slow", rope.beta_slow}};
  for (const auto& [name, value] : positive) {
    if (value > 0) continue;
    return fail(Errc::corrupt,
                fmt::format("rope key {}: got {}, expected a positive number", name, value), name);
  }
  return check_partial(rope);
}

}  // namespace

Result<RopeSettings> read_rope_settings(const Settings& settings, std::string_view layer_type,
                                        double default_theta) {
  RopeSettings rope;
  rope.theta = default_theta;
  TRY(settings.is_gguf() ? read_gguf(settings, rope) : read_json(settings, layer_type, rope));
  if (std::ranges::find(kTypes, rope.type) == kTypes.end()) {
    return fail(Errc::unsupported,
                fmt::format("rope type \"{}\" is not supported (supported: default, linear, "
                            "llama3, yarn, proportional): keys would depend on the text's length",
                            rope.type),
                settings.is_gguf() ? "rope.scaling.type" : "rope_type");
  }
  TRY(check_numbers(rope));
  return rope;
}

Result<RopeConfig> make_rope(const RopeSettings& rope, int head_dim, kernels::RopeLayout layout,
                             Position context_length) {
  TRY(check_partial(rope));  // before it is taken for a number of dimensions
  const bool proportional = rope.type == "proportional";
  // Pairs of a proportional rope may be cut in half: the half pair does not rotate.
  int rotating = static_cast<int>(head_dim * rope.partial);
  if (proportional) rotating -= rotating % 2;
  if (rotating < 2 || rotating % 2 != 0) {
    return fail(Errc::corrupt,
                fmt::format("rope key partial_rotary_factor: {} of head dim {} is {} dimensions, "
                            "expected an even number from 2 to {}",
                            rope.partial, head_dim, rotating, head_dim),
                "partial_rotary_factor");
  }
  RopeConfig config;
  config.layout = layout;
  const int dim = proportional ? head_dim : rotating;
  for (int i = 0; i < dim / 2; i++) {
    double inverse = 2 * i < rotating ? kernels::pow_f64(rope.theta, -2.0 * i / dim) : 0.0;
    if (rope.type == "linear" || proportional) inverse /= rope.factor;
    if (rope.type == "llama3") {
      const double kept = llama3_kept(rope, inverse);
      inverse = (1 - kept) * inverse / rope.factor + kept * inverse;
    }
    config.inverse_frequencies.push_back(inverse);
  }
  if (rope.type == "yarn") apply_yarn(rope, dim, config);
  TRY(check_frequencies(rope, config, context_length));
  return config;
}

Status apply_rope_factors(const Checkpoint& checkpoint, Position context_length, RopeConfig& rope) {
  constexpr const char* kName = "rope_freqs.weight";
  const StoredTensor* factors = checkpoint.find(kName);
  if (factors == nullptr) return {};
  const std::size_t pairs = rope.inverse_frequencies.size();
  if (factors->type != kernels::WeightType::f32 || factors->bytes.size() != pairs * sizeof(float)) {
    return fail(Errc::corrupt,
                fmt::format("tensor {}: got {} bytes of type {}, expected {} factors of type F32",
                            kName, factors->bytes.size(), factors->type_name, pairs),
                kName);
  }
  for (std::size_t i = 0; i < pairs; i++) {
    float factor = 0;
    std::memcpy(&factor, factors->bytes.data() + i * sizeof factor, sizeof factor);
    if (!(factor > 0)) {
      return fail(Errc::corrupt,
                  fmt::format("tensor {}: factor {} is {}, expected > 0", kName, i, factor), kName);
    }
    rope.inverse_frequencies[i] =
        factor >= kNeverRotates ? 0.0 : rope.inverse_frequencies[i] / static_cast<double>(factor);
    const double inverse = rope.inverse_frequencies[i];
    if (can_turn(inverse, context_length)) continue;
    return fail(
        Errc::corrupt,
        fmt::format("tensor {}: factor {} is {}, which turns its pair by {} a token and {} "
                    "within {} tokens, expected at most {}",
                    kName, i, factor, inverse, inverse * context_length, context_length, kAngleMax),
        kName);
  }
  return {};
}

}  // namespace reprise
