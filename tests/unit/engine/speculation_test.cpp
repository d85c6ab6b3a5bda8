// How much is drafted, on plain numbers: it must pay, by what was measured, or not happen.
#include "engine/speculation.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace reprise {
namespace {

using Chances = std::vector<std::vector<double>>;

// A machine on which a step of r rows costs 10 ms and `row_ms` more for each drafted one.
StepCosts measured(int sequences, double row_ms) {
  StepCosts costs;
  for (int drafted = 0; drafted <= kDraftRowsMax; drafted++) {
    costs.observe(sequences, drafted, 10 + row_ms * drafted);
  }
  return costs;
}

int sum(const std::vector<int>& drafted) {
  return std::accumulate(drafted.begin(), drafted.end(), 0);
}

TEST(Speculation, DraftsAsFarAsARowGivesMoreThanItCosts) {
  const Chances likely = {std::vector<double>(15, 0.9)};
  EXPECT_GE(plan_drafts(likely, measured(1, 0.3))[0], 10);  // nearly free rows
  const int some = plan_drafts(likely, measured(1, 2.5))[0];
  EXPECT_GT(some, 0);
  EXPECT_LT(some, 10);
  EXPECT_EQ(plan_drafts(likely, measured(1, 10))[0], 0);  // a row costs what a step costs
  const Chances unlikely = {std::vector<double>(15, 0.1)};
  EXPECT_EQ(plan_drafts(unlikely, measured(1, 1.5))[0], 0);
  EXPECT_EQ(plan_drafts({}, measured(1, 1)), std::vector<int>{});
  EXPECT_EQ(plan_drafts(Chances{{}}, measured(1, 1)), std::vector<int>{0});
}

// The best number of rows by trying all: the plan must be it.
TEST(Speculation, NoOtherNumberOfRowsGivesMore) {
  for (const double row_ms : {0.2, 1.0, 2.0, 4.0, 8.0}) {
    for (const double chance : {0.2, 0.5, 0.8, 0.95}) {
      const StepCosts costs = measured(1, row_ms);
      const int planned = plan_drafts(Chances{std::vector<double>(15, chance)}, costs)[0];
      const auto rate = [&](int drafted) {
        double tokens = 1, product = 1;
        for (int i = 0; i < drafted; i++) tokens += product *= chance;
        return tokens / (10 + row_ms * drafted);
      };
      for (int other = 0; other <= kDraftRowsMax; other++) {
        EXPECT_LE(rate(other), rate(planned) * 1.021) << row_ms << " " << chance << " " << other;
      }
    }
  }
}

TEST(Speculation, StepsOverADearRowToCheapOnes) {
  StepCosts costs;  // rows come in tiles of four
  for (int drafted = 0; drafted <= kDraftRowsMax; drafted++) {
    costs.observe(1, drafted, 10 + 6 * (drafted / 4) + 0.1 * drafted);
  }
  EXPECT_EQ(plan_drafts(Chances{std::vector<double>(15, 0.5)}, costs)[0], 3);
  EXPECT_EQ(plan_drafts(Chances{std::vector<double>(15, 0.98)}, costs)[0], 15);
}

TEST(Speculation, LikelierDraftsOfABatchGoFirstAndTheSumIsBounded) {
  const Chances chances = {std::vector<double>(15, 0.95),
                           {},
                           std::vector<double>(15, 0.4),
                           std::vector<double>(15, 0.95)};
  const std::vector<int> drafted = plan_drafts(chances, measured(4, 0.5));
  EXPECT_EQ(drafted[1], 0);
  EXPECT_GT(drafted[0], drafted[2]);
  EXPECT_NEAR(drafted[0], drafted[3], 1);
  EXPECT_LE(sum(drafted), kDraftRowsMax);
  EXPECT_GT(sum(drafted), 4);
}

// With many sequences the step is dear and a drafted row is only one of many.
TEST(Speculation, ManySequencesDraftLessOrNothing) {
  StepCosts costs;  // bound by arithmetic: each row costs the same
  for (int sequences = 1; sequences <= kDraftSequencesMax; sequences++) {
    for (int drafted = 0; drafted <= kDraftRowsMax; drafted++) {
      costs.observe(sequences, drafted, 4 + 1.0 * (sequences + drafted));
    }
  }
  const auto planned = [&](std::size_t sequences) {
    return sum(plan_drafts(Chances(sequences, std::vector<double>(15, 0.6)), costs));
  };
  EXPECT_GT(planned(1), 0);
  EXPECT_EQ(planned(8), 0);
  EXPECT_EQ(planned(kDraftSequencesMax + 1), 0);
  EXPECT_EQ(sum(plan_drafts(Chances(40, std::vector<double>(15, 1.0)), costs)), 0);
}

TEST(Speculation, TriesWithoutMeasurementsAndBelievesThem) {
  StepCosts costs;
  const Chances likely = {std::vector<double>(15, 0.8)};
  const int first = plan_drafts(likely, costs)[0];
  EXPECT_GT(first, 0);
  costs.observe(1, 0, 10);
  costs.observe(1, first, 100);
  EXPECT_EQ(plan_drafts(likely, costs)[0], 0);
  // The bad moment is forgotten when it is long past, and not before.
  int steps = 0;
  while (plan_drafts(likely, costs)[0] == 0 && steps < 1000) {
    costs.observe(1, 0, 10);
    steps++;
  }
  EXPECT_GE(steps, 30);
  EXPECT_LE(steps, 200);
}

TEST(Speculation, FeelsItsWayToManyRows) {
  StepCosts costs;
  const Chances sure = {std::vector<double>(15, 1.0)};
  for (const int expected : {1, 3, 7, 15}) {
    costs.observe(1, 0, 10);
    EXPECT_EQ(plan_drafts(sure, costs)[0], expected);
    costs.observe(1, expected, 10 + 0.1 * expected);
  }
}

// Aggregate tokens would gain, but who does not draft waits for every step.
TEST(Speculation, OneSequencesDraftsDoNotHoldUpTheOthers) {
  Chances chances(2);
  chances[0].assign(15, 1.0);
  for (const double row_ms : {0.3, 0.6, 1.2}) {
    const std::vector<int> drafted = plan_drafts(chances, measured(2, row_ms));
    EXPECT_GT(drafted[0], 0);
    EXPECT_LE(10 + row_ms * drafted[0], 12.5 + 1e-9) << row_ms;
  }
  EXPECT_EQ(plan_drafts(chances, measured(2, 2.6))[0], 0);
}

TEST(Speculation, OneSlowStepDoesNotCount) {
  StepCosts costs = measured(1, 0.5);
  const double before = costs.costs(1)[4];
  costs.observe(1, 4, 1000);
  EXPECT_LT(costs.costs(1)[4], before * 1.3);
  for (int i = 0; i < 4; i++) costs.observe(1, 4, before);
  EXPECT_LT(costs.costs(1)[4], before * 1.05);
}

TEST(Speculation, CostsRiseWithEveryRow) {
  StepCosts costs;
  costs.observe(2, 0, 10);
  costs.observe(2, 3, 5);  // noise
  costs.observe(2, 9, 12);
  const auto all = costs.costs(2);
  for (std::size_t i = 1; i < all.size(); i++) EXPECT_GT(all[i], all[i - 1]) << i;
  EXPECT_NEAR(all[9], 12, 1);
  costs.observe(kDraftSequencesMax + 1, 0, 10);  // beyond the table: ignored
  costs.observe(1, kDraftRowsMax + 1, 10);
}

TEST(Speculation, GuessesAreTrustedByWhatBecameOfThem) {
  GuessRecord record;
  for (const int longer : {3, 4, 6, 12}) EXPECT_GT(record.chance(longer), record.chance(2));
  for (int i = 0; i < 40; i++) record.observe(2, false);
  EXPECT_LT(record.chance(2), 0.03);
  EXPECT_GT(record.chance(16), 0.5);  // of other matches it says nothing
  for (int i = 0; i < 40; i++) record.observe(2, true);
  EXPECT_GT(record.chance(2), 0.85);
}

}  // namespace
}  // namespace reprise
