// What a request asks of the sampler. Plain values; what is out of range is refused by
// request_check.h. The order in which they apply stands at Sampler (sampling.h).
#pragma once
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace reprise {

// Lowers what would repeat a stretch of the text so far ("don't repeat yourself"; source:
// p-e-w, github.com/oobabooga/text-generation-webui/pull/5677, as in koboldcpp and llama.cpp): a
// token that would go on a repeated stretch of n >= allowed_length tokens loses
// multiplier * base^(n - allowed_length), at most kDryLossMax.
struct DryParams {
  double multiplier = 0.0;  // 0: off
  double base = 1.75;       // at least 1
  int allowed_length = 2;
  Position window = -1;                // newest tokens that are looked at; -1: all
  std::vector<TokenId> breakers = {};  // ascending: no stretch goes over them
};

inline constexpr double kDryLossMax = 1e30;  // far beyond all logits, and finite as a float

struct LogitBias {
  TokenId id = 0;
  float bias = 0;
};

struct SamplingParams {
  double temperature = 1.0;  // 0: greedy
  int top_k = 0;             // 0: all
  double typical_p = 1.0;
  double top_p = 1.0;
  double min_p = 0.0;
  double xtc_probability = 0.0;  // how often the likeliest above the threshold are passed over
  double xtc_threshold = 0.1;
  double repetition_penalty = 1.0;  // of tokens in prompt and reply
  Position repetition_window = -1;  // newest tokens that it sees; -1: all
  double frequency_penalty = 0.0;   // of tokens in the reply, by how often they are in it
  double presence_penalty = 0.0;    // of tokens in the reply
  DryParams dry = {};
  std::vector<LogitBias> logit_bias = {};  // ascending ids, each once
  std::uint64_t seed = 0;                  // drawn by the accepting side when the client gave none
};

}  // namespace reprise
