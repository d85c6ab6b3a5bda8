// The sampler: weights, the total order as far as it is needed, one draw.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "engine/philox.h"
#include "engine/sampling.h"
#include "kernels/math.h"

namespace reprise {
namespace {

constexpr std::size_t kFirstRanked = 128;  // nearly always as far as a draw walks

float exponent_of(float logit, float largest, double temperature) {
  return static_cast<float>((static_cast<double>(logit) - static_cast<double>(largest)) /
                            temperature);
}

double weight_of(float logit, float largest, double temperature) {
  return static_cast<double>(kernels::exp_f32(exponent_of(logit, largest, temperature)));
}

// Uniform in [0, 1): the upper 53 bits.
double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

// Makes candidates_ the first `count` of the total order, sorted: one pass with a bounded heap,
// whose top is the worst candidate held. Blocks whose maximum is not above it are passed over: an
// equal logit with a higher id is behind it.
void Sampler::rank_first(std::span<const float> logits, std::size_t count) {
  count = std::min(count, logits.size());
  candidates_.clear();
  if (count == 0) return;
  constexpr auto kBlock = static_cast<std::size_t>(kernels::kMaximumBlock);
  maxima_.resize((logits.size() + kBlock - 1) / kBlock);
  kernels_->block_maxima(logits.data(), static_cast<int>(logits.size()), maxima_.data());
  for (std::size_t block = 0; block < maxima_.size(); block++) {
    if (candidates_.size() == count && maxima_[block] <= candidates_.front().logit) continue;
    const std::size_t end = std::min((block + 1) * kBlock, logits.size());
    for (std::size_t id = block * kBlock; id < end; id++) {
      hold({logits[id], static_cast<TokenId>(id)}, count);
    }
  }
  std::sort(candidates_.begin(), candidates_.end());
}

// Into the heap of the best `count`.
void Sampler::hold(Candidate candidate, std::size_t count) {
  if (candidates_.size() < count) {
    candidates_.push_back(candidate);
    if (candidates_.size() == count) std::make_heap(candidates_.begin(), candidates_.end());
  } else if (candidate < candidates_.front()) {
    std::pop_heap(candidates_.begin(), candidates_.end());
    candidates_.back() = candidate;
    std::push_heap(candidates_.begin(), candidates_.end());
  }
}

// The candidate at `rank` of the total order; ranks more of the vocabulary when a walk gets so far.
const Sampler::Candidate& Sampler::ranked(std::span<const float> logits, std::size_t rank) {
  while (rank >= candidates_.size()) {
    rank_first(logits, std::max(kFirstRanked, candidates_.size() * 32));
  }
  return candidates_[rank];
}

double Sampler::whole_weight(std::span<const float> logits, float largest, double temperature) {
  const int count = static_cast<int>(logits.size());
  if (temperature == 1.0) return kernels_->sum_exp(logits.data(), count, largest);
  exponents_.resize(logits.size());
  kernels_->scaled_exponents(logits.data(), count, largest, temperature, exponents_.data());
  return kernels_->sum_exp(exponents_.data(), count, 0);
}

// Applies top_k, top_p and min_p: what stays is always the beginning of the total order.
Sampler::Kept Sampler::truncate(std::span<const float> logits, const SamplingParams& params,
                                float largest) {
  Kept kept;
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < logits.size()) {
    kept.count = static_cast<std::size_t>(params.top_k);
    rank_first(logits, kept.count);
    for (const Candidate& candidate : candidates_) {
      kept.weight += weight_of(candidate.logit, largest, params.temperature);
    }
  } else {
    kept = {logits.size(), whole_weight(logits, largest, params.temperature)};
  }
  if (!(params.top_p < 1.0) && !(params.min_p > 0.0)) return kept;

  const double enough =
      params.top_p < 1.0 ? params.top_p * kept.weight : std::numeric_limits<double>::infinity();
  Kept shorter;
  while (shorter.count < kept.count) {
    const Candidate& candidate = ranked(logits, shorter.count);
    const double weight = weight_of(candidate.logit, largest, params.temperature);
    // The first one's weight is 1.
    if (weight == 0 || (shorter.count > 0 && weight < params.min_p)) break;
    shorter.weight += weight;
    shorter.count++;
    if (shorter.weight >= enough) break;
  }
  return shorter;
}

TokenId Sampler::draw(std::span<const float> logits, const SamplingParams& params, float largest,
                      std::uint64_t bits) {
  candidates_.clear();
  const Kept kept = truncate(logits, params, largest);
  const double target = unit_interval(bits) * kept.weight;
  double passed = 0;
  TokenId chosen = 0;
  // Sums of two orders differ in their last bits: then the last one with a weight is taken.
  for (std::size_t rank = 0; rank < kept.count && passed <= target; rank++) {
    const Candidate& candidate = ranked(logits, rank);
    const double weight = weight_of(candidate.logit, largest, params.temperature);
    if (weight == 0) break;
    passed += weight;
    chosen = candidate.id;
  }
  return chosen;
}

SampledToken Sampler::sample(std::span<const float> logits, const SamplingParams& params,
                             std::uint32_t choice, Position position, int top_logprobs) {
  CHECK(!logits.empty());
  const int best = kernels_->argmax(logits.data(), static_cast<int>(logits.size()));
  const float largest = logits[static_cast<std::size_t>(best)];
  SampledToken sampled;
  sampled.id = params.temperature > 0
                   ? draw(logits, params, largest, random_bits(params.seed, choice, position))
                   : best;
  if (top_logprobs < 0) return sampled;

  const double log_sum =
      kernels::log_f64(kernels_->sum_exp(logits.data(), static_cast<int>(logits.size()), largest));
  const auto logprob = [&](float logit) {
    const double exact = static_cast<double>(logit) - static_cast<double>(largest) - log_sum;
    return static_cast<float>(
        std::max(exact, static_cast<double>(std::numeric_limits<float>::lowest())));
  };
  sampled.logprob = logprob(logits[static_cast<std::size_t>(sampled.id)]);
  rank_first(logits, static_cast<std::size_t>(top_logprobs));
  for (const Candidate& candidate : candidates_) {
    sampled.top.push_back({candidate.id, logprob(candidate.logit)});
  }
  return sampled;
}

}  // namespace reprise
