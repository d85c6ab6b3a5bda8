// Parameters that would change the answer, of OpenAI and of other servers, and that we do not have.
// Without this table they would be ignored like unknown fields, and the client would get another
// answer than it asked for.
#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

struct RefusedParameter {
  std::string_view name;
  std::string_view neutral;  // a JSON list: the values that ask for nothing special
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
    RefusedParameter{"enable_thinking", "[]"},
    RefusedParameter{"thinking_budget_tokens", "[-1]"},
    RefusedParameter{"thinking_token_budget", "[]"},
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
    RefusedParameter{"json_schema", "[]"},
    RefusedParameter{"bad_words", "[[]]"},
    RefusedParameter{"allowed_token_ids", "[]"},
    RefusedParameter{"n_predict", "[]"},
    RefusedParameter{"n_indent", "[0]"},
    RefusedParameter{"t_max_predict_ms", "[0,-1]"},
    // how it is sampled
    RefusedParameter{"use_beam_search", "[false]"},
    RefusedParameter{"length_penalty", "[1]"},
    RefusedParameter{"logits_processors", "[[]]"},
    RefusedParameter{"samplers", "[[]]"},
    RefusedParameter{"sampler_order", "[[]]"},
    RefusedParameter{"temperature_last", "[false]"},
    RefusedParameter{"min_keep", "[0,1]"},
    RefusedParameter{"mirostat", "[0]"},
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
    RefusedParameter{"post_sampling_probs", "[false]"},
    RefusedParameter{"return_tokens_as_token_ids", "[false]"},
    RefusedParameter{"return_token_strs", "[false]"},
    RefusedParameter{"response_fields", "[[]]"},
};

// "0, -1", of what a row accepts.
std::string listed(const JsonArray& values) {
  std::string out;
  for (const JsonValue& value : values) {
    if (!out.empty()) out += ", ";
    out += to_json(value);
  }
  return out;
}

}  // namespace

ApiStatus finish_fields(FieldReader& reader, std::vector<std::string>& unknown) {
  for (const RefusedParameter& parameter : kRefused) {
    if (reader.knows(parameter.name)) continue;
    const JsonValue* value = reader.find(parameter.name);
    if (!value) continue;
    const JsonValue neutral = own_json(parameter.neutral);
    const JsonArray& values = neutral.get_array();
    const auto is_value = [&](const JsonValue& other) { return is_same(*value, other); };
    if (std::any_of(values.begin(), values.end(), is_value)) continue;
    const std::string expected = values.empty() ? "" : listed(values) + " or ";
    return unsupported(reader.path(parameter.name),
                       fmt::format("not supported, expected {}no such field", expected));
  }
  add_unknown(reader, unknown);
  return {};
}

}  // namespace reprise
