// The sampler's twin, written straight from the definitions in sampling.h and logit_editor.h: every
// step looks at the whole vocabulary and at all tokens, nothing is remembered.
#pragma once
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "engine/philox.h"
#include "engine/sampling.h"
#include "kernels/math.h"

namespace reprise::testing {

class NaiveSampler {
 public:
  NaiveSampler(const kernels::KernelTable& kernels, SamplingParams params, SamplingPlace place)
      : kernels_(kernels), params_(std::move(params)), place_(place) {}

  std::optional<TokenId> sample(std::span<const float> logits) const {
    std::vector<float> row;
    for (std::size_t id = 0; id < logits.size(); id++) {
      row.push_back(edited(logits[id], static_cast<TokenId>(id)));
    }
    std::vector<Token> kept;
    for (std::size_t id = 0; id < row.size(); id++) {
      kept.push_back({row[id], static_cast<TokenId>(id)});
    }
    std::ranges::sort(kept, [](const Token& a, const Token& b) {
      return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
    });
    if (kept.front().logit == kImpossible) return std::nullopt;
    if (params_.temperature == 0) return kept.front().id;
    const double largest = static_cast<double>(kept.front().logit);
    const auto weigh = [&](Token& token) {
      token.exponent =
          static_cast<float>((static_cast<double>(token.logit) - largest) / params_.temperature);
      token.weight = static_cast<double>(kernels::exp_f32(token.exponent));
    };
    for (Token& token : kept) weigh(token);
    std::vector<float> exponents(row.size());
    for (const Token& token : kept) exponents[static_cast<std::size_t>(token.id)] = token.exponent;
    double mass = kernels_.sum_exp(exponents.data(), static_cast<int>(row.size()), 0);
    double moment = 0;  // sum of weight * exponent
    for (const float exponent : exponents) moment += moment_of(exponent);

    if (params_.top_k > 0 && static_cast<std::size_t>(params_.top_k) < kept.size()) {
      kept.resize(static_cast<std::size_t>(params_.top_k));
      mass = sum(kept);
      moment = 0;
      for (const Token& token : kept) moment += moment_of(token.exponent);
    }
    if (params_.typical_p < 1) {
      kept = typical(kept, moment / mass, params_.typical_p * mass);
      mass = sum(kept);
    }
    if (params_.top_p < 1 || params_.min_p > 0) {
      kept = likely(kept, mass);
      mass = sum(kept);
    }
    if (params_.xtc_probability > 0 && number(RandomStream::xtc) < params_.xtc_probability) {
      const double least = params_.xtc_threshold * mass;
      const auto is_above = [&](const Token& token) {
        return token.weight > 0 && token.weight >= least;
      };
      while (kept.size() > 1 && is_above(kept[0]) && is_above(kept[1])) {
        mass -= kept[0].weight;
        kept.erase(kept.begin());
      }
    }
    double passed = 0;
    const double target = number(RandomStream::draw) * mass;
    TokenId last = kept.front().id;
    for (const Token& token : kept) {
      if (passed > target || token.weight == 0) break;
      passed += token.weight;
      last = token.id;
    }
    return last;
  }

 private:
  static constexpr float kImpossible = -std::numeric_limits<float>::infinity();
  struct Token {
    float logit = 0;
    TokenId id = 0;
    float exponent = 0;
    double weight = 0;
  };

  static double moment_of(float exponent) {
    const float weight = kernels::exp_f32(exponent);
    return weight > 0 ? static_cast<double>(weight) * static_cast<double>(exponent) : 0;
  }
  static double sum(const std::vector<Token>& tokens) {
    double weight = 0;
    for (const Token& token : tokens) weight += token.weight;
    return weight;
  }
  double number(RandomStream stream) const {
    const std::uint64_t bits = random_bits(params_.seed, place_.choice, place_.position, stream);
    return static_cast<double>(bits >> 11) * 0x1p-53;
  }

