// How the next token is chosen: the fields of sampling.
#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

constexpr std::int64_t kTokenMax = std::numeric_limits<TokenId>::max();
constexpr double kBiasMax = 100;

// "17" -> 17. Leading zeros would give one token two names.
std::optional<TokenId> token_of(std::string_view name) {
  TokenId id = 0;
  const auto [end, trouble] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (trouble != std::errc() || end != name.data() + name.size() || id < 0) return std::nullopt;
  if (name.front() == '-' || (name.front() == '0' && name.size() > 1)) return std::nullopt;
  return id;
}

// A member of {"17": -5}.
ApiResult<LogitBias> bias_of_member(const FieldPlace& place, std::string_view name,
                                    const JsonValue& value) {
  const std::optional<TokenId> id = token_of(name);
  if (!id) {
    return wrong_value(place.param, fmt::format("got the name \"{}\", expected a token id, 0 to {}",
                                                clipped(name), kTokenMax));
  }
  TRY_ASSIGN(const double bias,
             read_number(fmt::format("{}.{}", place.param, name), value, -kBiasMax, kBiasMax));
  return LogitBias{*id, static_cast<float>(bias)};
}

// An item of llama-server's [[17, -5], [18, false]]; false: never.
ApiResult<LogitBias> bias_of_pair(const FieldPlace& place, const JsonValue& value) {
  const JsonArray* pair = value.if_array();
  if (!pair) return wrong_type(place.param, "a list of a token id and a number", value);
  TRY(check_count(place.param, pair->size(), "items", 2, 2));
  TRY_ASSIGN(const std::int64_t id, read_integer(place.item(0).param, (*pair)[0], 0, kTokenMax));
  const JsonValue& amount = (*pair)[1];
  double bias = -kBiasMax;
  if (!amount.is_bool() || amount.get_bool()) {
    TRY_ASSIGN(bias, read_number(place.item(1).param, amount, -kBiasMax, kBiasMax));
  }
  return LogitBias{static_cast<TokenId>(id), static_cast<float>(bias)};
}

ApiStatus parse_logit_bias(const FieldPlace& place, const JsonValue& value,
                           SamplingParams& sampling) {
  std::vector<LogitBias>& biases = sampling.logit_bias;
  const std::size_t most = place.limits->logit_bias_max;
  if (const JsonObject* object = value.if_object()) {
    TRY(check_count(place.param, object->size(), "tokens", 0, most));
    for (const auto& member : *object) {
      const std::string_view name(member.key().data(), member.key().size());
      TRY_ASSIGN(const LogitBias bias, bias_of_member(place, name, member.value()));
      biases.push_back(bias);
    }
  } else if (value.is_array()) {
    TRY(read_list(place, value, "tokens", 0, most,
                  [&](const FieldPlace& at, const JsonValue& item) -> ApiStatus {
                    TRY_ASSIGN(const LogitBias bias, bias_of_pair(at, item));
                    biases.push_back(bias);
                    return {};
                  }));
  } else {
    return wrong_type(place.param, "an object of token ids and numbers", value);
  }
  const auto by_id = [](const LogitBias& one, const LogitBias& other) { return one.id < other.id; };
  std::sort(biases.begin(), biases.end(), by_id);
  const auto twice = std::adjacent_find(
      biases.begin(), biases.end(),
      [](const LogitBias& one, const LogitBias& other) { return one.id == other.id; });
  if (twice != biases.end()) {
    return wrong_value(place.param,
                       fmt::format("got token {} twice, expected each token once", twice->id));
  }
  return {};
}

JsonObject logit_bias_schema(const Limits& limits) {
  JsonValue schema = own_json(R"({"anyOf":[
    {"type":"object","propertyNames":{"pattern":"^(0|[1-9][0-9]{0,9})$"},
     "additionalProperties":{"type":"number","minimum":-100,"maximum":100}},
    {"type":"array","items":{"type":"array","minItems":2,"maxItems":2,"prefixItems":[
      {"type":"integer","minimum":0,"maximum":2147483647},
      {"anyOf":[{"type":"number","minimum":-100,"maximum":100},{"const":false}]}]}}]})");
  JsonArray& forms = schema.at("anyOf").as_array();
  forms[0].as_object()["maxProperties"] = limits.logit_bias_max;
  forms[1].as_object()["maxItems"] = limits.logit_bias_max;
  return std::move(schema.as_object());
}

