// Of whom the prompt cache takes first when memory is short (law L8).
#include <gtest/gtest.h>

#include "unit/kv/prompt_cache_support.h"

namespace reprise {
namespace {

using test::Bench;
using test::counting;
using test::kA;
using test::kB;
using test::kC;
using test::kStandard;
using test::Session;
using test::tiny_layout;
using test::window;

constexpr std::size_t kPage = 4096;  // of one layer in the tiny layout

std::size_t pages(const Bench& bench, const CacheScope& scope) {
  return bench.cache.stats(scope).bytes / kPage;
}

TEST(PromptTenants, TheLargestGivesFirst) {
  Bench bench(tiny_layout({kStandard}), 100 * kPage);
  bench.request(counting(128, 9000), kC);  // the oldest, and of the smaller tenant
  bench.request(counting(256, 8000), kC);
  bench.request(counting(256, 1000), kA);
  bench.request(counting(256, 2000), kA);
  bench.request(counting(256, 3000), kA);
  bench.request(counting(256, 4000), kB);
  ASSERT_TRUE(bench.give_up(8 * kPage));  // 16 pages against 6
  EXPECT_EQ(pages(bench, kA), 4u);
  EXPECT_EQ(pages(bench, kB), 4u);
  EXPECT_EQ(pages(bench, kC), 6u);
  ASSERT_TRUE(bench.give_up(2 * kPage));  // 8 against 6: in turn from its two salts
  EXPECT_EQ(pages(bench, kA), 3u);
  EXPECT_EQ(pages(bench, kB), 3u);
  EXPECT_EQ(pages(bench, kC), 6u);
  ASSERT_TRUE(bench.give_up(6 * kPage));
  EXPECT_EQ(pages(bench, kA) + pages(bench, kB), 3u);
  EXPECT_EQ(pages(bench, kC), 3u);
  EXPECT_EQ(bench.reach(counting(256, 8000), kC), 192);
  EXPECT_EQ(bench.reach(counting(128, 9000), kC), 0);  // of a salt the least recently used
}

// A busy tenant cannot push out what another one has within its share.
TEST(PromptTenants, AStormOfOneTenantLeavesTheOthersTheirs) {
  Bench bench(tiny_layout({kStandard, window(8)}), 64 * kPage);
  bench.request(counting(300), kC);
  for (int i = 1; i <= 60; i++)
    bench.request(counting(300, 1000 * i), CacheScope{"storm", std::to_string(i % 7)});
  EXPECT_TRUE(bench.is_right);
  EXPECT_EQ(bench.reach(counting(310), kC), 300);
}

TEST(PromptTenants, WhatFreesNothingIsPassedOver) {
  Bench bench(tiny_layout({kStandard}), 100 * kPage);
  Session session = bench.open(kA);
  ASSERT_TRUE(bench.go_on(session, counting(640), true));  // the largest, and in use
  bench.request(counting(128, 2000), kA);
  bench.request(counting(128, 3000), kB);
  bench.request(counting(128, 4000), kC);
  ASSERT_TRUE(bench.give_up(2 * kPage));
  EXPECT_EQ(pages(bench, kA), 10u);
  ASSERT_TRUE(bench.give_up(2 * kPage));
  EXPECT_EQ(pages(bench, kB), 0u);
  ASSERT_TRUE(bench.give_up(2 * kPage));
  EXPECT_EQ(pages(bench, kC), 0u);
  EXPECT_FALSE(bench.give_up(kPage));
  EXPECT_EQ(pages(bench, kA), 10u);
}

// A tenant's name does not open another one's entries, nor does a salt without it.
TEST(PromptTenants, TheSameSaltOfAnotherTenantIsAnother) {
  Bench bench(tiny_layout({kStandard}), 100 * kPage);
  bench.request(counting(128), {"tenant", "x"});
  EXPECT_EQ(bench.reach(counting(128), {"other", "x"}), 0);
  EXPECT_EQ(bench.reach(counting(128), {"tenant", "x"}), 128);
  bench.cache.reset({"other", "x"});
  EXPECT_EQ(bench.reach(counting(128), {"tenant", "x"}), 128);
}

}  // namespace
}  // namespace reprise
