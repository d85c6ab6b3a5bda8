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
  StepSpeed speed(250, 250, 512);
  EXPECT_EQ(speed.prefill_rows(0), 64);
  speed.observe(64, 0, 64);  // one row per millisecond
  EXPECT_EQ(speed.prefill_rows(0), 250);
  EXPECT_EQ(speed.prefill_rows(50), 200);
  EXPECT_DOUBLE_EQ(speed.rows_per_second(), 1000);
  speed.observe(250, 0, 125);  // two: the mean of 1 and 2
  EXPECT_EQ(speed.prefill_rows(0), 375);
  speed.observe(375, 0, 75);  // (1.5 + 5) / 2 rows per millisecond: 812 rows, more than allowed
  EXPECT_EQ(speed.prefill_rows(0), 512);
}

TEST(StepSpeed, TheShortRestOfAPromptIsNotAMeasurement) {
  StepSpeed speed(250, 250, 512);
  speed.observe(64, 0, 64);
  speed.observe(3, 0, 12);  // a quarter row per millisecond, because few rows stream all weights
  EXPECT_EQ(speed.prefill_rows(0), 250);
  speed.observe(3, 0, 300);               // but too slow is too slow
  EXPECT_EQ(speed.prefill_rows(0), 126);  // (1 + 0.01) / 2 * 250, rounded down
}

TEST(StepSpeed, SlowModelsKeepAUsefulChunkAndSmallLimitsHold) {
  StepSpeed slow(250, 250, 512);
  slow.observe(64, 0, 64000);
  EXPECT_EQ(slow.prefill_rows(0), 32);
  StepSpeed tiny(250, 250, 3);
  EXPECT_EQ(tiny.prefill_rows(0), 3);
  EXPECT_EQ(tiny.prefill_rows(100), 3);
  StepSpeed one(250, 250, 1);
  one.observe(1, 0, 1000);
  EXPECT_EQ(one.prefill_rows(8), 1);
}

TEST(StepSpeed, AStepWithRunningStreamsIsShorter) {
  StepSpeed speed(250, 100, 512);
  speed.observe(60, 4, 64);
  EXPECT_EQ(speed.prefill_rows(0), 250);
  EXPECT_EQ(speed.prefill_rows(4), 96);
  EXPECT_EQ(StepSpeed(50, 100, 512).prefill_rows(1), 64);
}

// A prompt of thousands of tokens advances in every step, and a short one behind it is through at
// once.
TEST(StepPlan, AShortPromptDoesNotWaitForALongOne) {
  const auto a = counting(4000);
  const auto b = counting(40, 10'000);
  const auto c = counting(90, 20'000);
  const std::vector<PlanSequence> sequences = {{.tokens = a}, {.tokens = c}, {.tokens = b}};
  EXPECT_EQ(plan_step(sequences, 200), (Plan{{0, 100}, {1, 60}, {2, 40}}));
  EXPECT_EQ(plan_step(sequences, 512), (Plan{{0, 382}, {1, 90}, {2, 40}}));
}

TEST(StepPlan, TenantsShareThePrefillEvenly) {
  const auto a = counting(4000);
  const auto b = counting(4000, 10'000);
  const auto c = counting(30, 20'000);
  const std::vector<PlanSequence> sequences = {{.tokens = a, .tenant = 1},
                                               {.tokens = b, .tenant = 1},
                                               {.tokens = a, .tenant = 2},
                                               {.tokens = c, .tenant = 3}};
  // Thirds of 300; what the third does not need goes to the others.
  EXPECT_EQ(plan_step(sequences, 300), (Plan{{0, 69}, {1, 66}, {2, 135}, {3, 30}}));
  EXPECT_EQ(plan_step(sequences, 2), (Plan{{0, 1}, {2, 1}}));
}

// Whatever the lengths: rows are never exceeded, never left over while somebody needs them, and the
// first prefilling sequence is always served.
TEST(StepPlan, NothingIsLostInSharingOut) {
  const auto tokens = counting(300);
  for (Position rows = 1; rows < 80; rows += 3) {
    for (int shape = 0; shape < 243; shape++) {
      std::vector<PlanSequence> sequences;
      Position needed = 0;
      for (int i = 0, rest = shape; i < 5; i++, rest /= 3) {
        const Position left = 1 + (rest % 3) * 13 + i;
        sequences.push_back({.tokens = tokens, .offset = 300 - left, .tenant = i % 3});
        needed += left;
      }
      Position planned = 0;
      const Plan plan = plan_step(sequences, rows);
      for (const PlanChunk& chunk : plan) {
        EXPECT_LE(chunk.rows, 300 - sequences[chunk.sequence].offset);
        planned += chunk.rows;
      }
      ASSERT_EQ(planned, std::min(rows, needed));
      ASSERT_EQ(plan.front().sequence, 0u);
    }
  }
}

}  // namespace
}  // namespace reprise
