// The sampler against its naive twin on random rows, and each edit and filter against answers known
// from its source.
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "naive_sampler.h"
#include "support/random_sampling.h"
#include "support/rounds.h"

namespace reprise::testing {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// A row and a place at random: few different logits (many ties) or many, zeros of both signs,
// extremes, suppressed tokens.
class World {
 public:
  explicit World(unsigned seed) : random_(seed) {
    const int vocabulary = 1 + below(below(4) == 0 ? 3000 : 150);
    const int kind = below(4);
    std::normal_distribution<float> normal(0, kind == 3 ? 0.01f : 4);
    for (int id = 0; id < vocabulary; id++) {
      float logit = normal(random_);
      if (kind == 0) logit = std::round(logit / 2);
      if (below(40) == 0) logit = -0.0f;
      if (below(200) == 0) logit = std::numeric_limits<float>::max() * (below(2) == 0 ? 1 : -1);
      if (below(50) == 0) logit = kImpossible;
      logits.push_back(logit);
    }
    const int alphabet = 1 + below(vocabulary);
    for (int i = below(200); i > 0; i--) tokens_.push_back(below(std::min(alphabet, 9)));
    for (int i = below(4); i > 0; i--) banned_.push_back(below(vocabulary));
    for (int i = below(4); i > 0; i--) stops_.push_back(below(vocabulary));
    if (below(3) == 0) {
      const std::size_t words = static_cast<std::size_t>(vocabulary + 31) / 32;
      mask_.resize(words - (below(4) == 0 ? 1 : 0));
      for (std::uint32_t& word : mask_) {
        word = below(3) == 0 ? 0 : below(2) == 0 ? ~0u : static_cast<std::uint32_t>(random_());
      }
    }
    params = random_sampling(random_, vocabulary);
    place = {.choice = static_cast<std::uint32_t>(below(3)),
             .position = below(100000),
             .tokens = tokens_,
             .prompt_length = below(static_cast<int>(tokens_.size()) + 1),
             .mask = mask_,
             .banned = banned_,
             .banned_stops = stops_};
  }

  std::vector<float> logits;
  SamplingParams params;
  SamplingPlace place;

