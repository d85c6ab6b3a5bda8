// Sampling parameters at random: every one of them now and then, alone and together.
#pragma once
#include <algorithm>
#include <random>
#include <vector>

#include "engine/sampling_params.h"

namespace reprise::testing {

template <class Random>
SamplingParams random_sampling(Random& random, int vocabulary) {
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(bound));
  };
  const auto unit = [&] { return below(1'000'000) / 1e6; };
  const auto id = [&] { return static_cast<TokenId>(below(vocabulary)); };
  SamplingParams params;
  params.seed = random();
  params.temperature = below(4) == 0 ? 0 : below(3) == 0 ? 1 : 0.2 + 2 * unit();
  if (below(3) == 0) params.top_k = 1 + below(below(2) == 0 ? 5 : vocabulary + 2);
  if (below(3) == 0) params.typical_p = unit();
  if (below(3) == 0) params.top_p = unit();
  if (below(3) == 0) params.min_p = unit() * unit();
  if (below(3) == 0) {
    params.xtc_probability = below(3) == 0 ? 1 : unit();
    params.xtc_threshold = below(4) == 0 ? 0 : unit() * 0.5;
  }
  if (below(3) == 0) {
    params.repetition_penalty = 0.5 + 1.5 * unit();
    if (below(2) == 0) params.repetition_window = below(40);
  }
  if (below(3) == 0) params.frequency_penalty = 4 * unit() - 2;
  if (below(3) == 0) params.presence_penalty = 4 * unit() - 2;
  if (below(3) == 0) {
    params.dry.multiplier = 3 * unit();
    params.dry.base = below(5) == 0 ? 1 : 1 + 2 * unit();
    params.dry.allowed_length = below(4);
    if (below(2) == 0) params.dry.window = below(60);
    for (int i = below(3); i > 0; i--) params.dry.breakers.push_back(id());
    std::ranges::sort(params.dry.breakers);
  }
  if (below(3) == 0) {
    std::vector<TokenId> ids;
    for (int i = below(6); i > 0; i--) ids.push_back(id());
    std::ranges::sort(ids);
    ids.erase(std::ranges::unique(ids).begin(), ids.end());
    for (const TokenId each : ids) {
      const int size = below(3) == 0 ? 100 : 5;
      params.logit_bias.push_back({each, static_cast<float>(size * (2 * unit() - 1))});
    }
  }
  return params;
}

}  // namespace reprise::testing
