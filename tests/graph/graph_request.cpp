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
  request.top_logprobs = top_logprobs;
  request.scope = scope;
  request.use_cache = use_cache;
  request.pin_ms = pin_ms;
  request.priority = priority;
  request.sink = std::move(sink);
  return request;
}

std::string GraphRequest::describe() const {
  return fmt::format(
      "{} prompt tokens, max_tokens {}, temperature {}, top_k {}, top_p {}, min_p {}, seed {}, "
      "choice {}, stop ids [{}], stop text ids [{}], top_logprobs {}, tenant '{}', salt '{}', "
      "use_cache {}, pin_ms {}, priority {}, history boundary {}, turn ends [{}], prompt [{}]",
      prompt.size(), max_tokens, sampling.temperature, sampling.top_k, sampling.top_p,
      sampling.min_p, sampling.seed, choice, fmt::join(stop_ids, " "),
      fmt::join(stop_text_ids, " "), top_logprobs, scope.tenant, scope.salt, use_cache, pin_ms,
      static_cast<int>(priority), history_boundary, fmt::join(turn_ends, " "),
      fmt::join(prompt, " "));
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