 private:
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  std::mt19937 random_;
  std::vector<TokenId> tokens_, banned_, stops_;
  std::vector<std::uint32_t> mask_;
};

TEST(SamplerReference, EqualsTheNaiveTwin) {
  std::map<const kernels::KernelTable*, Sampler> samplers;
  for (const kernels::KernelTable* table : kernels::available_kernels()) {
    samplers.emplace(table, Sampler(*table));
  }
  int empty = 0, edited = 0;
  const int worlds = rounds(20'000);
  for (int seed = 0; seed < worlds && !HasFailure(); seed++) {
    World world(static_cast<unsigned>(seed));
    for (int draw = 0; draw < 3; draw++, world.place.position++) {
      const std::optional<TokenId> expected =
          NaiveSampler(*kernels::available_kernels().front(), world.params, world.place)
              .sample(world.logits);
      for (auto& [table, sampler] : samplers) {
        const std::optional<SampledToken> sampled =
            sampler.sample(world.logits, world.params, world.place, -1);
        ASSERT_EQ(sampled.has_value(), expected.has_value()) << seed << " " << table->isa;
        if (expected) {
          ASSERT_EQ(sampled->id, *expected) << seed << " " << draw << " " << table->isa;
        }
      }
      empty += expected ? 0 : 1;
    }
    edited += LogitEditor::is_needed(world.params, world.place) ? 1 : 0;
  }
  EXPECT_GT(empty, worlds / 400);
  EXPECT_GT(edited, worlds / 2);
}

// Filters alone, on rows that are ranked in several stages, with walks that go far: hot rows, and
// ties from rounding, of which typical_p takes a part.
TEST(SamplerReference, EqualsTheNaiveTwinOnLongTails) {
  std::mt19937 random(5);
  const auto unit = [&] { return static_cast<double>(random() % 1'000'000) / 1e6; };
  const auto near_one = [&] { return 1 - std::pow(10.0, -5 * unit()); };
  std::map<const kernels::KernelTable*, Sampler> samplers;
  for (const kernels::KernelTable* table : kernels::available_kernels()) {
    samplers.emplace(table, Sampler(*table));
  }
  const int rows = rounds(50);
  for (int round = 0; round < rows && !HasFailure(); round++) {
    std::vector<float> row(2000 + random() % 50'000);
    std::normal_distribution<float> normal(-4, round % 3 == 0 ? 0.5f : 3.0f);
    const float step = round % 2 == 0 ? 0 : round % 4 == 1 ? 0.5f : 1e-3f;
    for (float& logit : row) {
      logit = normal(random);
      if (step > 0) logit = step * std::round(logit / step);
    }
    SamplingParams params{.temperature = round % 5 == 0 ? 1 : 0.5 + 2 * unit(), .seed = random()};
    if (random() % 3 == 0) params.top_k = static_cast<int>(random() % row.size());
    if (random() % 3 != 0) params.typical_p = random() % 2 == 0 ? unit() : near_one();
    if (random() % 2 == 0) params.top_p = near_one();
    if (random() % 3 == 0) params.min_p = 1 - near_one();
    if (random() % 2 == 0) params.xtc_probability = 1;
    params.xtc_threshold = random() % 2 == 0 ? 0 : 1 - near_one();
    for (Position position = 0; position < 2; position++) {
      const SamplingPlace place{.position = position};
      const std::optional<TokenId> expected =
          NaiveSampler(*kernels::available_kernels().front(), params, place).sample(row);
      for (auto& [table, sampler] : samplers) {
        const std::optional<SampledToken> sampled = sampler.sample(row, params, place, -1);
        ASSERT_TRUE(sampled.has_value());
        ASSERT_EQ(sampled->id, expected) << round << " " << position << " " << table->isa;
      }
    }
  }
}

// One token's logit after the edits.
float edited(float logit, TokenId id, const SamplingParams& params, const SamplingPlace& place) {
  std::vector<float> row(64, 0.5f);
  row[static_cast<std::size_t>(id)] = logit;
  LogitEditor editor;
  return editor.edit(row, params, place)[static_cast<std::size_t>(id)];
}

TEST(LogitEditor, PenaltiesAreThoseOfTheirSources) {
  const std::vector<TokenId> tokens = {1, 2, 3, 1, 2, 2};
  const SamplingPlace place{.position = 6, .tokens = tokens, .prompt_length = 3};
  // Hugging Face: positive logits divided, negative ones multiplied, prompt and reply.
  EXPECT_EQ(edited(3, 3, {.repetition_penalty = 2}, place), 1.5f);
  EXPECT_EQ(edited(-3, 3, {.repetition_penalty = 2}, place), -6.0f);
  EXPECT_EQ(edited(3, 4, {.repetition_penalty = 2}, place), 3.0f);
  // The newest three are 1 2 2.
  EXPECT_EQ(edited(3, 3, {.repetition_penalty = 2, .repetition_window = 3}, place), 3.0f);
  EXPECT_EQ(edited(3, 1, {.repetition_penalty = 2, .repetition_window = 3}, place), 1.5f);
  EXPECT_EQ(edited(3, 1, {.repetition_penalty = 2, .repetition_window = 0}, place), 3.0f);
  // OpenAI: of the reply only, by count and by presence.
  EXPECT_EQ(edited(3, 2, {.frequency_penalty = 0.5, .presence_penalty = 0.25}, place), 1.75f);
  EXPECT_EQ(edited(3, 3, {.frequency_penalty = 0.5, .presence_penalty = 0.25}, place), 3.0f);
  // The order: bias, repetition, frequency, presence.
  EXPECT_EQ(edited(3, 2,
                   {.repetition_penalty = 2,
                    .frequency_penalty = 0.5,
                    .presence_penalty = 0.25,
                    .logit_bias = {{2, 5}}},
                   place),
            (3.0f + 5.0f) / 2 - 2 * 0.5f - 0.25f);
  EXPECT_EQ(edited(kImpossible, 2, {.logit_bias = {{2, 100}}}, place), kImpossible);
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(edited(-most, 2, {.repetition_penalty = 2}, place), -most);
  // What would be infinities of both signs.
  constexpr double kHuge = std::numeric_limits<double>::max();
  EXPECT_EQ(edited(3, 2, {.repetition_penalty = 1 / kHuge, .frequency_penalty = kHuge}, place),
            -most);
  EXPECT_EQ(edited(-3, 2, {.repetition_penalty = kHuge, .frequency_penalty = -kHuge}, place), most);
}

TEST(LogitEditor, DryTakesMoreTheLongerTheStretch) {
  const auto loss = [](std::vector<TokenId> tokens, TokenId id, DryParams dry) {
    return 8.0f - edited(8, id, {.dry = std::move(dry)}, {.tokens = tokens});
  };
  const DryParams dry{.multiplier = 0.5, .base = 2, .allowed_length = 2};
  // 1 2 3 4 ... 1 2 3: the 4 would go on three repeated tokens.
  EXPECT_EQ(loss({1, 2, 3, 4, 9, 1, 2, 3}, 4, dry), 1.0f);
  EXPECT_EQ(loss({1, 2, 3, 4, 9, 2, 3}, 4, dry), 0.5f);
  EXPECT_EQ(loss({1, 2, 3, 4, 9, 3}, 4, dry), 0.0f) << "one token is allowed";
  EXPECT_EQ(loss({1, 2, 3, 4, 9, 1, 2, 3}, 9, dry), 0.0f);
  DryParams broken = dry;
  broken.breakers = {2};
  EXPECT_EQ(loss({1, 2, 3, 4, 9, 1, 2, 3}, 4, broken), 0.0f);
  broken.allowed_length = 1;
  EXPECT_EQ(loss({1, 2, 3, 4, 9, 1, 2, 3}, 4, broken), 0.5f) << "the 3 stands behind the breaker";
  DryParams near = dry;
  near.window = 5;
  EXPECT_EQ(loss({1, 2, 3, 4, 9, 1, 2, 3}, 4, near), 0.0f);
  // The longest of several stretches counts; it may overlap the end.
  EXPECT_EQ(loss({2, 3, 4, 1, 2, 3, 4, 5, 1, 2, 3}, 4, dry), 1.0f);
  EXPECT_EQ(loss({7, 7, 7, 7, 7}, 7, dry), 2.0f);
  // Any base stays finite.
  const std::vector<TokenId> same(5000, 7);
  EXPECT_TRUE(std::isfinite(loss(same, 7, {.multiplier = 1, .base = 100})));
}

TEST(RepeatFinder, EqualsComparingEveryPlace) {
  std::mt19937 random(3);
  RepeatFinder finder;
  for (int round = 0; round < 3000; round++) {
    std::vector<TokenId> tokens(random() % 40);
    const unsigned letters = 1 + random() % 4;
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() % letters);
    std::vector<TokenId> breakers;
    if (random() % 3 == 0) breakers = {static_cast<TokenId>(random() % 5)};
    const std::span<const std::size_t> lengths = finder.find(tokens, breakers);
    ASSERT_EQ(lengths.size(), tokens.size());
    for (std::size_t i = 0; i + 1 < tokens.size(); i++) {
      std::size_t length = 0;
      for (; length <= i; length++) {
        const TokenId token = tokens[tokens.size() - 1 - length];
        if (tokens[i - length] != token || std::ranges::count(breakers, token) > 0) break;
      }
      ASSERT_EQ(lengths[i], length) << round << " " << i;
    }
    if (!tokens.empty()) {
      EXPECT_EQ(lengths.back(), 0u);
    }
  }
}

// What a filter leaves, seen by what many draws give.
std::vector<TokenId> drawn(const std::vector<double>& probabilities, SamplingParams params) {
  std::vector<float> logits;
  for (const double each : probabilities) logits.push_back(static_cast<float>(std::log(each)));
  Sampler sampler(*kernels::available_kernels().front());
  std::map<TokenId, int> counts;
  for (Position position = 0; position < 500; position++) {
    counts[sampler.sample(logits, params, {.position = position}, -1)->id]++;
  }
  std::vector<TokenId> ids;
  for (const auto& [id, count] : counts) ids.push_back(id);
  return ids;
}

using Ids = std::vector<TokenId>;

// Entropy of 0.5 0.25 0.15 0.1: 1.208; surprises 0.693 1.386 1.897 2.303; distances from the
// entropy 0.515 0.178 0.689 1.095.
TEST(Sampler, TypicalKeepsWhatIsAsSurprisingAsExpected) {
  const std::vector<double> four = {0.5, 0.25, 0.15, 0.1};
  EXPECT_EQ(drawn(four, {.typical_p = 0.0}), (Ids{1}));
  EXPECT_EQ(drawn(four, {.typical_p = 0.2}), (Ids{1}));
  EXPECT_EQ(drawn(four, {.typical_p = 0.3}), (Ids{0, 1}));
  EXPECT_EQ(drawn(four, {.typical_p = 0.8}), (Ids{0, 1, 2}));
  EXPECT_EQ(drawn(four, {.typical_p = 0.95}), (Ids{0, 1, 2, 3}));
  // top_k first, min_p after: of 0.25 alone nothing is unlikely.
  EXPECT_EQ(drawn(four, {.top_k = 1, .typical_p = 0.1}), (Ids{0}));
  EXPECT_EQ(drawn(four, {.typical_p = 0.2, .min_p = 0.9}), (Ids{1}));
  // Equally far ones: the lowest ids.
  EXPECT_EQ(drawn({0.25, 0.25, 0.25, 0.25}, {.typical_p = 0.5}), (Ids{0, 1}));
}

TEST(Sampler, XtcPassesOverAllAboveTheThresholdButTheLeastLikely) {
  const std::vector<double> four = {0.4, 0.3, 0.2, 0.1};
  EXPECT_EQ(drawn(four, {.xtc_probability = 1, .xtc_threshold = 0.25}), (Ids{1, 2, 3}));
  EXPECT_EQ(drawn(four, {.xtc_probability = 1, .xtc_threshold = 0.15}), (Ids{2, 3}));
  EXPECT_EQ(drawn(four, {.xtc_probability = 1, .xtc_threshold = 0.05}), (Ids{3}));
  EXPECT_EQ(drawn(four, {.xtc_probability = 1, .xtc_threshold = 0.35}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(drawn(four, {.xtc_probability = 0, .xtc_threshold = 0.05}), (Ids{0, 1, 2, 3}));
  // After top_k the probabilities are those of what is left: 4/7 and 3/7.
  EXPECT_EQ(drawn(four, {.top_k = 2, .xtc_probability = 1, .xtc_threshold = 0.41}), (Ids{1}));
  EXPECT_EQ(drawn(four, {.temperature = 0, .xtc_probability = 1, .xtc_threshold = 0.05}), (Ids{0}));
}

// 3 in 10 draws at a probability of 0.3, and those are not the ones with a small number to draw by.
TEST(Sampler, XtcHasItsOwnRandomNumbers) {
  Sampler sampler(*kernels::available_kernels().front());
  const std::vector<float> two = {1, 0.999f};
  int passed = 0, plain = 0;
  constexpr int kDraws = 4000;
  for (Position position = 0; position < kDraws; position++) {
    const SamplingParams params{.xtc_probability = 0.3, .xtc_threshold = 0.2};
    const TokenId id = sampler.sample(two, params, {.position = position}, -1)->id;
    const TokenId without = sampler.sample(two, {}, {.position = position}, -1)->id;
    if (id != without) {
      EXPECT_EQ(without, 0);
    }
    plain += without == 0 ? 1 : 0;
    passed += id != without ? 1 : 0;
  }
  // Six standard deviations of a binomial with 0.3 * plain expected.
  EXPECT_NEAR(passed, 0.3 * plain, 6 * std::sqrt(0.21 * plain));
}

TEST(Sampler, MasksAndBansLeaveNothingOrTheRest) {
  Sampler sampler(*kernels::available_kernels().front());
  const std::vector<float> logits = {5, 4, 3, kImpossible};
  const std::vector<std::uint32_t> mask = {0b1011};
  const std::vector<TokenId> one = {1}, zero = {0};
  const auto greedy = [&](const SamplingPlace& place) {
    return sampler.sample(logits, {.temperature = 0}, place, 2);
  };
  EXPECT_EQ(greedy({.mask = mask, .banned = zero})->id, 1);
  EXPECT_EQ(greedy({.banned = zero, .banned_stops = one})->id, 2);
  // Only what the model itself suppresses is left.
  EXPECT_FALSE(greedy({.mask = mask, .banned = zero, .banned_stops = one}).has_value());
  // Logprobs are the model's, whatever is banned.
  EXPECT_EQ(greedy({.banned = zero})->top.front().id, 0);
  EXPECT_EQ(greedy({.banned = zero})->logprob, greedy({})->top[1].logprob);
}

}  // namespace
}  // namespace reprise::testing
