// The sampler: weights along the total order, filters, one draw.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "engine/philox.h"
#include "engine/sampling.h"
#include "kernels/math.h"

namespace reprise {
namespace {

constexpr std::size_t kFirstRanked = 128;  // nearly always as far as a draw walks

// Uniform in [0, 1): the upper 53 bits.
double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

double random_number(const SamplingParams& params, const SamplingPlace& place,
                     RandomStream stream) {
  return unit_interval(random_bits(params.seed, place.choice, place.position, stream));
}

}  // namespace

// Weighs the first `count` of the total order.
void Sampler::rank_first(const Row& row, std::size_t count) {
  order_.rank(count);
  const std::span<const TokenId> ids = order_.ids();
  const std::size_t begin = weights_.size(), more = ids.size() - begin;
  for (const TokenId id : ids.subspan(begin)) {
    ids_.push_back(id);
    exponents_.push_back(row.logits[static_cast<std::size_t>(id)]);
  }
  float* const exponents = exponents_.data() + begin;
  kernels_->scaled_exponents(exponents, static_cast<int>(more), row.largest, row.temperature,
                             exponents);
  weights_.insert(weights_.end(), exponents, exponents + more);
  kernels_->exponentials(weights_.data() + begin, more);
}

// Of the token at `rank` of the total order; ranks more of them when a walk gets so far.
double Sampler::weight_at(const Row& row, std::size_t rank) {
  if (rank >= weights_.size()) rank_first(row, std::max(kFirstRanked, weights_.size() * 16));
  return static_cast<double>(weights_[rank]);
}

// Makes row_exponents_ those of all tokens, by id.
void Sampler::find_row_exponents(const Row& row) {
  row_exponents_.resize(row.logits.size());
  kernels_->scaled_exponents(row.logits.data(), static_cast<int>(row.logits.size()), row.largest,
                             row.temperature, row_exponents_.data());
}

double Sampler::whole_weight(const Row& row) {
  const int count = static_cast<int>(row.logits.size());
  if (row.temperature == 1.0) return kernels_->sum_exp(row.logits.data(), count, row.largest);
  find_row_exponents(row);
  return kernels_->sum_exp(row_exponents_.data(), count, 0);
}

// Of tokens in proportion to their weights: log of their sum, less the entropy.
double Sampler::mean_exponent(const Row& row, const Kept& kept) {
  double sum = 0;
  const auto add = [&](float weight, float exponent) {
    if (weight > 0) sum += static_cast<double>(weight) * static_cast<double>(exponent);
  };
  if (kept.end == row.logits.size()) {
    find_row_exponents(row);
    row_weights_ = row_exponents_;
    kernels_->exponentials(row_weights_.data(), row_weights_.size());
    for (std::size_t id = 0; id < row_weights_.size(); id++) {
      add(row_weights_[id], row_exponents_[id]);
    }
  } else {
    for (std::size_t rank = kept.first; rank < kept.end; rank++) {
      add(weights_[rank], exponents_[rank]);
    }
  }
  return sum / kept.weight;
}

Sampler::Kept Sampler::keep_top_k(const Row& row, int top_k) {
  if (top_k <= 0 || static_cast<std::size_t>(top_k) >= row.logits.size()) {
    return {.end = row.logits.size(), .weight = whole_weight(row)};
  }
  Kept kept{.end = static_cast<std::size_t>(top_k)};
  rank_first(row, kept.end);
  for (std::size_t rank = 0; rank < kept.end; rank++) kept.weight += weight_at(row, rank);
  return kept;
}

// Along the total order exponents fall, so distances from the mean fall and then rise: the nearest
// are taken by a walk upwards and one downwards from where they turn. Equally far ones above are
// one group, taken in the total order, which runs against the walk; where the walk ends inside a
// group, what was taken of it moves down to the rest.
Sampler::Kept Sampler::keep_typical(const Row& row, const Kept& kept, double typical_p) {
  const double mean = mean_exponent(row, kept);
  const double enough = typical_p * kept.weight;
  const auto has_weight = [&](std::size_t rank) {
    return rank < kept.end && weight_at(row, rank) > 0;
  };
  const auto difference = [&](std::size_t rank) {  // of a token that was weighed
    return mean - static_cast<double>(exponents_[rank]);
  };
  std::size_t below = 0;  // the next one down
  while (has_weight(below) && difference(below) < 0) below++;
  // [group, group_end) are equally far, those before `next` are taken; all before it are not.
  std::size_t group = below, next = below, group_end = below;
  double mass = 0;
  do {
    if (next == group_end && group > 0) {
      group_end = group--;
      while (group > 0 && difference(group - 1) == difference(group)) group--;
      next = group;
    }
    const bool is_below = has_weight(below);
    if (next == group_end && !is_below) break;
    const bool is_up = next < group_end && (!is_below || -difference(next) <= difference(below));
    mass += weight_at(row, is_up ? next++ : below++);
  } while (mass < enough);

  const auto move_taken = [&](auto& of_ranks) {
    const auto at = [&](std::size_t rank) {
      return of_ranks.begin() + static_cast<std::ptrdiff_t>(rank);
    };
    std::move_backward(at(group), at(next), at(group_end));
  };
  move_taken(ids_);
  move_taken(weights_);
  Kept typical{.first = group + (group_end - next), .end = below};
  for (std::size_t rank = typical.first; rank < below; rank++)
    typical.weight += weight_at(row, rank);
  return typical;
}

// top_p and min_p in one walk: each keeps the beginning of the order.
Sampler::Kept Sampler::keep_likely(const Row& row, const Kept& kept, double top_p, double min_p) {
  const double enough = top_p < 1.0 ? top_p * kept.weight : std::numeric_limits<double>::infinity();
  const double least = min_p * weight_at(row, kept.first);
  Kept shorter{.first = kept.first, .end = kept.first};
  while (shorter.end < kept.end) {
    const double weight = weight_at(row, shorter.end);
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
  const auto is_above = [&](std::size_t rank) {
    if (rank >= kept.end) return false;
    const double weight = weight_at(row, rank);
    return weight > 0 && weight >= least;
  };
  while (is_above(kept.first) && is_above(kept.first + 1)) {
    kept.weight -= weight_at(row, kept.first);
    kept.first++;
  }
  return kept;
}

TokenId Sampler::draw(const Row& row, const SamplingParams& params, const SamplingPlace& place) {
  order_.start(row.logits);
  ids_.clear();
  exponents_.clear();
  weights_.clear();
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
  std::size_t chosen = kept.first;
  for (std::size_t rank = kept.first; rank < kept.end && passed <= target; rank++) {
    const double weight = weight_at(row, rank);
    if (weight == 0) break;
    passed += weight;
    chosen = rank;
  }
  return ids_[chosen];
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
  order_.start(logits);
  order_.rank(static_cast<std::size_t>(top_logprobs));
  const std::span<const TokenId> ids = order_.ids();
  for (const TokenId top :
       ids.first(std::min(ids.size(), static_cast<std::size_t>(top_logprobs)))) {
    judged.top.push_back({top, logprob(logits[static_cast<std::size_t>(top)])});
  }
  return judged;
}

}  // namespace reprise
