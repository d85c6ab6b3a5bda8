// llama-server's names for what a choice was.
#include "api/llama_format.h"

namespace reprise {
namespace {

std::string_view stop_type(const ChoiceEnd& end) {
  if (end.reason == ChoiceEnd::Reason::length) return "limit";
  return end.stop_string.empty() ? "eos" : "word";
}

// "NAME_n", "NAME_ms", "NAME_per_token_ms", "NAME_per_second"; the last two are 0 where nothing can
// be divided.
void append_speed(JsonWriter& json, const std::string& name, Position count, double milliseconds) {
  const auto tokens = static_cast<double>(count);
  json.key(name + "_n").integer(count);
  json.key(name + "_ms").number(milliseconds);
  json.key(name + "_per_token_ms").number(count > 0 ? milliseconds / tokens : 0.0);
  json.key(name + "_per_second").number(milliseconds > 0 ? tokens / milliseconds * 1000 : 0.0);
}

}  // namespace

void append_llama_timings(JsonWriter& json, const ChoiceEnd& end) {
  json.key("timings").begin_object();
  json.key("cache_n").integer(end.usage.cached_tokens);
  append_speed(json, "prompt", end.usage.prompt_tokens - end.usage.cached_tokens,
               end.timings.prefill_ms);
  append_speed(json, "predicted", end.usage.completion_tokens, end.timings.decode_ms);
  json.end_object();
}

std::string format_llama_reply(const ReplyPlan& plan, std::size_t index, std::string_view content,
                               const std::vector<TokenId>& tokens, std::string_view probabilities,
                               const ChoiceEnd& end) {
  JsonWriter json;
  json.begin_object();
  json.key("index").integer(index);
  json.key("content").text(content);
  append_token_ids(json.key("tokens"), tokens);
  json.key("stop").boolean(true);
  json.key("model").text(plan.identity.model);
  json.key("tokens_predicted").integer(end.usage.completion_tokens);
  json.key("tokens_evaluated").integer(end.usage.prompt_tokens);
  json.key("generation_settings").raw(plan.generation_settings);
  json.key("truncated").boolean(false);
  json.key("stop_type").text(stop_type(end));
  json.key("stopping_word").text(end.stop_string);
  json.key("tokens_cached").integer(end.usage.cached_tokens);
  append_llama_timings(json, end);
  if (!probabilities.empty()) json.key("completion_probabilities").raw(probabilities);
  return json.end_object().take();
}

void append_llama_sampling(JsonWriter& json, const SamplingParams& sampling) {
  json.key("temperature").number(sampling.temperature);
  json.key("top_k").integer(sampling.top_k);
  json.key("top_p").number(sampling.top_p);
  json.key("min_p").number(sampling.min_p);
  json.key("typical_p").number(sampling.typical_p);
  json.key("xtc_probability").number(sampling.xtc_probability);
  json.key("xtc_threshold").number(sampling.xtc_threshold);
  json.key("repeat_penalty").number(sampling.repetition_penalty);
  json.key("repeat_last_n").integer(sampling.repetition_window);
  json.key("presence_penalty").number(sampling.presence_penalty);
  json.key("frequency_penalty").number(sampling.frequency_penalty);
  json.key("dry_multiplier").number(sampling.dry.multiplier);
  json.key("dry_base").number(sampling.dry.base);
  json.key("dry_allowed_length").integer(sampling.dry.allowed_length);
  json.key("dry_penalty_last_n").integer(sampling.dry.window);
}

std::string llama_settings(const GenerationFields& fields, Position max_tokens) {
  const SamplingParams& sampling = fields.sampling;
  JsonWriter json;
  json.begin_object();
  json.key("n_predict").integer(max_tokens);
  json.key("seed").integer(sampling.seed);
  append_llama_sampling(json, sampling);
  json.key("stop").begin_array();
  for (const std::string& stop : fields.stop) json.text(stop);
  json.end_array();
  json.key("ignore_eos").boolean(fields.ignore_eos);
  json.key("n_probs").integer(fields.top_logprobs < 0 ? 0 : fields.top_logprobs);
  json.key("stream").boolean(fields.stream);
  return json.end_object().take();
}

}  // namespace reprise
