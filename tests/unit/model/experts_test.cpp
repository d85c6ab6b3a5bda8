// Choosing experts: order, ties, weights.
#include "model/experts.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace reprise {
namespace {

std::vector<int> choose(std::vector<float> scores, std::size_t count) {
  std::vector<ExpertChoice> chosen(count);
  choose_experts(scores, chosen);
  std::vector<int> ids;
  for (const ExpertChoice& choice : chosen) ids.push_back(choice.expert);
  return ids;
}

TEST(Experts, TheHighestScoresAscendingById) {
  EXPECT_EQ(choose({0.1F, 0.9F, 0.3F, 0.8F}, 2), (std::vector{1, 3}));
  EXPECT_EQ(choose({5, 4, 3, 2, 1}, 3), (std::vector{0, 1, 2}));
  EXPECT_EQ(choose({1, 2, 3, 4, 5}, 3), (std::vector{2, 3, 4}));
  EXPECT_EQ(choose({7}, 1), (std::vector{0}));
  EXPECT_EQ(choose({2, 1}, 2), (std::vector{0, 1}));
}

TEST(Experts, EqualScoresGoToTheLowestId) {
  EXPECT_EQ(choose({1, 1, 1, 1}, 2), (std::vector{0, 1}));
  EXPECT_EQ(choose({0, 1, 1, 1, 2}, 2), (std::vector{1, 4}));
  EXPECT_EQ(choose({0.0F, -0.0F, 0.0F}, 1), (std::vector{0}));
}

TEST(Experts, ANanNeverWinsOverANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(choose({nan, 1, nan, 0}, 2), (std::vector{1, 3}));
  EXPECT_EQ(choose({nan, nan}, 1), (std::vector{0}));
}

TEST(Experts, SoftmaxSumsToOneAndKeepsRatios) {
  std::vector<float> x = {1, 2, 3, -100};
  softmax(x);
  EXPECT_NEAR(x[0] + x[1] + x[2] + x[3], 1, 1e-6);
  EXPECT_NEAR(x[1] / x[0], std::exp(1.0), 1e-5);
  std::vector<float> large = {1e30F, 1e30F};
  softmax(large);
  EXPECT_EQ(large[0], 0.5F);
}

TEST(Experts, WeightsAreNormalisedInOrder) {
  std::vector<ExpertChoice> chosen = {{.expert = 1, .weight = 0.2F}, {.expert = 4, .weight = 0.6F}};
  normalise_weights(chosen, 0);
  EXPECT_FLOAT_EQ(chosen[0].weight, 0.25F);
  EXPECT_FLOAT_EQ(chosen[1].weight, 0.75F);
  std::vector<ExpertChoice> zero = {{.weight = 0}, {.weight = 0}};
  normalise_weights(zero, 1e-20F);
  EXPECT_EQ(zero[0].weight, 0);
}

}  // namespace
}  // namespace reprise
