// The policy on numbers that can be checked by hand.
#include "engine/step_plan.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace reprise {
namespace {

std::vector<TokenId> counting(int length, TokenId first = 0) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(length));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

using Plan = std::vector<PlanChunk>;

TEST(StepPlan, NothingToDoIsAnEmptyPlan) {
  EXPECT_TRUE(plan_step({}, 64).empty());
}

TEST(StepPlan, DecodeRowsComeFirstThenPrefillInOrderOfArrival) {
  const auto tokens = counting(300);
  const std::vector<PlanSequence> sequences = {
      {.tokens = tokens, .offset = 100},
      {.tokens = tokens, .offset = 299, .is_decoding = true},
      {.tokens = tokens, .offset = 250},
      {.tokens = tokens, .offset = 299, .is_decoding = true},
  };
  EXPECT_EQ(plan_step(sequences, 512), (Plan{{1, 1}, {3, 1}, {0, 200}, {2, 50}}));
}

TEST(StepPlan, ThePrefillBudgetIsCutInOrderAndNeverExceeded) {
  const auto tokens = counting(300);
  const std::vector<PlanSequence> sequences = {
      {.tokens = tokens, .offset = 260}, {.tokens = tokens}, {.tokens = tokens}};
  EXPECT_EQ(plan_step(sequences, 100), (Plan{{0, 40}, {1, 60}}));
  EXPECT_EQ(plan_step(sequences, 1), (Plan{{0, 1}}));
}

TEST(StepPlan, ALaterSequenceWaitsForTheBlockThatAnEarlierOneComputes) {
  const auto a = counting(200);
  auto b = counting(200);
  b[70] = 9999;  // they share block 0 only
  const std::vector<PlanSequence> at_start = {{.tokens = a, .share = 0}, {.tokens = b, .share = 0}};
  EXPECT_EQ(plan_step(at_start, 512), (Plan{{0, 200}}));
  EXPECT_EQ(plan_step(at_start, 3), (Plan{{0, 3}}));
  // The earlier one is past what they share: both go on.
  const std::vector<PlanSequence> behind = {{.tokens = a, .offset = 64, .share = 0},
                                            {.tokens = b, .offset = 64, .share = 0}};
  EXPECT_EQ(plan_step(behind, 512), (Plan{{0, 136}, {1, 136}}));
}

TEST(StepPlan, OtherSharesAndUncachedOnesNeverWait) {
  const auto tokens = counting(100);
  const std::vector<PlanSequence> salts = {{.tokens = tokens, .share = 0},
                                           {.tokens = tokens, .share = 1}};
  EXPECT_EQ(plan_step(salts, 512), (Plan{{0, 100}, {1, 100}}));
  const std::vector<PlanSequence> uncached = {{.tokens = tokens}, {.tokens = tokens}};
  EXPECT_EQ(plan_step(uncached, 512), (Plan{{0, 100}, {1, 100}}));
}

TEST(StepPlan, DifferenceInTheLastTokenOfTheBlockDoesNotWait) {
  const auto a = counting(128);
  auto b = a;
  b[63] = 9999;
  const std::vector<PlanSequence> sequences = {{.tokens = a, .share = 0},
                                               {.tokens = b, .share = 0}};
  EXPECT_EQ(plan_step(sequences, 512), (Plan{{0, 128}, {1, 128}}));
}

TEST(StepPlan, EqualShortPromptsWaitForTheTail) {
  const auto tokens = counting(40);
  const std::vector<PlanSequence> sequences = {{.tokens = tokens, .share = 0},
                                               {.tokens = tokens, .share = 0}};
  EXPECT_EQ(plan_step(sequences, 512), (Plan{{0, 40}}));
}

TEST(StepPlan, OneThatIsAheadOfTheEarlierOneDoesNotWait) {
  const auto tokens = counting(200);
  const std::vector<PlanSequence> sequences = {{.tokens = tokens, .share = 0},
                                               {.tokens = tokens, .offset = 64, .share = 0}};
  EXPECT_EQ(plan_step(sequences, 512), (Plan{{0, 200}, {1, 136}}));
}

TEST(StepPlan, ThreeOfAKindWaitForTheFirst) {
  const auto tokens = counting(200);
  const auto other = counting(90, 1000);
  const std::vector<PlanSequence> sequences = {{.tokens = tokens, .share = 0},
                                               {.tokens = tokens, .share = 0},
                                               {.tokens = other, .share = 0},
                                               {.tokens = tokens, .share = 0}};
  EXPECT_EQ(plan_step(sequences, 512), (Plan{{0, 200}, {2, 90}}));
}

TEST(StepSpeed, StartsSmallAndFollowsTheMeasurement) {
  StepSpeed speed(250, 512);
  EXPECT_EQ(speed.prefill_rows(0), 64);
  speed.observe(64, 64);  // one row per millisecond
  EXPECT_EQ(speed.prefill_rows(0), 250);
  EXPECT_EQ(speed.prefill_rows(50), 200);
  EXPECT_DOUBLE_EQ(speed.rows_per_second(), 1000);
  speed.observe(250, 125);  // two: the mean of 1 and 2
  EXPECT_EQ(speed.prefill_rows(0), 375);
  speed.observe(375, 75);  // (1.5 + 5) / 2 rows per millisecond: 812 rows, more than allowed
  EXPECT_EQ(speed.prefill_rows(0), 512);
}

TEST(StepSpeed, TheShortRestOfAPromptIsNotAMeasurement) {
  StepSpeed speed(250, 512);
  speed.observe(64, 64);
  speed.observe(3, 12);  // a quarter row per millisecond, because few rows stream all weights
  EXPECT_EQ(speed.prefill_rows(0), 250);
  speed.observe(3, 300);                  // but too slow is too slow
  EXPECT_EQ(speed.prefill_rows(0), 126);  // (1 + 0.01) / 2 * 250, rounded down
}

TEST(StepSpeed, SlowModelsKeepAUsefulChunkAndSmallLimitsHold) {
  StepSpeed slow(250, 512);
  slow.observe(64, 64000);
  EXPECT_EQ(slow.prefill_rows(0), 32);
  StepSpeed tiny(250, 3);
  EXPECT_EQ(tiny.prefill_rows(0), 3);
  EXPECT_EQ(tiny.prefill_rows(100), 3);
  StepSpeed one(250, 1);
  one.observe(1, 1000);
  EXPECT_EQ(one.prefill_rows(8), 1);
}

}  // namespace
}  // namespace reprise