  static std::vector<Token> typical(std::vector<Token> tokens, double mean, double enough) {
    std::erase_if(tokens, [](const Token& token) { return token.weight == 0; });
    const auto distance = [&](const Token& token) {
      const double difference = mean - static_cast<double>(token.exponent);
      return difference < 0 ? -difference : difference;
    };
    std::vector<std::size_t> ranks(tokens.size());
    std::iota(ranks.begin(), ranks.end(), std::size_t{0});
    std::ranges::stable_sort(ranks, {}, [&](std::size_t rank) { return distance(tokens[rank]); });
    std::size_t count = 0;
    double mass = 0;
    while (count < ranks.size() && (count == 0 || mass < enough)) {
      mass += tokens[ranks[count++]].weight;
    }
    ranks.resize(count);
    std::ranges::sort(ranks);
    std::vector<Token> kept;
    for (const std::size_t rank : ranks) kept.push_back(tokens[rank]);
    return kept;
  }

  std::vector<Token> likely(const std::vector<Token>& tokens, double mass) const {
    std::vector<Token> kept;
    double weight = 0;
    for (const Token& token : tokens) {
      if (!kept.empty() && token.weight < params_.min_p * tokens.front().weight) break;
      if (token.weight == 0) break;
      if (params_.top_p < 1 && !kept.empty() && weight >= params_.top_p * mass) break;
      kept.push_back(token);
      weight += token.weight;
    }
    return kept;
  }

  float edited(float logit, TokenId id) const {
    if (std::ranges::count(place_.banned, id) > 0) return kImpossible;
    if (std::ranges::count(place_.banned_stops, id) > 0) return kImpossible;
    const auto word = static_cast<std::size_t>(id / 32);
    if (!place_.mask.empty() &&
        (word >= place_.mask.size() || (place_.mask[word] >> (id % 32) & 1) == 0)) {
      return kImpossible;
    }
    if (logit == kImpossible) return logit;
    double value = static_cast<double>(logit);
    for (const LogitBias& bias : params_.logit_bias) {
      if (bias.id == id) value += static_cast<double>(bias.bias);
    }
    if (params_.repetition_penalty != 1 &&
        std::ranges::count(newest(params_.repetition_window), id) > 0) {
      value = value > 0 ? value / params_.repetition_penalty : value * params_.repetition_penalty;
    }
    const auto count = std::ranges::count(
        place_.tokens.subspan(static_cast<std::size_t>(place_.prompt_length)), id);
    if (count > 0) {
      value -= static_cast<double>(count) * params_.frequency_penalty;
      value -= params_.presence_penalty;
    }
    if (params_.dry.multiplier > 0) value -= dry_loss(newest(params_.dry.window), id);
    constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
    return static_cast<float>(std::clamp(value, -kLargest, kLargest));
  }

  std::span<const TokenId> newest(Position window) const {
    if (window < 0) return place_.tokens;
    return place_.tokens.last(std::min(place_.tokens.size(), static_cast<std::size_t>(window)));
  }

  double dry_loss(std::span<const TokenId> tokens, TokenId id) const {
    int longest = 0;
    for (std::size_t next = 1; next < tokens.size(); next++) {
      if (tokens[next] != id) continue;
      int length = 0;
      for (std::size_t back = 0; back < next; back++) {
        const TokenId token = tokens[tokens.size() - 1 - back];
        if (tokens[next - 1 - back] != token) break;
        if (std::ranges::count(params_.dry.breakers, token) > 0) break;
        length++;
      }
      longest = std::max(longest, length);
    }
    if (longest == 0 || longest < params_.dry.allowed_length) return 0;
    double loss = params_.dry.multiplier;
    for (int i = params_.dry.allowed_length; i < longest; i++) loss *= params_.dry.base;
    return std::min(loss, kDryLossMax);
  }

  const kernels::KernelTable& kernels_;
  SamplingParams params_;
  SamplingPlace place_;
};

}  // namespace reprise::testing
