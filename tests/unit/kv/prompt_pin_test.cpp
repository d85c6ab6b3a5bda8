// Pins: what they keep, for how long, how much of it, and when they are given up all the same.
#include <gtest/gtest.h>

#include "unit/kv/prompt_cache_support.h"

namespace reprise {
namespace {

using test::Bench;
using test::branch;
using test::counting;
using test::kA;
using test::kB;
using test::kC;
using test::kStandard;
using test::Session;
using test::tiny_layout;
using test::window;

constexpr std::size_t kPage = 4096;  // of one layer in the tiny layout

PromptCacheOptions options(std::size_t of_tenant, std::size_t of_all) {
  PromptCacheOptions options;
  options.ttl_ms = 5000;
  options.pinned_bytes_per_tenant = of_tenant * kPage;
  options.pinned_bytes_max = of_all * kPage;
  return options;
}

TEST(PromptPins, WhatIsPinnedStaysUntilNothingElseIsLeft) {
  Bench bench(tiny_layout({kStandard, window(8)}), 100 * kPage, options(10, 20));
  bench.turn(counting(250), counting(300), kA, 1000);
  ASSERT_TRUE(bench.is_pinned);
  // Five blocks, and the window of 300 in the last one.
  EXPECT_EQ(bench.cache.stats(kA).pinned_bytes, 6 * kPage);
  EXPECT_EQ(bench.cache.stats().pinned_bytes, 6 * kPage);
  EXPECT_EQ(bench.cache.stats(kB).pinned_bytes, 0u);
  bench.turn(counting(250, 2000), counting(300, 2000), kA);
  bench.turn(counting(250, 3000), counting(300, 3000), kC);
  ASSERT_TRUE(bench.cache.make_room(94 * kPage));
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats().bytes, 6 * kPage);
  EXPECT_EQ(bench.reach(counting(300)), 300);
  ASSERT_TRUE(bench.cache.make_room(95 * kPage));  // a request must not fail that fits without it
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats().pinned_bytes, 0u);
  EXPECT_EQ(bench.cache.stats(kA).nodes, 4u);
  ASSERT_TRUE(bench.cache.make_room(100 * kPage));
  bench.cache.check_invariants();
}

TEST(PromptPins, TheyEnd) {
  Bench bench(tiny_layout({kStandard, window(8)}), 100 * kPage, options(10, 20));
  bench.turn(counting(250), counting(300), kA, 10'000);
  bench.turn(counting(250, 2000), counting(300, 2000), kA);
  bench.now += 9'000;  // past what entries live
  bench.cache.expire();
  bench.cache.check_invariants();
  EXPECT_EQ(bench.reach(counting(300, 2000)), 0);
  EXPECT_EQ(bench.reach(counting(300)), 300);
  bench.now += 1'000;
  bench.cache.expire();
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats().pinned_bytes, 0u);
  EXPECT_EQ(bench.reach(counting(300)), 300);  // used 1000 ago
  bench.turn(counting(250, 3000), counting(300, 3000), kA, 100);
  bench.now += 100;
  ASSERT_TRUE(bench.cache.make_room(100 * kPage));  // looks at the time itself
  bench.cache.check_invariants();
}

