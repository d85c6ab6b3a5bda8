// The bench's account of tokens, its bars, and its texts.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/scenario_report.h"
#include "cli/scenario_text.h"
#include "cli/token_tree.h"

namespace reprise {
namespace {

using Ids = std::vector<TokenId>;

TEST(TokenTree, CountsEachTokenOnceAndItsLeaves) {
  TokenTree tree;
  EXPECT_EQ(tree.unique_tokens(), 0U);
  EXPECT_EQ(tree.leaves(), 0U);
  tree.add(Ids{1, 2, 3}, 0);
  tree.add(Ids{1, 2, 3, 4}, 1);  // goes on: still one leaf
  EXPECT_EQ(tree.unique_tokens(), 4U);
  EXPECT_EQ(tree.leaves(), 1U);
  tree.add(Ids{1, 2, 9}, 2);
  tree.add(Ids{7}, 3);
  EXPECT_EQ(tree.unique_tokens(), 6U);
  EXPECT_EQ(tree.leaves(), 3U);
  tree.add(Ids{1, 2}, 4);  // inside: nothing new
  EXPECT_EQ(tree.unique_tokens(), 6U);
  EXPECT_EQ(tree.leaves(), 3U);
}

TEST(TokenTree, ACommonPrefixIsWhatWasThereBefore) {
  TokenTree tree;
  tree.add(Ids{1, 2, 3}, 0);
  tree.add(Ids{1, 2, 3, 4, 5}, 2);
  EXPECT_EQ(tree.common_prefix(Ids{1, 2, 3, 4, 5, 6}, 3), 5U);
  EXPECT_EQ(tree.common_prefix(Ids{1, 2, 3, 4, 5, 6}, 2), 3U);  // not yet when that turn began
  EXPECT_EQ(tree.common_prefix(Ids{1, 2, 3, 4, 5, 6}, 0), 0U);
  EXPECT_EQ(tree.common_prefix(Ids{1, 9}, 3), 1U);
  EXPECT_EQ(tree.common_prefix(Ids{}, 3), 0U);
}

TEST(ScenarioReport, QuantilesAreNearestRanks) {
  EXPECT_EQ(quantile({}, 0.5), 0);
  EXPECT_EQ(quantile({3}, 0.95), 3);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0.5), 2);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0.95), 4);
}

TEST(ScenarioReport, BarsHoldOnTheirSide) {
  const ScenarioBar most{"tokens", 65, 64, false};
  EXPECT_FALSE(most.holds());
  EXPECT_GT(most.strain(), 1);
  EXPECT_NE(most.text().find("missed"), std::string::npos);
  const ScenarioBar least{"reuse", 0.5, 0.25, true};
  EXPECT_TRUE(least.holds());
  EXPECT_DOUBLE_EQ(least.strain(), 0.5);
  const ScenarioBar none{"reuse", 0, 0.25, true};
  EXPECT_FALSE(none.holds());
  EXPECT_GT(none.strain(), most.strain());
  const ScenarioBar bytes{"cache bytes", 131236000, 149542000, false, true};
  EXPECT_EQ(bytes.text(), "cache bytes: 125.2 MiB of at most 142.6 MiB");
}

TEST(ScenarioText, IsTheSameEveryTime) {
  EXPECT_EQ(ScenarioText(5).words(40), ScenarioText(5).words(40));
  EXPECT_NE(ScenarioText(5).words(40), ScenarioText(6).words(40));
  const std::string words = ScenarioText(1).words(25);
  EXPECT_EQ(std::ranges::count(words, ' '), 24);
}

}  // namespace
}  // namespace reprise
