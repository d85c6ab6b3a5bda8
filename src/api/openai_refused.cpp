// Parameters that would change the answer, of OpenAI and of other servers, and that we do not have.
// Without this table they would be ignored like unknown fields, and the client would get another
// answer than it asked for.
#include <algorithm>
#include <array>
#include <span>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

// What says the same here: named where the endpoint reads it.
struct Instead {
  std::string_view field;  // that the endpoint must know
  std::string_view text;   // what the message names
};
constexpr std::array kSwitches = {
    Instead{"chat_template_kwargs", "chat_template_kwargs, reasoning_effort"}};
constexpr std::array kStops = {Instead{"stop", "stop"}};
constexpr std::array kLengths = {Instead{"max_output_tokens", "max_output_tokens"},
                                 Instead{"n_predict", "n_predict"},
                                 Instead{"max_tokens", "max_tokens"}};
constexpr std::array kFormats = {Instead{"text", "text.format"},
                                 Instead{"json_schema", "json_schema"},
                                 Instead{"response_format", "response_format"}};
constexpr std::array kLogprobs = {Instead{"top_logprobs", "top_logprobs"},
                                  Instead{"logprobs", "logprobs"}};
constexpr std::array kTypical = {Instead{"typical_p", "typical_p"}};

struct RefusedParameter {
  std::string_view name;
  std::string_view neutral;               // a JSON list: the values that ask for nothing special
  std::span<const Instead> instead = {};  // the first that is known counts
};

// An endpoint that has one of these reads it before this table is asked.
constexpr std::array kRefused = {
    // OpenAI
    RefusedParameter{"tools", "[[]]"},
    RefusedParameter{"tool_choice", R"(["none","auto"])"},
    RefusedParameter{"functions", "[[]]"},
    RefusedParameter{"function_call", R"(["none"])"},
    RefusedParameter{"response_format", R"([{"type":"text"}])"},
    RefusedParameter{"audio", "[]"},
    RefusedParameter{"modalities", R"([["text"],[]])"},
    RefusedParameter{"web_search_options", "[]"},
    RefusedParameter{"reasoning_effort", R"(["none"])"},
    RefusedParameter{"reasoning", R"([{},{"effort":"none"}])"},
    RefusedParameter{"moderation", "[]"},
    RefusedParameter{"verbosity", R"(["medium"])"},
    RefusedParameter{"echo", "[false]"},
    RefusedParameter{"suffix", R"([""])"},
    RefusedParameter{"best_of", "[1]"},
    // prompts, vLLM's and llama-server's
    RefusedParameter{"chat_template", "[]"},
    RefusedParameter{"chat_template_kwargs", "[{}]"},
    RefusedParameter{"add_generation_prompt", "[true]"},
    RefusedParameter{"continue_final_message", "[false]"},
    RefusedParameter{"add_special_tokens", "[false]"},
    RefusedParameter{"documents", "[[]]"},
    RefusedParameter{"truncate_prompt_tokens", "[]"},
    RefusedParameter{"prompt_embeds", "[]"},
    RefusedParameter{"image_data", "[[]]"},
    // Whether a model thinks is its template's affair: off is a wish, too.
    RefusedParameter{"enable_thinking", "[]", kSwitches},
    RefusedParameter{"thinking", "[]", kSwitches},
    RefusedParameter{"think", "[]", kSwitches},
    RefusedParameter{"thinking_budget", "[-1]", kSwitches},
    RefusedParameter{"thinking_budget_tokens", "[-1]", kSwitches},
    RefusedParameter{"thinking_token_budget", "[]", kSwitches},
    RefusedParameter{"reasoning_budget", "[-1]", kSwitches},
    // what the reply is held to
    RefusedParameter{"guided_json", "[]"},
    RefusedParameter{"guided_regex", "[]"},
    RefusedParameter{"guided_choice", "[]"},
    RefusedParameter{"guided_grammar", "[]"},
    RefusedParameter{"structured_outputs", "[]"},
    RefusedParameter{"structural_tag", "[]"},
    RefusedParameter{"regex", "[]"},
    RefusedParameter{"ebnf", "[]"},
    RefusedParameter{"grammar", R"([""])"},
    RefusedParameter{"json_schema", "[]", kFormats},
    RefusedParameter{"response_schema", "[]", kFormats},
    RefusedParameter{"format", R"([""])", kFormats},
    RefusedParameter{"bad_words", "[[]]"},
    RefusedParameter{"allowed_token_ids", "[]"},
    RefusedParameter{"stop_sequences", "[[]]", kStops},
    RefusedParameter{"stop_strings", "[[]]", kStops},
    RefusedParameter{"n_predict", "[]", kLengths},
    RefusedParameter{"num_predict", "[]", kLengths},
    RefusedParameter{"max_new_tokens", "[]", kLengths},
    RefusedParameter{"n_indent", "[0]"},
    RefusedParameter{"t_max_predict_ms", "[0,-1]"},
    // how it is sampled
    RefusedParameter{"options", "[{}]"},
    RefusedParameter{"use_beam_search", "[false]"},
    RefusedParameter{"length_penalty", "[1]"},
    RefusedParameter{"logits_processors", "[[]]"},
    RefusedParameter{"samplers", "[[]]"},
    RefusedParameter{"sampler_order", "[[]]"},
    RefusedParameter{"temperature_last", "[false]"},
    RefusedParameter{"min_keep", "[0,1]"},
    RefusedParameter{"mirostat", "[0]"},
    RefusedParameter{"mirostat_mode", "[0]"},
    RefusedParameter{"adaptive_target", "[-1]"},
    RefusedParameter{"typ_p", "[1]", kTypical},
    RefusedParameter{"nsigma", "[-1,0]"},
    RefusedParameter{"penalty_alpha", "[0]"},
    RefusedParameter{"dynatemp_range", "[0]"},
    RefusedParameter{"smoothing_factor", "[0]"},
    RefusedParameter{"top_n_sigma", "[-1,0]"},
    RefusedParameter{"top_a", "[0]"},
    RefusedParameter{"tfs_z", "[1]"},
    RefusedParameter{"lora", "[[]]"},
    // how it is shown
    RefusedParameter{"include_stop_str_in_output", "[false]"},
    RefusedParameter{"skip_special_tokens", "[true]"},
    RefusedParameter{"reasoning_format", R"(["auto","deepseek"])"},
    RefusedParameter{"include_reasoning", "[true]"},
    RefusedParameter{"separate_reasoning", "[true]"},
    RefusedParameter{"parse_tool_calls", "[true]"},
    RefusedParameter{"prompt_logprobs", "[]"},
    RefusedParameter{"logprob_token_ids", "[]"},
    RefusedParameter{"n_probs", "[0]", kLogprobs},
    RefusedParameter{"post_sampling_probs", "[false]"},
    RefusedParameter{"return_tokens_as_token_ids", "[false]"},
    RefusedParameter{"return_token_strs", "[false]"},
    RefusedParameter{"response_fields", "[[]]"},
};

