// The fields that all generating requests share.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

// Any integer of 64 bits, signed or not.
ApiStatus parse_seed(const FieldPlace& place, const JsonValue& value, GenerationFields& fields) {
  constexpr std::int64_t kLow = std::numeric_limits<std::int64_t>::min();
  constexpr std::uint64_t kHigh = std::numeric_limits<std::uint64_t>::max();
  fields.has_seed = true;
  if (const std::uint64_t* seed = value.if_uint64()) {
    fields.sampling.seed = *seed;
    return {};
  }
  if (value.is_double() && std::abs(value.get_double()) > 1e15) {
    return wrong_value(place.param, fmt::format("got {}, expected {} to {}, written as an integer",
                                                value.get_double(), kLow, kHigh));
  }
  TRY_ASSIGN(const std::int64_t seed,
             read_integer(place.param, value, kLow, std::numeric_limits<std::int64_t>::max()));
  fields.sampling.seed = static_cast<std::uint64_t>(seed);
  return {};
}

ApiStatus parse_stop(const FieldPlace& place, const JsonValue& value, GenerationFields& fields) {
  const auto add = [&](const FieldPlace& at, const JsonValue& item) -> ApiStatus {
    TRY_ASSIGN(std::string stop, read_text(at.param, item, 1, at.limits->stop_bytes_max));
    fields.stop.push_back(std::move(stop));
    return {};
  };
  if (value.is_string()) return add(place, value);
  if (!value.is_array()) return wrong_type(place.param, "a string or a list of strings", value);
  return read_list(place, value, "strings", 0, place.limits->stops_max, add);
}

ApiStatus parse_stop_token_ids(const FieldPlace& place, const JsonValue& value,
                               GenerationFields& fields) {
  TRY_ASSIGN(fields.stop_token_ids,
             parse_token_ids(place, value, place.limits->stop_token_ids_max));
  return {};
}

ApiStatus parse_dry_breakers(const FieldPlace& place, const JsonValue& value,
                             GenerationFields& fields) {
  fields.dry_breakers.clear();
  return read_list(place, value, "strings", 0, place.limits->dry_breakers_max,
                   [&](const FieldPlace& at, const JsonValue& item) -> ApiStatus {
                     TRY_ASSIGN(std::string text,
                                read_text(at.param, item, 1, at.limits->dry_breaker_bytes_max));
                     fields.dry_breakers.push_back(std::move(text));
                     return {};
                   });
}

constexpr std::array kStreamOptions = {
    boolean_field<&GenerationFields::include_usage>(
        "include_usage", "false", "One more chunk, without choices, carries the usage."),
};

ApiStatus parse_stream_options(const FieldPlace& place, const JsonValue& value,
                               GenerationFields& fields) {
  if (value.is_object() && !fields.stream) {
    return wrong_value(place.param, "only allowed when stream is true");
  }
  return read_object<GenerationFields>(place, value, kStreamOptions, fields);
}

JsonObject stream_options_schema(const Limits& limits) {
  return table_schema(kStreamOptions, limits);
}

// Seconds, fractions allowed.
ApiStatus parse_timeout(const FieldPlace& place, const JsonValue& value, GenerationFields& fields) {
  const double most = static_cast<double>(place.limits->timeout_ms_max) / 1000;
  TRY_ASSIGN(const double seconds, read_number(place.param, value, 0, most));
  if (seconds == 0) {
    return wrong_value(place.param, fmt::format("got 0, expected more than 0, at most {}", most));
  }
  fields.timeout_ms = std::max<std::int64_t>(std::llround(seconds * 1000), 1);
  return {};
}

ApiStatus check_user(const FieldPlace& place, const JsonValue& value, GenerationFields&) {
  TRY(read_text(place.param, value, 0, place.limits->name_bytes_max));
  return {};
}

constexpr std::array<std::string_view, 3> kPriorities = {"low", "normal", "high"};

// A list of texts that are not empty. Bytes bound characters, not the other way round.
JsonObject texts_schema(std::size_t most, std::size_t bytes_most) {
  return {{"type", "array"},
          {"maxItems", most},
          {"items", JsonObject{{"type", "string"}, {"minLength", 1}, {"maxLength", bytes_most}}}};
}

JsonObject stop_schema(const Limits& limits) {
  JsonObject list = texts_schema(limits.stops_max, limits.stop_bytes_max);
  const JsonValue text = list.at("items");
  return {{"anyOf", JsonArray{text, std::move(list)}}};
}

JsonObject breakers_schema(const Limits& limits) {
  return texts_schema(limits.dry_breakers_max, limits.dry_breaker_bytes_max);
}

JsonObject stop_ids_schema(const Limits& limits) {
  JsonObject schema = token_ids_schema();
  schema["maxItems"] = limits.stop_token_ids_max;
  return schema;
}

JsonObject timeout_schema(const Limits& limits) {
  return {{"type", "number"},
          {"exclusiveMinimum", 0},
          {"maximum", static_cast<double>(limits.timeout_ms_max) / 1000}};
}

