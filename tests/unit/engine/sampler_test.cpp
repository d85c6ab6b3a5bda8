// The sampler: total order, truncation, the generator's known answers, and the distribution it
// draws.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "engine/philox.h"
#include "engine/sampling.h"
#include "support/rounds.h"

namespace reprise {
namespace {

std::vector<const kernels::KernelTable*> tables() {
  const auto available = kernels::available_kernels();
  return {available.begin(), available.end()};
}

Sampler scalar_sampler() {
  return Sampler(*kernels::available_kernels().front());
}

std::vector<float> random_logits(std::size_t count, unsigned seed, float spread = 4) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(generator);
  return logits;
}

SampledToken sample(Sampler& sampler, std::span<const float> logits, const SamplingParams& params,
                    std::uint32_t choice, Position position, int top_logprobs) {
  return sampler.sample(logits, params, {.choice = choice, .position = position}, top_logprobs)
      .value();
}

TokenId draw(Sampler& sampler, const std::vector<float>& logits, const SamplingParams& params,
             Position position = 0, std::uint32_t choice = 0) {
  return sample(sampler, logits, params, choice, position, -1).id;
}

// Pearson's statistic of `draws` draws against `expected` probabilities lies, with probability
// 1 - e^-20, below k + 2 sqrt(20 k) + 40 for k degrees of freedom. Source: Laurent & Massart 2000,
// lemma 1 (for chi-square; cells with fewer than 5 expected draws are put together).
void expect_distribution(const std::map<TokenId, int>& counts, const std::vector<double>& expected,
                         int draws) {
  double statistic = 0, rest_expected = 0;
  int cells = 0, rest_count = 0;
  for (std::size_t id = 0; id < expected.size(); id++) {
    const auto found = counts.find(static_cast<TokenId>(id));
    const int count = found == counts.end() ? 0 : found->second;
    const double wanted = expected[id] * draws;
    if (wanted == 0) {
      EXPECT_EQ(count, 0) << "token " << id << " has no probability";
    } else if (wanted < 5) {
      rest_expected += wanted;
      rest_count += count;
    } else {
      statistic += (count - wanted) * (count - wanted) / wanted;
      cells++;
    }
  }
  if (rest_expected >= 1) {
    statistic += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
    cells++;
  }
  const double freedom = cells - 1;
  EXPECT_LE(statistic, freedom + 2 * std::sqrt(20 * freedom) + 40);
}

TEST(Philox, GivesTheKnownAnswersOfItsAuthors) {  // Random123, kat_vectors, philox4x32 10
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SeedChoiceAndPositionEachMatter) {
  const std::uint64_t base = random_bits(1, 2, 3);
  EXPECT_EQ(base, random_bits(1, 2, 3));
  EXPECT_NE(base, random_bits(2, 2, 3));
  EXPECT_NE(base, random_bits(1 + (std::uint64_t{1} << 32), 2, 3));
  EXPECT_NE(base, random_bits(1, 3, 3));
  EXPECT_NE(base, random_bits(1, 2, 4));
  EXPECT_NE(base, random_bits(1, 2, 3 + (std::int64_t{1} << 32)));
  EXPECT_NE(base, random_bits(1, 2, 3, RandomStream::xtc));
}

TEST(Sampler, GreedyTakesTheLowestIdAmongEquals) {
  for (const kernels::KernelTable* table : tables()) {
    Sampler sampler(*table);
    std::vector<float> logits(1000, -1);
    logits[17] = logits[400] = logits[999] = 2;
    EXPECT_EQ(draw(sampler, logits, {.temperature = 0}), 17);
    EXPECT_EQ(draw(sampler, logits, {.top_k = 1}), 17);
    EXPECT_EQ(draw(sampler, logits, {.top_p = 0}), 17);
    EXPECT_EQ(draw(sampler, {5}, {}), 0);
  }
}

TEST(Sampler, TopLogprobsFollowTheTotalOrder) {
  Sampler sampler = scalar_sampler();
  const std::vector<float> logits = {1, 3, 3, -0.0f, 0.0f, 3, 2};
  const SampledToken token = sample(sampler, logits, {.temperature = 0}, 0, 0, 7);
  std::vector<TokenId> ids;
  for (const TokenLogprob& entry : token.top) ids.push_back(entry.id);
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 2, 5, 6, 0, 3, 4}));
  EXPECT_EQ(token.id, 1);
  EXPECT_EQ(token.logprob, token.top.front().logprob);
  double sum = 0;
  for (const TokenLogprob& entry : token.top) sum += std::exp(static_cast<double>(entry.logprob));
  EXPECT_NEAR(sum, 1.0, 7 * 1e-6);  // seven probabilities, each within float rounding of 8
}