constexpr std::array kSamplingFields = {
    number_field<&SamplingParams::temperature>("temperature", 0, 2, "1", "0 is greedy."),
    number_field<&SamplingParams::top_p>(
        "top_p", 0, 1, "1", "Of the likeliest tokens, as many as have this probability together."),
    integer_field<&SamplingParams::top_k>("top_k", -1, &Limits::top_k_max, "0",
                                          "So many of the likeliest tokens; 0 and -1: all."),
    number_field<&SamplingParams::min_p>(
        "min_p", 0, 1, "0", "Tokens with at least this part of the likeliest one's probability."),
    number_field<&SamplingParams::typical_p>(
        "typical_p", 0, 1, "1",
        "Of the tokens closest to the expected surprise, as many as have "
        "this probability together."),
    number_field<&SamplingParams::xtc_probability>("xtc_probability", 0, 1, "0",
                                                   "How often all but the last of the tokens above "
                                                   "xtc_threshold are passed over."),
    number_field<&SamplingParams::xtc_threshold>("xtc_threshold", 0, 1, "0.1",
                                                 "See xtc_probability."),
    number_field<&SamplingParams::repetition_penalty>(
        "repetition_penalty", 0.01, 100, "1", "Divides the logits of tokens of prompt and reply.")
        .also("repeat_penalty"),
    integer_field<&SamplingParams::repetition_window>(
        "repeat_last_n", -1, kIntegerMax, "-1",
        "Newest tokens that repetition_penalty sees; -1: all, 0: none."),
    number_field<&SamplingParams::frequency_penalty>(
        "frequency_penalty", -2, 2, "0", "Taken off a token for each time that the reply has it."),
    number_field<&SamplingParams::presence_penalty>("presence_penalty", -2, 2, "0",
                                                    "Taken off tokens that the reply has."),
    composite_field<SamplingParams, parse_logit_bias>(
        "logit_bias", logit_bias_schema,
        "Token ids and what is added to their logits, or pairs of "
        "both; -100 and false: never."),
};

constexpr std::array kDryFields = {
    number_field<&DryParams::multiplier>("dry_multiplier", 0, 100, "0",
                                         "How strongly repeated stretches are avoided; 0: not."),
    number_field<&DryParams::base>("dry_base", 1, 100, "1.75",
                                   "How the penalty grows with the stretch."),
    integer_field<&DryParams::allowed_length>("dry_allowed_length", 1, kIntegerMax, "2",
                                              "Shorter stretches may repeat."),
    integer_field<&DryParams::window>("dry_penalty_last_n", -1, kIntegerMax, "-1",
                                      "Newest tokens that are looked at; -1: all, 0: none."),
};

}  // namespace

std::span<const Field<SamplingParams>> sampling_fields() {
  return kSamplingFields;
}

std::span<const Field<DryParams>> dry_fields() {
  return kDryFields;
}

JsonObject token_ids_schema() {
  return {{"type", "array"},
          {"items", JsonObject{{"type", "integer"}, {"minimum", 0}, {"maximum", kTokenMax}}}};
}

ApiResult<std::vector<TokenId>> parse_token_ids(const FieldPlace& place, const JsonValue& value,
                                                std::size_t most) {
  std::vector<TokenId> ids;
  const auto read_id = [&](const FieldPlace& at, const JsonValue& item) -> ApiStatus {
    TRY_ASSIGN(const std::int64_t id, read_integer(at.param, item, 0, kTokenMax));
    ids.push_back(static_cast<TokenId>(id));
    return {};
  };
  TRY(read_list(place, value, "tokens", 0, most, read_id));
  return ids;
}

}  // namespace reprise