JsonObject user_schema(const Limits& limits) {
  return {{"type", "string"}, {"maxLength", limits.name_bytes_max}};
}

constexpr std::string_view kSeedSchema =
    R"({"type":"integer","minimum":-9223372036854775808,"maximum":18446744073709551615})";

constexpr std::string_view kNoEffect = "Accepted, without effect.";

using Fields = GenerationFields;
constexpr std::array kGenerationFields = {
    text_field<&Fields::model>("model", 0, &Limits::name_bytes_max,
                               "The alias of the served model; absent: that one."),
    integer_field<&Fields::min_tokens>("min_tokens", 0, kIntegerMax, "0",
                                       "No stop token ends the reply before so many tokens."),
    boolean_field<&Fields::ignore_eos>("ignore_eos", "false",
                                       "End-of-sequence tokens are never sampled."),
    integer_field<&Fields::choices>("n", 1, &Limits::choices_max, "1", "Replies to each prompt."),
    composite_field<Fields, parse_seed>("seed", kSeedSchema, "Absent: drawn for the request."),
    composite_field<Fields, parse_dry_breakers>(
        "dry_sequence_breakers", breakers_schema,
        "No repeated stretch goes over these; absent: line feed, colon, quote, star."),
    composite_field<Fields, parse_stop>("stop", stop_schema,
                                        "Texts that end the reply and are no part of it."),
    composite_field<Fields, parse_stop_token_ids>("stop_token_ids", stop_ids_schema,
                                                  "Tokens that end the reply."),
    boolean_field<&Fields::stream>("stream", "false", "Server-sent events."),
    composite_field<Fields, parse_stream_options>("stream_options", stream_options_schema,
                                                  "Only with stream."),
    boolean_field<&Fields::return_progress>("return_progress", "false",
                                            "Events tell how far the prompt is; only with stream."),
    boolean_field<&Fields::return_token_ids>("return_token_ids", "false",
                                             "Choices carry token_ids and prompt_token_ids."),
    text_field<&Fields::cache_salt>("cache_salt", 0, &Limits::name_bytes_max,
                                    "Only requests of the same key and salt share cached prompts."),
    boolean_field<&Fields::use_cache>("cache_prompt", "true",
                                      "false: the prompt cache is neither read nor written."),
    boolean_field<&Fields::cache_details>("cache_details", "false",
                                          "usage says what the prompt cache did."),
    integer_field<&Fields::cache_pin_seconds>("cache_pin_seconds", 0,
                                              &Limits::cache_pin_seconds_max, "0",
                                              "Keep the conversation so long after its end."),
    word_field<&Fields::priority>("priority", kPriorities, "\"normal\"",
                                  "Who goes first when there is not room for all."),
    composite_field<Fields, parse_timeout>("timeout", timeout_schema,
                                           "Seconds after which the request ends with an error."),
    composite_field<Fields, check_user>("user", user_schema, kNoEffect),
    ignored_field<Fields>("metadata", kNoEffect),
    ignored_field<Fields>("store", kNoEffect),
    ignored_field<Fields>("service_tier", kNoEffect),
    ignored_field<Fields>("prediction", kNoEffect),
    ignored_field<Fields>("safety_identifier", kNoEffect),
    ignored_field<Fields>("prompt_cache_key", kNoEffect),
    ignored_field<Fields>("prompt_cache_retention", kNoEffect),
    ignored_field<Fields>("timings_per_token", kNoEffect),
};

// What no row can say.
ApiStatus check_together(const GenerationFields& fields) {
  if (fields.return_progress && !fields.stream) {
    return wrong_value("return_progress", "only allowed when stream is true");
  }
  if (fields.cache_pin_seconds > 0 && !fields.use_cache) {
    return wrong_value("cache_pin_seconds",
                       fmt::format("got {}, but cache_prompt is false", fields.cache_pin_seconds));
  }
  return {};
}

}  // namespace

std::span<const Field<GenerationFields>> generation_fields() {
  return kGenerationFields;
}

ApiResult<GenerationFields> parse_generation_fields(FieldReader& reader, const Limits& limits) {
  GenerationFields fields;
  SamplingParams& sampling = fields.sampling;
  TRY(read_fields(reader, sampling_fields(), limits, fields.unknown, sampling));
  if (sampling.top_k == -1) sampling.top_k = 0;  // all, as in vLLM
  TRY(read_fields(reader, dry_fields(), limits, fields.unknown, sampling.dry));
  TRY(read_fields(reader, generation_fields(), limits, fields.unknown, fields));
  TRY(check_together(fields));
  return fields;
}

void add_generation_schema(JsonObject& object_schema, const Limits& limits) {
  add_fields(object_schema, generation_fields(), limits);
  add_fields(object_schema, sampling_fields(), limits);
  add_fields(object_schema, dry_fields(), limits);
}

ApiStatus check_token_counts(const GenerationFields& fields) {
  if (!fields.max_tokens || fields.min_tokens <= *fields.max_tokens) return {};
  return wrong_value("min_tokens", fmt::format("got {}, but max_tokens is {}", fields.min_tokens,
                                               *fields.max_tokens));
}

}  // namespace reprise