TEST(Sampler, LogprobsAreTheModelsWhateverTheTemperature) {
  Sampler sampler = scalar_sampler();
  const std::vector<float> logits = random_logits(5000, 3);
  const SampledToken greedy = sample(sampler, logits, {.temperature = 0}, 0, 9, 20);
  const SampledToken warm = sample(sampler, logits, {.temperature = 3, .top_k = 2}, 0, 9, 20);
  ASSERT_EQ(greedy.top.size(), 20u);
  for (std::size_t rank = 0; rank < 20; rank++) {
    EXPECT_EQ(greedy.top[rank].id, warm.top[rank].id);
    EXPECT_EQ(greedy.top[rank].logprob, warm.top[rank].logprob);
  }
  EXPECT_TRUE(sample(sampler, logits, {.temperature = 0}, 0, 9, 0).top.empty());
  EXPECT_NE(sample(sampler, logits, {.temperature = 0}, 0, 9, 0).logprob, 0);
  double exact = 0;
  for (const float logit : logits) exact += std::exp(static_cast<double>(logit) - logits[0]);
  const SampledToken first = sample(sampler, logits, {.temperature = 0}, 0, 0, 5000);
  for (const TokenLogprob& entry : first.top) {
    const double wanted = static_cast<double>(logits[static_cast<std::size_t>(entry.id)]) -
                          static_cast<double>(logits[0]) - std::log(exact);
    EXPECT_NEAR(entry.logprob, wanted, std::abs(wanted) * 1e-6 + 1e-6);  // float rounding
  }
}

