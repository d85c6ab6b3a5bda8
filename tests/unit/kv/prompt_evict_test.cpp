// Models with windowed layers only: entries whose pages have all gone must not stay as empty nodes.
#include <gtest/gtest.h>

#include "unit/kv/prompt_cache_support.h"

namespace reprise {
namespace {

using test::Bench;
using test::branch;
using test::chunk;
using test::counting;
using test::kA;
using test::kB;
using test::kStandard;
using test::Session;
using test::tiny_layout;
using test::window;

constexpr std::size_t kPage = 4096;  // of one layer in the tiny layout

TEST(PromptEviction, NodesGoWithTheirLastPage) {
  Bench bench(tiny_layout({window(8)}), 8 * kPage);
  for (int i = 1; i <= 50; i++) {
    bench.request(counting(300, 1000 * i), kA, false);
    // Five blocks of this conversation, and of the one before those down to its last page.
    EXPECT_LE(bench.cache.stats(kA).nodes, 10u);
  }
  EXPECT_TRUE(bench.is_right);
  EXPECT_EQ(bench.cache.match(kA, counting(300, 50000), 299).length, 299);
  EXPECT_EQ(bench.cache.match(kA, counting(300, 3000), 299).miss, MissReason::evicted);
  EXPECT_GE(bench.cache.stats(kA).evictions_lru, 240u);
  ASSERT_TRUE(bench.cache.make_room(bench.pool.budget_bytes()));
  EXPECT_EQ(bench.cache.stats(kA).nodes, 0u);
  EXPECT_EQ(bench.cache.stats(kA).entries, 0u);
  bench.cache.check_invariants();
}

TEST(PromptEviction, NodesAboveARestorableEndStay) {
  Bench bench(tiny_layout({window(8)}), 100 * kPage);
  bench.request(counting(320));                                    // marked at 320
  bench.request(branch(counting(320), 192, 300, 900), kA, false);  // not marked; 192 is
  ASSERT_TRUE(bench.cache.make_room(bench.pool.available_bytes() + 5 * kPage));
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats(kA).bytes, 2 * kPage);
  EXPECT_EQ(bench.cache.stats(kA).nodes, 5u);  // four lead to the fifth, one of them has its page
  EXPECT_EQ(bench.cache.match(kA, counting(330), 329).length, 320);
  EXPECT_EQ(bench.cache.match(kA, branch(counting(320), 192, 310, 900), 309).length, 192);
  ASSERT_TRUE(bench.cache.make_room(bench.pool.budget_bytes()));
  EXPECT_EQ(bench.cache.stats(kA).nodes, 0u);
  bench.cache.check_invariants();
}

TEST(PromptEviction, WhatASequenceStandsOnGoesWhenItEnds) {
  Bench bench(tiny_layout({window(8)}), 100 * kPage);
  {
    Session session = bench.open();
    ASSERT_TRUE(bench.go_on(session, counting(200), false));
    session.cache.drop_unneeded();
    ASSERT_TRUE(bench.cache.make_room(bench.pool.budget_bytes() - kPage));
    bench.cache.check_invariants();
    EXPECT_EQ(bench.cache.stats(kA).nodes, 3u);
    EXPECT_EQ(bench.cache.stats(kA).bytes, 0u);
    ASSERT_TRUE(bench.go_on(session, counting(264), false));  // goes on where it stood
    EXPECT_EQ(bench.cache.stats(kA).nodes, 4u);
    EXPECT_EQ(bench.cache.match(kA, counting(256), 256).length, 256);
    session.cache.drop_unneeded();
    ASSERT_TRUE(bench.cache.make_room(bench.pool.budget_bytes() - kPage));
    bench.cache.check_invariants();
  }
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats(kA).nodes, 0u);
  EXPECT_EQ(bench.pool.used_bytes(), 0u);
}

// A conversation whose windows have gone cannot be resumed anywhere: it goes before anything that
// can, however lately it was used.
TEST(PromptEviction, WhatCannotBeResumedGoesFirst) {
  Bench bench(tiny_layout({kStandard, window(8)}), 100 * kPage);
  bench.request(counting(130));
  bench.request(counting(256, 1000), kA, false);  // no marks
  ASSERT_TRUE(bench.give_up(5 * kPage));          // all loose windows
  EXPECT_EQ(bench.cache.stats(kA).nodes, 3u + 4u);
  ASSERT_TRUE(bench.give_up(4 * kPage));
  EXPECT_EQ(bench.cache.stats(kA).nodes, 3u);
  EXPECT_EQ(bench.reach(counting(130)), 130);
}

// A chunk edge needs no keys: a node that ends there is worth keeping without pages.
TEST(PromptEviction, AChunkEdgeIsRestorableWithoutPages) {
  Bench bench(tiny_layout({chunk(64)}), 100 * kPage);
  bench.request(counting(200), kA, false);
  ASSERT_TRUE(bench.cache.make_room(bench.pool.budget_bytes()));
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats(kA).bytes, 0u);
  EXPECT_EQ(bench.cache.stats(kA).nodes, 3u);  // the unfinished block went, the whole ones stayed
  EXPECT_EQ(bench.request(counting(200), kA, false).length, 192);
  EXPECT_TRUE(bench.is_right);
}

}  // namespace
}  // namespace reprise
