// Parameters that would change the answer, of OpenAI and of other servers, and that we do not have.
// Without this table they would be ignored like unknown fields, and the client would get another
// answer than it asked for.
#include <array>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

// The value that asks for nothing special: with it, a parameter that we do not have changes
// nothing.
enum class Neutral : std::uint8_t {
  never,
  zero,
  one,
  no,
  yes,
  empty,
  empty_text,
  none_word,
  auto_word,
  text_format,
  text_only
};

struct RefusedParameter {
  std::string_view name;
  Neutral neutral;
};

// An endpoint that has one of these reads it before this table is asked.
constexpr std::array kRefused = {
    RefusedParameter{"tools", Neutral::empty},
    RefusedParameter{"tool_choice", Neutral::auto_word},
    RefusedParameter{"functions", Neutral::empty},
    RefusedParameter{"function_call", Neutral::none_word},
    RefusedParameter{"response_format", Neutral::text_format},
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
    RefusedParameter{"samplers", Neutral::empty},
    RefusedParameter{"mirostat", Neutral::zero},
    RefusedParameter{"dynatemp_range", Neutral::zero},
    RefusedParameter{"top_a", Neutral::zero},
    RefusedParameter{"tfs_z", Neutral::one},
    RefusedParameter{"post_sampling_probs", Neutral::no},
    RefusedParameter{"response_fields", Neutral::empty},
    RefusedParameter{"lora", Neutral::empty},
    RefusedParameter{"image_data", Neutral::empty},
};

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
    case Neutral::auto_word:
      return {"a string or object", "\"none\", \"auto\""};
    case Neutral::text_format:
      return {"an object", "{\"type\": \"text\"}"};
    case Neutral::text_only:
      return {"a list", "[\"text\"]"};
  }
  return {};
}

bool is_text(const JsonValue& value, std::string_view text) {
  return value.is_string() && text_of(value) == text;
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
    case Neutral::auto_word:
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
    case Neutral::auto_word:
      return is_text(value, "none") || is_text(value, "auto");
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

}  // namespace

ApiStatus finish_fields(FieldReader& reader, std::vector<std::string>& unknown) {
  for (const RefusedParameter& parameter : kRefused) {
    if (reader.knows(parameter.name)) continue;
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
  add_unknown(reader, unknown);
  return {};
}

}  // namespace reprise
