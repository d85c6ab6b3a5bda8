// The fields that chat and completions share, and the table of those that we refuse by name.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

constexpr std::int64_t kIntegerMax = std::numeric_limits<std::int32_t>::max();

// The value that asks for nothing special: with it, a parameter that we do not have changes
// nothing.
enum class Neutral {
  never,
  zero,
  one,
  no,
  yes,
  empty,
  empty_text,
  none_word,
  text_format,
  text_only
};

struct RefusedParameter {
  std::string_view name;
  Neutral neutral;
};

// Parameters that would change the answer, of OpenAI and of other servers. Without this table they
// would be ignored like unknown fields, and the client would get another answer than it asked for.
constexpr std::array kRefused = {
    RefusedParameter{"tools", Neutral::empty},
    RefusedParameter{"tool_choice", Neutral::none_word},
    RefusedParameter{"functions", Neutral::empty},
    RefusedParameter{"function_call", Neutral::none_word},
    RefusedParameter{"response_format", Neutral::text_format},
    RefusedParameter{"logit_bias", Neutral::empty},
    RefusedParameter{"presence_penalty", Neutral::zero},
    RefusedParameter{"frequency_penalty", Neutral::zero},
    RefusedParameter{"repetition_penalty", Neutral::one},
    RefusedParameter{"repeat_penalty", Neutral::one},
    RefusedParameter{"length_penalty", Neutral::one},
    RefusedParameter{"audio", Neutral::never},
    RefusedParameter{"modalities", Neutral::text_only},
    RefusedParameter{"web_search_options", Neutral::never},
    RefusedParameter{"reasoning_effort", Neutral::none_word},
    RefusedParameter{"verbosity", Neutral::never},
    RefusedParameter{"chat_template", Neutral::never},
    RefusedParameter{"chat_template_kwargs", Neutral::empty},
    RefusedParameter{"add_generation_prompt", Neutral::yes},
    RefusedParameter{"continue_final_message", Neutral::no},
    RefusedParameter{"documents", Neutral::empty},
    RefusedParameter{"echo", Neutral::no},
    RefusedParameter{"suffix", Neutral::empty_text},
    RefusedParameter{"best_of", Neutral::one},
    RefusedParameter{"use_beam_search", Neutral::no},
    RefusedParameter{"n_predict", Neutral::never},
    RefusedParameter{"min_tokens", Neutral::zero},
    RefusedParameter{"ignore_eos", Neutral::no},
    RefusedParameter{"stop_token_ids", Neutral::empty},
    RefusedParameter{"include_stop_str_in_output", Neutral::no},
    RefusedParameter{"skip_special_tokens", Neutral::yes},
    RefusedParameter{"truncate_prompt_tokens", Neutral::never},
    RefusedParameter{"prompt_logprobs", Neutral::never},
    RefusedParameter{"bad_words", Neutral::empty},
    RefusedParameter{"allowed_token_ids", Neutral::never},
    RefusedParameter{"guided_json", Neutral::never},
    RefusedParameter{"guided_regex", Neutral::never},
    RefusedParameter{"guided_choice", Neutral::never},
    RefusedParameter{"guided_grammar", Neutral::never},
    RefusedParameter{"structured_outputs", Neutral::never},
    RefusedParameter{"grammar", Neutral::empty_text},
    RefusedParameter{"json_schema", Neutral::never},
    RefusedParameter{"samplers", Neutral::never},
    RefusedParameter{"mirostat", Neutral::zero},
    RefusedParameter{"typical_p", Neutral::one},
    RefusedParameter{"xtc_probability", Neutral::zero},
    RefusedParameter{"dry_multiplier", Neutral::zero},
    RefusedParameter{"dynatemp_range", Neutral::zero},
};

// Members that change nothing here: known, so that they are not reported as unknown.
constexpr std::array kIgnored = {"user",
                                 "metadata",
                                 "store",
                                 "service_tier",
                                 "prediction",
                                 "safety_identifier",
                                 "prompt_cache_key",
                                 "parallel_tool_calls"};