TEST(Sampler, DrawsTheSoftmaxOfTheTemperature) {
  const int draws = rounds(15'000);
  for (const double temperature : {0.5, 1.0, 1.7}) {
    Sampler sampler = scalar_sampler();
    const std::vector<float> logits = random_logits(600, 11, 2);
    std::vector<double> expected(logits.size());
    for (std::size_t id = 0; id < logits.size(); id++) {
      expected[id] = std::exp(static_cast<double>(logits[id]) / temperature);
    }
    const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
    for (double& probability : expected) probability /= sum;
    std::map<TokenId, int> counts;
    for (int position = 0; position < draws; position++) {
      counts[draw(sampler, logits, {.temperature = temperature, .seed = 5}, position)]++;
    }
    expect_distribution(counts, expected, draws);
  }
}

TEST(Sampler, TruncationsApplyInTheStatedOrder) {
  constexpr int kDraws = 20000;
  // Probabilities 0.4 0.3 0.2 0.1 at temperature 1, out of order by id.
  const std::vector<float> logits = {std::log(0.2f), std::log(0.4f), std::log(0.1f),
                                     std::log(0.3f)};
  const auto check = [&](SamplingParams params, const std::vector<double>& expected) {
    Sampler sampler = scalar_sampler();
    params.seed = 77;
    std::map<TokenId, int> counts;
    for (int position = 0; position < kDraws; position++) {
      counts[draw(sampler, logits, params, position)]++;
    }
    expect_distribution(counts, expected, kDraws);
  };
  check({}, {0.2, 0.4, 0.1, 0.3});
  check({.top_k = 2}, {0, 4.0 / 7, 0, 3.0 / 7});
  check({.top_k = 50}, {0.2, 0.4, 0.1, 0.3});
  check({.top_p = 0.65}, {0, 4.0 / 7, 0, 3.0 / 7});
  check({.top_p = 0.75}, {2.0 / 9, 4.0 / 9, 0, 3.0 / 9});
  check({.min_p = 0.45}, {2.0 / 9, 4.0 / 9, 0, 3.0 / 9});
  check({.min_p = 1.0}, {0, 1, 0, 0});
  // top_p is of what top_k left: 0.4 / 0.7 = 0.57 reaches 0.5 alone.
  check({.top_k = 2, .top_p = 0.5}, {0, 1, 0, 0});
  check({.top_p = 0.5}, {0, 4.0 / 7, 0, 3.0 / 7});
  // The temperature comes before top_p: at 0.5 the first has 0.16 / 0.30 = 0.53.
  check({.temperature = 0.5, .top_p = 0.5}, {0, 1, 0, 0});
}

TEST(Sampler, ExtremesStayFiniteAndDrawable) {
  Sampler sampler = scalar_sampler();
  const float largest = std::numeric_limits<float>::max();
  const std::vector<float> wide = {-largest, largest, 0, -largest};
  for (const double temperature : {0.0, 1e-300, 1e-6, 1.0, 1e30}) {
    EXPECT_EQ(draw(sampler, wide, {.temperature = temperature}), 1) << temperature;
  }
  for (const TokenLogprob& entry : sample(sampler, wide, {}, 0, 0, 4).top) {
    EXPECT_TRUE(std::isfinite(entry.logprob));
  }
  // A temperature without end makes all equal.
  std::map<TokenId, int> counts;
  const std::vector<float> four = {1, 2, 3, 4};
  for (int position = 0; position < 8000; position++) {
    counts[draw(sampler, four, {.temperature = 1e300}, position)]++;
  }
  expect_distribution(counts, {0.25, 0.25, 0.25, 0.25}, 8000);
  const std::vector<float> denormal = {1e-44f, 2e-44f, 0};
  EXPECT_EQ(draw(sampler, denormal, {.temperature = 0}), 1);
}

// Ids are names: whichever way the vocabulary is numbered, the same one is drawn (no equal logits
// here).
TEST(Sampler, PermutingTheVocabularyPermutesTheDraw) {
  Sampler sampler = scalar_sampler();
  const std::vector<float> logits = random_logits(3000, 21);
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(4));
  std::vector<float> permuted(logits.size());
  for (std::size_t place = 0; place < order.size(); place++) {
    permuted[place] = logits[static_cast<std::size_t>(order[place])];
  }
  for (const SamplingParams& params :
       {SamplingParams{}, SamplingParams{.top_k = 40}, SamplingParams{.top_p = 0.9},
        SamplingParams{.min_p = 0.05}, SamplingParams{.temperature = 2.5}}) {
    for (Position position = 0; position < 300; position++) {
      const TokenId id = draw(sampler, permuted, params, position);
      EXPECT_EQ(draw(sampler, logits, params, position), order[static_cast<std::size_t>(id)]);
    }
  }
}

TEST(Sampler, ScratchAndKernelsDoNotMatter) {
  const std::vector<float> logits = random_logits(20000, 8, 3);
  const std::vector<float> other = random_logits(50000, 9, 0.01f);  // a walk over thousands
  const SamplingParams params{.temperature = 1.3, .top_p = 0.999, .seed = 42};
  Sampler used = scalar_sampler();
  for (Position position = 0; position < 40; position++) {
    draw(used, other, {.temperature = 5}, position);
    const SampledToken after = sample(used, logits, params, 1, position, 5);
    for (const kernels::KernelTable* table : tables()) {
      Sampler fresh(*table);
      const SampledToken alone = sample(fresh, logits, params, 1, position, 5);
      EXPECT_EQ(after.id, alone.id);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(after.logprob),
                std::bit_cast<std::uint32_t>(alone.logprob));
      for (std::size_t rank = 0; rank < 5; rank++) {
        EXPECT_EQ(after.top[rank].id, alone.top[rank].id);
        EXPECT_EQ(std::bit_cast<std::uint32_t>(after.top[rank].logprob),
                  std::bit_cast<std::uint32_t>(alone.top[rank].logprob));
      }
    }
  }
}

TEST(Sampler, TheWholeOfAFlatLargeVocabularyCanBeDrawn) {
  Sampler sampler = scalar_sampler();
  const std::vector<float> flat(262144, 1.5f);
  TokenId lowest = 262143, highest = 0;
  for (Position position = 0; position < 30; position++) {
    const TokenId id = draw(sampler, flat, {.seed = 3}, position);
    lowest = std::min(lowest, id);
    highest = std::max(highest, id);
  }
  // Each of 30 draws misses a given half with probability 1/2: both are missed by 2^-29.
  EXPECT_LT(lowest, 131072);
  EXPECT_GE(highest, 131072);
}

}  // namespace
}  // namespace reprise