// "0, -1 or no such field": what a row accepts, and what the endpoint has instead.
std::string expected(const FieldReader& reader, const RefusedParameter& parameter,
                     const JsonArray& neutral) {
  std::string out;
  const auto add = [&out](std::string_view what) {
    if (!out.empty()) out += ", ";
    out += what;
  };
  const auto known = std::ranges::find_if(
      parameter.instead, [&](const Instead& instead) { return reader.knows(instead.field); });
  if (known != parameter.instead.end()) add(known->text);
  for (const JsonValue& value : neutral) add(to_json(value));
  return out.empty() ? "no such field" : out + " or no such field";
}

}  // namespace

ApiStatus finish_fields(FieldReader& reader, std::vector<std::string>& unknown) {
  const FieldReader own = reader;  // what the endpoint reads, without what is asked for here
  for (const RefusedParameter& parameter : kRefused) {
    if (reader.knows(parameter.name)) continue;
    const JsonValue* value = reader.find(parameter.name);
    if (!value) continue;
    const JsonValue neutral = own_json(parameter.neutral);
    const JsonArray& values = neutral.get_array();
    const auto is_value = [&](const JsonValue& other) { return is_same(*value, other); };
    if (std::any_of(values.begin(), values.end(), is_value)) continue;
    return unsupported(reader.path(parameter.name),
                       fmt::format("not supported, expected {}", expected(own, parameter, values)));
  }
  add_unknown(reader, unknown);
  return {};
}

}  // namespace reprise
