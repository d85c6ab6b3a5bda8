// Models with windowed layers only: entries whose pages have all gone must not stay as empty nodes.
#include <gtest/gtest.h>

#include "unit/kv/prompt_cache_support.h"

namespace reprise {
namespace {

using test::Bench;
using test::branch;
using test::chunk;
using test::counting;
using test::Session;
using test::tiny_layout;
using test::window;

constexpr std::size_t kPage = 4096;  // of one layer in the tiny layout

TEST(PromptEviction, NodesGoWithTheirLastPage) {
  Bench bench(tiny_layout({window(8)}), 8 * kPage);
  for (int i = 1; i <= 50; i++) {
    bench.request(counting(300, 1000 * i), "a", false);
    // Five blocks of this conversation, and of the one before those down to its last page.
    EXPECT_LE(bench.cache.stats("a").nodes, 10u);
  }
  EXPECT_TRUE(bench.is_right);
  EXPECT_EQ(bench.cache.match("a", counting(300, 50000), 299).length, 299);
  EXPECT_EQ(bench.cache.match("a", counting(300, 3000), 299).miss, MissReason::evicted);
  EXPECT_GE(bench.cache.stats("a").evictions_lru, 240u);
  ASSERT_TRUE(bench.cache.make_room(bench.pool.budget_bytes()));
  EXPECT_EQ(bench.cache.stats("a").nodes, 0u);
  EXPECT_EQ(bench.cache.stats("a").entries, 0u);
  bench.cache.check_invariants();
}

TEST(PromptEviction, NodesAboveARestorableEndStay) {
  Bench bench(tiny_layout({window(8)}), 100 * kPage);
  bench.request(counting(300));                                     // marked at 300
  bench.request(branch(counting(300), 192, 300, 900), "a", false);  // not marked
  ASSERT_TRUE(bench.cache.make_room(bench.pool.available_bytes() + 6 * kPage));
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats("a").bytes, kPage);
  EXPECT_EQ(bench.cache.stats("a").nodes, 5u);  // four without pages lead to the fifth
  EXPECT_EQ(bench.cache.match("a", counting(310), 309).length, 300);
  EXPECT_EQ(bench.cache.match("a", branch(counting(300), 192, 310, 900), 309).miss,
            MissReason::evicted);
  ASSERT_TRUE(bench.cache.make_room(bench.pool.budget_bytes()));
  EXPECT_EQ(bench.cache.stats("a").nodes, 0u);
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
    EXPECT_EQ(bench.cache.stats("a").nodes, 3u);
    EXPECT_EQ(bench.cache.stats("a").bytes, 0u);
    ASSERT_TRUE(bench.go_on(session, counting(264), false));  // goes on where it stood
    EXPECT_EQ(bench.cache.stats("a").nodes, 4u);
    EXPECT_EQ(bench.cache.match("a", counting(256), 256).length, 256);
    session.cache.drop_unneeded();
    ASSERT_TRUE(bench.cache.make_room(bench.pool.budget_bytes() - kPage));
    bench.cache.check_invariants();
  }
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats("a").nodes, 0u);
  EXPECT_EQ(bench.pool.used_bytes(), 0u);
}

// A chunk edge needs no keys: a node that ends there is worth keeping without pages.
TEST(PromptEviction, AChunkEdgeIsRestorableWithoutPages) {
  Bench bench(tiny_layout({chunk(64)}), 100 * kPage);
  bench.request(counting(200), "a", false);
  ASSERT_TRUE(bench.cache.make_room(bench.pool.budget_bytes()));
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats("a").bytes, 0u);
  EXPECT_EQ(bench.cache.stats("a").nodes, 3u);  // the unfinished block went, the whole ones stayed
  EXPECT_EQ(bench.request(counting(200), "a", false).length, 192);
  EXPECT_TRUE(bench.is_right);
}

}  // namespace
}  // namespace reprise
