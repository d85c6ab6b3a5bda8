// The replies of llama-server's own POST /completion, written as JSON.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "api/openai.h"
#include "api/reply_writers.h"

namespace reprise {

// One choice, whole: {"index","content","tokens","stop":true,"model","tokens_predicted",
// "tokens_evaluated","generation_settings","truncated":false,"stop_type","stopping_word",
// "tokens_cached","timings"}. tokens_evaluated are the prompt's; tokens_cached those of them that
// were found in the cache. With `probabilities` (a JSON list) also "completion_probabilities".
std::string format_llama_reply(const ReplyPlan& plan, std::size_t index, std::string_view content,
                               const std::vector<TokenId>& tokens, std::string_view probabilities,
                               const ChoiceEnd& end);

// "generation_settings": what the request asked for, by llama-server's names.
std::string llama_settings(const GenerationFields& fields, Position max_tokens);

// The sampling parameters among them, as members of the object that is being written.
void append_llama_sampling(JsonWriter& json, const SamplingParams& sampling);

// "timings": {...}, member and all: prompt_n counts what was forwarded, cache_n what was not.
void append_llama_timings(JsonWriter& json, const ChoiceEnd& end);

}  // namespace reprise
