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

double random_number(const SamplingParams& params, const SamplingPlace& place,
                     RandomStream stream) {
  return unit_interval(random_bits(params.seed, place.choice, place.position, stream));
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
const Sampler::Candidate& Sampler::ranked(const Row& row, std::size_t rank) {
  while (rank >= candidates_.size()) {
    rank_first(row.logits, std::max(kFirstRanked, candidates_.size() * 32));
  }
  return candidates_[rank];
}

double Sampler::whole_weight(const Row& row) {
  const int count = static_cast<int>(row.logits.size());
  if (row.temperature == 1.0) return kernels_->sum_exp(row.logits.data(), count, row.largest);
  exponents_.resize(row.logits.size());
  kernels_->scaled_exponents(row.logits.data(), count, row.largest, row.temperature,
                             exponents_.data());
  return kernels_->sum_exp(exponents_.data(), count, 0);
}

// Of tokens in proportion to their weights: log of their sum, less the entropy.
double Sampler::mean_exponent(const Row& row, const Kept& kept) {
  double sum = 0;
  const auto add = [&](float logit) {
    const float exponent = exponent_of(logit, row.largest, row.temperature);
    const float weight = kernels::exp_f32(exponent);
    if (weight > 0) sum += static_cast<double>(weight) * static_cast<double>(exponent);
  };
  if (kept.end == row.logits.size()) {
    for (const float logit : row.logits) add(logit);
  } else {
    for (std::size_t rank = kept.first; rank < kept.end; rank++) add(ranked(row, rank).logit);
  }
  return sum / kept.weight;
}

Sampler::Kept Sampler::keep_top_k(const Row& row, int top_k) {
  if (top_k <= 0 || static_cast<std::size_t>(top_k) >= row.logits.size()) {
    return {.end = row.logits.size(), .weight = whole_weight(row)};
  }
  Kept kept{.end = static_cast<std::size_t>(top_k)};
  rank_first(row.logits, kept.end);
  for (const Candidate& candidate : candidates_) {
    kept.weight += weight_of(candidate.logit, row.largest, row.temperature);
  }
  return kept;
}

// Along the total order exponents fall, so distances from the mean fall and then rise: the nearest
// are taken by two walks from where they turn, upwards and downwards. Of those above, equally far
// ones are taken together, because there the total order runs against the walk.
Sampler::Kept Sampler::keep_typical(const Row& row, const Kept& kept, double typical_p) {
  const double mean = mean_exponent(row, kept);
  const double enough = typical_p * kept.weight;
  const auto exponent = [&](std::size_t rank) {
    return exponent_of(ranked(row, rank).logit, row.largest, row.temperature);
  };
  const auto distance = [&](std::size_t rank) {
    return __builtin_fabs(mean - static_cast<double>(exponent(rank)));
  };
  const auto has_weight = [&](std::size_t rank) {
    return rank < kept.end && kernels::exp_f32(exponent(rank)) > 0;
  };
  std::size_t turn = 0;
  while (has_weight(turn) && static_cast<double>(exponent(turn)) > mean) turn++;

  std::vector<std::size_t> ranks;
  double mass = 0;
  const auto take = [&](std::size_t rank) {
    ranks.push_back(rank);
    mass += weight_of(ranked(row, rank).logit, row.largest, row.temperature);
  };
  std::size_t above = turn, below = turn;  // [above, below) is taken
  while ((above > 0 || has_weight(below)) && (ranks.empty() || mass < enough)) {
    if (above > 0 && (!has_weight(below) || distance(above - 1) <= distance(below))) {
      const std::size_t end = above;
      const double same = distance(end - 1);
      while (above > 0 && distance(above - 1) == same) above--;
      for (std::size_t rank = above; rank < end && (ranks.empty() || mass < enough); rank++) {
        take(rank);
      }
    } else {
      take(below++);
    }
  }
  std::ranges::sort(ranks);
  std::vector<Candidate> taken;
  double weight = 0;
  for (const std::size_t rank : ranks) {
    taken.push_back(ranked(row, rank));
    weight += weight_of(taken.back().logit, row.largest, row.temperature);
  }
  candidates_ = std::move(taken);
  return {.end = candidates_.size(), .weight = weight};
}

// top_p and min_p in one walk: each keeps the beginning of the order.
Sampler::Kept Sampler::keep_likely(const Row& row, const Kept& kept, double top_p, double min_p) {
  const double enough = top_p < 1.0 ? top_p * kept.weight : std::numeric_limits<double>::infinity();
  const double least =
      min_p * weight_of(ranked(row, kept.first).logit, row.largest, row.temperature);
  Kept shorter{.first = kept.first, .end = kept.first};
  while (shorter.end < kept.end) {
    const Candidate& candidate = ranked(row, shorter.end);
    const double weight = weight_of(candidate.logit, row.largest, row.temperature);
    const bool is_first = shorter.end == shorter.first;
    if (weight == 0 || (!is_first && weight < least)) break;
    shorter.weight += weight;
    shorter.end++;
    if (shorter.weight >= enough) break;
  }
  return shorter;
}

Sampler::Kept Sampler::pass_over_top(const Row& row, Kept kept, double threshold) {
  const double least = threshold * kept.weight;
  const auto weight = [&](std::size_t rank) {
    return weight_of(ranked(row, rank).logit, row.largest, row.temperature);
  };
  const auto is_above = [&](std::size_t rank) {
    return rank < kept.end && weight(rank) > 0 && weight(rank) >= least;
  };
  while (is_above(kept.first) && is_above(kept.first + 1)) {
    kept.weight -= weight(kept.first);
    kept.first++;
  }
  return kept;
}

TokenId Sampler::draw(const Row& row, const SamplingParams& params, const SamplingPlace& place) {
  candidates_.clear();
  Kept kept = keep_top_k(row, params.top_k);
  if (params.typical_p < 1.0) kept = keep_typical(row, kept, params.typical_p);
  if (params.top_p < 1.0 || params.min_p > 0.0) {
    kept = keep_likely(row, kept, params.top_p, params.min_p);
  }
  if (params.xtc_probability > 0.0 &&
      random_number(params, place, RandomStream::xtc) < params.xtc_probability) {
    kept = pass_over_top(row, kept, params.xtc_threshold);
  }
  const double target = random_number(params, place, RandomStream::draw) * kept.weight;
  double passed = 0;
  // The first one has a weight. Sums of two orders differ in their last bits: when the walk ends
  // before the target the last one with a weight is taken.
  TokenId chosen = ranked(row, kept.first).id;
  for (std::size_t rank = kept.first; rank < kept.end && passed <= target; rank++) {
    const Candidate& candidate = ranked(row, rank);
    const double weight = weight_of(candidate.logit, row.largest, row.temperature);
    if (weight == 0) break;
    passed += weight;
    chosen = candidate.id;
  }
  return chosen;
}

std::optional<SampledToken> Sampler::sample(std::span<const float> logits,
                                            const SamplingParams& params,
                                            const SamplingPlace& place, int top_logprobs) {
  CHECK(!logits.empty());
  const std::span<const float> row =
      LogitEditor::is_needed(params, place) ? editor_.edit(logits, params, place) : logits;
  const int best = kernels_->argmax(row.data(), static_cast<int>(row.size()));
  const float largest = row[static_cast<std::size_t>(best)];
  if (largest == -std::numeric_limits<float>::infinity()) return std::nullopt;
  const TokenId id =
      params.temperature > 0 ? draw({row, largest, params.temperature}, params, place) : best;
  if (top_logprobs < 0) return SampledToken{.id = id};
  return judge(logits, id, top_logprobs);
}

SampledToken Sampler::judge(std::span<const float> logits, TokenId id, int top_logprobs) {
  const int count = static_cast<int>(logits.size());
  const float largest = logits[static_cast<std::size_t>(kernels_->argmax(logits.data(), count))];
  const double log_sum = kernels::log_f64(kernels_->sum_exp(logits.data(), count, largest));
  const auto logprob = [&](float logit) {
    const double exact = static_cast<double>(logit) - static_cast<double>(largest) - log_sum;
    return static_cast<float>(
        std::max(exact, static_cast<double>(std::numeric_limits<float>::lowest())));
  };
  SampledToken judged{.id = id, .logprob = logprob(logits[static_cast<std::size_t>(id)])};
  rank_first(logits, static_cast<std::size_t>(top_logprobs));
  for (const Candidate& candidate : candidates_) {
    judged.top.push_back({candidate.id, logprob(candidate.logit)});
  }
  return judged;
}

}  // namespace reprise