struct NeutralForm {
  std::string_view type;   // what the value must be
  std::string_view value;  // what asks for nothing
};

NeutralForm neutral_form(Neutral neutral) {
  switch (neutral) {
    case Neutral::never:
      return {"", "null"};
    case Neutral::zero:
      return {"a number", "0"};
    case Neutral::one:
      return {"a number", "1"};
    case Neutral::no:
      return {"a boolean", "false"};
    case Neutral::yes:
      return {"a boolean", "true"};
    case Neutral::empty:
      return {"a list or object", "an empty one"};
    case Neutral::empty_text:
      return {"a string", "an empty one"};
    case Neutral::none_word:
      return {"a string or object", "\"none\""};
    case Neutral::text_format:
      return {"an object", "{\"type\": \"text\"}"};
    case Neutral::text_only:
      return {"a list", "[\"text\"]"};
  }
  return {};
}

bool is_text(const JsonValue& value, std::string_view text) {
  return value.is_string() && std::string_view(value.get_string()) == text;
}

bool has_right_type(const JsonValue& value, Neutral neutral) {
  switch (neutral) {
    case Neutral::never:
      return true;
    case Neutral::zero:
    case Neutral::one:
      return value.is_number();
    case Neutral::no:
    case Neutral::yes:
      return value.is_bool();
    case Neutral::empty:
      return value.is_array() || value.is_object();
    case Neutral::empty_text:
      return value.is_string();
    case Neutral::none_word:
      return value.is_string() || value.is_object();
    case Neutral::text_format:
      return value.is_object();
    case Neutral::text_only:
      return value.is_array();
  }
  return false;
}

// For a value of the right type.
bool is_neutral(const JsonValue& value, Neutral neutral) {
  switch (neutral) {
    case Neutral::never:
      return false;
    case Neutral::zero:
      return value.to_number<double>() == 0;
    case Neutral::one:
      return value.to_number<double>() == 1;
    case Neutral::no:
      return !value.get_bool();
    case Neutral::yes:
      return value.get_bool();
    case Neutral::empty:
      return value.is_array() ? value.get_array().empty() : value.get_object().empty();
    case Neutral::empty_text:
      return value.get_string().empty();
    case Neutral::none_word:
      return is_text(value, "none");
    case Neutral::text_format: {
      const JsonValue* type = value.get_object().if_contains("type");
      return type && is_text(*type, "text");
    }
    case Neutral::text_only:
      for (const JsonValue& item : value.get_array()) {
        if (!is_text(item, "text")) return false;
      }
      return true;
  }
  return false;
}

ApiStatus check_refused(FieldReader& reader) {
  for (const RefusedParameter& parameter : kRefused) {
    const JsonValue* value = reader.find(parameter.name);
    if (!value) continue;
    const NeutralForm form = neutral_form(parameter.neutral);
    if (!has_right_type(*value, parameter.neutral)) {
      return wrong_type(reader.path(parameter.name), form.type, *value);
    }
    if (!is_neutral(*value, parameter.neutral)) {
      return unsupported(reader.path(parameter.name),
                         fmt::format("not supported, expected {} or no such field", form.value));
    }
  }
  for (const char* name : kIgnored) reader.find(name);
  return {};
}

ApiStatus parse_max_tokens(FieldReader& reader, GenerationFields& fields) {
  TRY_ASSIGN(const auto tokens, reader.integer("max_tokens", 1, kIntegerMax));
  TRY_ASSIGN(const auto completion_tokens, reader.integer("max_completion_tokens", 1, kIntegerMax));
  if (tokens && completion_tokens && *tokens != *completion_tokens) {
    return refuse(400, "invalid_value",
                  fmt::format("max_completion_tokens: got {}, but max_tokens is {}",
                              *completion_tokens, *tokens),
                  "max_completion_tokens");
  }
  fields.max_tokens = completion_tokens ? completion_tokens : tokens;
  return {};
}