TEST(PromptPins, TheyAreBounded) {
  Bench bench(tiny_layout({kStandard, window(8)}), 200 * kPage, options(14, 20));
  bench.turn(counting(250), counting(300), kA, 1000);
  EXPECT_TRUE(bench.is_pinned);
  bench.turn(counting(250, 2000), counting(300, 2000), kB, 1000);  // the same tenant
  EXPECT_TRUE(bench.is_pinned);
  EXPECT_EQ(bench.cache.stats().pinned_bytes, 12 * kPage);
  bench.turn(counting(250, 3000), counting(300, 3000), kB, 1000);
  EXPECT_FALSE(bench.is_pinned);
  EXPECT_EQ(bench.cache.stats(kB).pins_refused, 1u);
  EXPECT_EQ(bench.cache.stats(kA).pins_refused, 0u);
  bench.turn(counting(250, 4000), counting(300, 4000), kC, 1000);
  EXPECT_TRUE(bench.is_pinned);
  bench.turn(counting(150, 5000), counting(180, 5000), kC, 1000);  // 4 more: 22 of all
  EXPECT_FALSE(bench.is_pinned);
  EXPECT_EQ(bench.cache.stats().pins_refused, 2u);
  // What the pins share counts once: only the next block and its window are new.
  bench.turn(counting(310), counting(330), kA, 1000);
  EXPECT_TRUE(bench.is_pinned);
  EXPECT_EQ(bench.cache.stats().pinned_bytes, 20 * kPage);
  bench.now += 1000;
  bench.cache.expire();
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats().pinned_bytes, 0u);
  Bench off(tiny_layout({kStandard}), 200 * kPage);
  off.turn(counting(250), counting(300), kA, 1000);
  EXPECT_FALSE(off.is_pinned);  // no bytes are allowed
}

TEST(PromptPins, ALongerOneOfTheSamePlaceStays) {
  Bench bench(tiny_layout({kStandard}), 100 * kPage, options(50, 50));
  Session session = bench.open();
  ASSERT_TRUE(bench.go_on(session, counting(200), true));
  const auto pin = [&](Position at, std::int64_t ms) {
    const bool is_pinned = bench.cache.pin(session.path, session.tokens, at, bench.now + ms);
    bench.cache.check_invariants();
    return is_pinned;
  };
  EXPECT_TRUE(pin(200, 500));
  EXPECT_TRUE(pin(200, 100));
  EXPECT_TRUE(pin(150, 100));
  EXPECT_FALSE(pin(100, 0));
  EXPECT_FALSE(pin(0, 100));
  const auto tree = bench.cache.tree(kA, 10);
  ASSERT_EQ(tree.size(), 1u);
  EXPECT_EQ(tree[0].pinned_until_unix_ms, bench.now + 500);
  bench.now += 100;
  bench.cache.expire();
  EXPECT_EQ(bench.cache.stats().pinned_bytes, 4 * kPage);
  EXPECT_TRUE(pin(200, 1000));
  bench.now += 600;
  bench.cache.expire();
  EXPECT_EQ(bench.cache.stats().pinned_bytes, 4 * kPage);
  EXPECT_EQ(bench.cache.reset(kA).freed_entries, 1u);
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats().pinned_bytes, 0u);
  EXPECT_FALSE(pin(200, 1000));  // the path stands on nothing
}

// The conversation goes on in the pinned block, in place and in another branch.
TEST(PromptPins, ThePinnedTailGoesOn) {
  Bench bench(tiny_layout({kStandard, window(8)}), 100 * kPage, options(50, 50));
  bench.turn(counting(150), counting(160), kA, 1000);
  bench.turn(counting(170), counting(300), kA);
  bench.turn(branch(counting(160), 160, 180, 900), branch(counting(160), 160, 200, 900), kA);
  ASSERT_TRUE(bench.cache.make_room(96 * kPage));
  bench.cache.check_invariants();
  EXPECT_EQ(bench.reach(branch(counting(160), 160, 200, 7000)), 160);
  EXPECT_TRUE(bench.is_right);
}

TEST(PromptPins, WhatCannotBeResumedIsRefused) {
  Bench bench(tiny_layout({kStandard, window(8)}), 100 * kPage, options(50, 50));
  Session session = bench.open();
  ASSERT_TRUE(bench.go_on(session, counting(300), false));
  session.cache.drop_unneeded();
  ASSERT_TRUE(bench.give_up(3 * kPage));
  EXPECT_FALSE(bench.cache.pin(session.path, session.tokens, 100, bench.now + 100));
  EXPECT_TRUE(bench.cache.pin(session.path, session.tokens, 256, bench.now + 100));
  EXPECT_FALSE(bench.cache.pin(session.path, session.tokens, 290, bench.now + 100));
  EXPECT_EQ(bench.cache.stats(kA).pins_refused, 2u);
  bench.cache.check_invariants();
}

}  // namespace
}  // namespace reprise
