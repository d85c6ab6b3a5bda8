// Requests for the engine and for people.
#include "graph/graph_request.h"

#include <utility>

#include <fmt/core.h>
#include <fmt/format.h>

namespace reprise::testing {

GenerationRequest GraphRequest::with_sink(std::unique_ptr<SequenceSink> sink) const {
  GenerationRequest request;
  request.prompt = prompt;
  request.history_boundary = history_boundary;
  request.turn_ends = turn_ends;
  request.max_tokens = max_tokens;
  request.sampling = sampling;
  request.choice = choice;
  request.stop_ids = stop_ids;
  request.banned_ids = banned_ids;
  request.min_tokens = min_tokens;
  request.top_logprobs = top_logprobs;
  request.scope = scope;
  request.use_cache = use_cache;
  request.pin_ms = pin_ms;
  request.priority = priority;
  request.sink = std::move(sink);
  return request;
}

namespace {

std::string describe(const SamplingParams& sampling) {
  std::string biases;
  for (const LogitBias& bias : sampling.logit_bias) {
    biases += fmt::format(" {}: {}", bias.id, bias.bias);
  }
  const DryParams& dry = sampling.dry;
  return fmt::format(
      "temperature {}, top_k {}, typical_p {}, top_p {}, min_p {}, xtc {} {}, penalties {} (of {}) "
      "{} {}, dry {} {} {} (of {}) breakers [{}], logit_bias [{}], seed {}",
      sampling.temperature, sampling.top_k, sampling.typical_p, sampling.top_p, sampling.min_p,
      sampling.xtc_probability, sampling.xtc_threshold, sampling.repetition_penalty,
      sampling.repetition_window, sampling.frequency_penalty, sampling.presence_penalty,
      dry.multiplier, dry.base, dry.allowed_length, dry.window, fmt::join(dry.breakers, " "),
      biases, sampling.seed);
}

}  // namespace

std::string GraphRequest::describe() const {
  return fmt::format(
      "{} prompt tokens, max_tokens {}, {}, choice {}, stop ids [{}], min_tokens {}, "
      "banned ids [{}], stop text ids [{}], top_logprobs {}, tenant '{}', salt '{}', "
      "use_cache {}, pin_ms {}, priority {}, history boundary {}, turn ends [{}], prompt [{}]",
      prompt.size(), max_tokens, testing::describe(sampling), choice, fmt::join(stop_ids, " "),
      min_tokens, fmt::join(banned_ids, " "), fmt::join(stop_text_ids, " "), top_logprobs,
      scope.tenant, scope.salt, use_cache, pin_ms, static_cast<int>(priority), history_boundary,
      fmt::join(turn_ends, " "), fmt::join(prompt, " "));
}

void Answer::add(const SampledToken& token) {
  const auto append = [&](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  ids.push_back(token.id);
  append(token.id);
  append(token.logprob);
  for (const TokenLogprob& entry : token.top) {
    append(entry.id);
    append(entry.logprob);
  }
}

}  // namespace reprise::testing