// Any integer of 64 bits, signed or not.
ApiStatus parse_seed(FieldReader& reader, GenerationFields& fields) {
  const JsonValue* value = reader.find("seed");
  if (!value) return {};
  fields.has_seed = true;
  if (const std::uint64_t* seed = value->if_uint64()) {
    fields.sampling.seed = *seed;
    return {};
  }
  if (value->is_number() && std::abs(value->to_number<double>()) > 1e18 && !value->is_int64()) {
    return refuse(400, "invalid_value",
                  fmt::format("seed: got {}, expected {} to {}", to_json(*value),
                              std::numeric_limits<std::int64_t>::min(),
                              std::numeric_limits<std::uint64_t>::max()),
                  "seed");
  }
  TRY_ASSIGN(const auto seed, reader.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                             std::numeric_limits<std::int64_t>::max()));
  fields.sampling.seed = static_cast<std::uint64_t>(*seed);
  return {};
}

ApiStatus parse_sampling(FieldReader& reader, GenerationFields& fields, const Limits& limits) {
  SamplingParams& sampling = fields.sampling;
  TRY_ASSIGN(const auto temperature, reader.number("temperature", 0, 2));
  TRY_ASSIGN(const auto top_p, reader.number("top_p", 0, 1));
  TRY_ASSIGN(const auto min_p, reader.number("min_p", 0, 1));
  TRY_ASSIGN(const auto top_k, reader.integer("top_k", -1, limits.top_k_max));
  sampling.temperature = temperature.value_or(sampling.temperature);
  sampling.top_p = top_p.value_or(sampling.top_p);
  sampling.min_p = min_p.value_or(sampling.min_p);
  if (top_k) sampling.top_k = *top_k == -1 ? 0 : static_cast<int>(*top_k);  // -1: all, as in vLLM
  TRY(parse_seed(reader, fields));
  TRY_ASSIGN(const auto choices, reader.integer("n", 1, kIntegerMax));
  if (choices && *choices != 1) return unsupported("n", "not supported, expected 1");
  return {};
}

ApiStatus add_stop(const JsonValue& value, std::string param, GenerationFields& fields,
                   const Limits& limits) {
  if (!value.is_string()) return wrong_type(std::move(param), "a string", value);
  const std::size_t size = value.get_string().size();
  if (size < 1 || size > limits.stop_bytes_max) {
    std::string message =
        fmt::format("{}: got {} bytes, expected 1 to {}", param, size, limits.stop_bytes_max);
    return refuse(400, "invalid_value", std::move(message), std::move(param));
  }
  fields.stop.emplace_back(value.get_string().data(), size);
  return {};
}

ApiStatus parse_stop(FieldReader& reader, GenerationFields& fields, const Limits& limits) {
  const JsonValue* value = reader.find("stop");
  if (!value) return {};
  const JsonArray* list = value->if_array();
  if (!list) {
    if (!value->is_string()) return wrong_type("stop", "a string or a list of strings", *value);
    return add_stop(*value, "stop", fields, limits);
  }
  if (list->size() > limits.stops_max) {
    return refuse(
        400, "invalid_value",
        fmt::format("stop: got {} strings, expected at most {}", list->size(), limits.stops_max),
        "stop");
  }
  for (std::size_t index = 0; index < list->size(); index++) {
    TRY(add_stop((*list)[index], fmt::format("stop[{}]", index), fields, limits));
  }
  return {};
}

ApiStatus parse_stream(FieldReader& reader, GenerationFields& fields) {
  TRY_ASSIGN(const auto stream, reader.boolean("stream"));
  fields.stream = stream.value_or(false);
  const JsonValue* options = reader.find("stream_options");
  if (!options) return {};
  if (!options->is_object()) return wrong_type("stream_options", "an object", *options);
  if (!fields.stream) {
    return refuse(400, "invalid_value", "stream_options: only allowed when stream is true",
                  "stream_options");
  }
  FieldReader members(options->get_object(), "stream_options.");
  TRY_ASSIGN(const auto include_usage, members.boolean("include_usage"));
  fields.include_usage = include_usage.value_or(false);
  fields.unknown = members.unknown();
  return {};
}

// What the prompt cache shall do with the request, and what the reply shall say about it.
ApiStatus parse_cache_fields(FieldReader& reader, GenerationFields& fields, const Limits& limits) {
  TRY_ASSIGN(auto cache_salt, reader.text("cache_salt", limits.name_bytes_max));
  fields.cache_salt = std::move(cache_salt).value_or("");
  TRY_ASSIGN(const auto cache_prompt, reader.boolean("cache_prompt"));
  fields.use_cache = cache_prompt.value_or(true);
  TRY_ASSIGN(const auto cache_details, reader.boolean("cache_details"));
  fields.cache_details = cache_details.value_or(false);
  TRY_ASSIGN(const auto pin, reader.integer("cache_pin_seconds", 0, limits.cache_pin_seconds_max));
  fields.cache_pin_seconds = pin.value_or(0);
  if (fields.cache_pin_seconds > 0 && !fields.use_cache) {
    return refuse(400, "invalid_value",
                  fmt::format("cache_pin_seconds: got {}, but cache_prompt is false",
                              fields.cache_pin_seconds),
                  "cache_pin_seconds");
  }
  return {};
}

// Words only: other servers' integers mean opposite things (vLLM: the smaller, the sooner).
ApiStatus parse_priority(FieldReader& reader, GenerationFields& fields) {
  const JsonValue* value = reader.find("priority");
  if (!value) return {};
  constexpr std::string_view kExpected = "\"low\", \"normal\" or \"high\"";
  if (!value->is_string()) return wrong_type("priority", kExpected, *value);
  const std::string_view name(value->get_string().data(), value->get_string().size());
  if (name == "low") {
    fields.priority = Priority::low;
  } else if (name == "high") {
    fields.priority = Priority::high;
  } else if (name != "normal") {
    return refuse(400, "invalid_value",
                  fmt::format("priority: got \"{}\", expected {}", clipped(name), kExpected),
                  "priority");
  }
  return {};
}

// Seconds, fractions allowed.
ApiStatus parse_timeout(FieldReader& reader, GenerationFields& fields, const Limits& limits) {
  const double most = static_cast<double>(limits.timeout_ms_max) / 1000;
  TRY_ASSIGN(const auto seconds, reader.number("timeout", 0, most));
  if (!seconds) return {};
  if (*seconds == 0) {
    return refuse(400, "invalid_value",
                  fmt::format("timeout: got 0, expected more than 0, at most {}", most), "timeout");
  }
  fields.timeout_ms = std::max<std::int64_t>(std::llround(*seconds * 1000), 1);
  return {};
}

}  // namespace

ApiResult<GenerationFields> parse_generation_fields(FieldReader& reader, const Limits& limits) {
  GenerationFields fields;
  TRY_ASSIGN(auto model, reader.text("model", limits.name_bytes_max));
  if (model) fields.model = std::move(*model);
  TRY(parse_max_tokens(reader, fields));
  TRY(parse_sampling(reader, fields, limits));
  TRY(parse_stop(reader, fields, limits));
  TRY(parse_stream(reader, fields));
  TRY_ASSIGN(const auto return_token_ids, reader.boolean("return_token_ids"));
  fields.return_token_ids = return_token_ids.value_or(false);
  TRY(parse_cache_fields(reader, fields, limits));
  TRY(parse_priority(reader, fields));
  TRY(parse_timeout(reader, fields, limits));
  TRY(check_refused(reader));
  TRY(reader.text("user", limits.name_bytes_max));
  return fields;
}

}  // namespace reprise
