// Cases of the prompt cache that can be checked by hand.
#include "kv/prompt_cache.h"

#include <cstring>
#include <string>

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
using test::kC;
using test::kStandard;
using test::Session;
using test::tiny_layout;
using test::Tokens;
using test::window;

constexpr std::size_t kPage = 4096;  // of one layer in the tiny layout
constexpr std::size_t kPlenty = 1000 * kPage;

std::uint64_t misses(const PromptCacheStats& stats, MissReason reason) {
  return stats.misses[static_cast<std::size_t>(reason)];
}

TEST(PromptCache, NextTurnCostsOnlyItsNewTokens) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  EXPECT_EQ(bench.request(counting(150)).miss, MissReason::no_candidate);
  const auto next = bench.request(counting(200));
  EXPECT_EQ(next.length, 150);
  EXPECT_EQ(next.common, 150);
  EXPECT_EQ(next.stored, 150);
  const auto stats = bench.cache.stats(kA);
  EXPECT_EQ(stats.lookups, 2u);
  EXPECT_EQ(stats.hits, 1u);
  EXPECT_EQ(stats.tokens_reused, 150u);
  ASSERT_TRUE(stats.last_hit.has_value());
  EXPECT_EQ(stats.last_hit->matched_length, 150);
  EXPECT_EQ(stats.last_hit->stored_length, 150);
  EXPECT_FALSE(stats.last_hit->truncated);
  EXPECT_EQ(stats.entries, 1u);  // the tail of turn 1 became a block of turn 2
  EXPECT_EQ(stats.nodes, 4u);    // 64 + 64 + 64 + 8
  EXPECT_TRUE(bench.is_right);
}

TEST(PromptCache, ExactReplayTakesAllButOne) {
  for (const int length : {17, 63, 64, 65, 127, 128, 129, 200}) {
    Bench bench(tiny_layout({kStandard, window(8), chunk(32)}), kPlenty);
    bench.request(counting(length));
    for (int i = 0; i < 2; i++) {
      const auto again = bench.request(counting(length));
      EXPECT_EQ(again.length, length - 1);
      EXPECT_EQ(again.stored, length);
    }
    EXPECT_TRUE(bench.cache.stats(kA).last_hit->truncated);
    EXPECT_TRUE(bench.is_right);
  }
}

TEST(PromptCache, BranchesInsideABlockShareWhatTheyHaveInCommon) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  bench.request(counting(300));
  const std::size_t before = bench.cache.stats(kA).nodes;
  const auto match = bench.request(branch(counting(300), 100, 180, 1000));
  EXPECT_EQ(match.length, 100);
  EXPECT_EQ(match.stored, 300);
  EXPECT_EQ(bench.cache.stats(kA).nodes, before + 2);  // from block 1 on
  EXPECT_EQ(bench.request(branch(counting(300), 110, 120, 2000)).length, 110);
  EXPECT_EQ(bench.request(counting(300)).length, 299);
  EXPECT_EQ(bench.request(branch(counting(300), 100, 180, 1000)).length, 179);
  EXPECT_TRUE(bench.is_right);
}

TEST(PromptCache, EveryMissHasItsReason) {
  Bench bench(tiny_layout({kStandard}), kPlenty);
  EXPECT_EQ(bench.request(counting(100)).miss, MissReason::no_candidate);
  EXPECT_EQ(bench.request(counting(100, 500)).miss, MissReason::no_candidate);
  EXPECT_EQ(bench.request(branch(counting(100), 15, 90, 700)).miss, MissReason::prefix_too_short);
  EXPECT_EQ(bench.request(branch(counting(100), 16, 90, 800)).length, 16);
  EXPECT_EQ(bench.request(counting(16)).miss, MissReason::prefix_too_short);  // 15 are usable
  const auto stats = bench.cache.stats(kA);
  EXPECT_EQ(misses(stats, MissReason::no_candidate), 2u);
  EXPECT_EQ(misses(stats, MissReason::prefix_too_short), 2u);
  EXPECT_EQ(stats.last_miss, MissReason::prefix_too_short);

  Bench off(tiny_layout({kStandard}), kPlenty, {.enabled = false});
  off.request(counting(100));
  EXPECT_EQ(off.request(counting(100)).miss, MissReason::disabled);
  EXPECT_EQ(off.cache.stats().nodes, 0u);
  EXPECT_EQ(off.pool.used_bytes(), 0u);
}

TEST(PromptCache, MissReasonsHaveNames) {
  EXPECT_EQ(miss_reason_name(MissReason::snapshot_diverged), "snapshot_diverged");
  EXPECT_EQ(miss_reason_name(MissReason::mode_refused), "mode_refused");
}

// Marks at 150 and 300: when windows go, blocks 2 and 4 keep theirs; and block 3, which 256 needs,
// where the path ends when the unfinished block has gone.
TEST(PromptCache, MarksKeepWindowsAndTheRestGoesFirst) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  Session session = bench.open();
  ASSERT_TRUE(bench.go_on(session, counting(300), true));
  bench.cache.mark(session.path, session.tokens, 150, MarkKind::history_boundary);
  bench.cache.mark(session.path, session.tokens, 300, MarkKind::prompt_end);
  bench.cache.mark(session.path, session.tokens, 300, MarkKind::completion_end);  // one mark
  session = bench.open();
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats(kA).bytes_by_group, (std::vector<std::size_t>{5 * kPage, 5 * kPage}));

  ASSERT_TRUE(bench.cache.make_room(bench.pool.available_bytes() + 2 * kPage));
  EXPECT_EQ(bench.cache.stats(kA).bytes_by_group, (std::vector<std::size_t>{5 * kPage, 3 * kPage}));
  EXPECT_EQ(bench.cache.stats(kA).window_pages_dropped, 2u);
  EXPECT_EQ(bench.cache.stats(kA).evictions_lru, 0u);
  const auto reach = [&](int common) {
    return bench.cache.match(kA, branch(counting(300), common, 350, 900), 349);
  };
  EXPECT_EQ(reach(300).length, 300);
  EXPECT_EQ(reach(299).length, 299);
  EXPECT_EQ(reach(263).length, 263);  // needs [256, 263)
  EXPECT_EQ(reach(262).length, 262);  // needs [255, 262)
  EXPECT_EQ(reach(150).length, 150);
  EXPECT_EQ(reach(135).length, 135);  // needs [128, 135)
  EXPECT_EQ(reach(134).miss, MissReason::snapshot_diverged);
  EXPECT_EQ(reach(134).common, 134);
}

TEST(PromptCache, wrapped_snapshot_refuses_shorter_divergent_prompt) {
  Bench bench(tiny_layout({kStandard, window(16)}), kPlenty);
  bench.request(counting(640));
  ASSERT_TRUE(bench.cache.make_room(bench.pool.available_bytes() + 9 * kPage));
  Session session = bench.open();
  ASSERT_TRUE(bench.go_on(session, counting(5, 7000), false));
  const auto match = bench.look_up(session, branch(counting(640), 320, 330, 900), 329);
  EXPECT_EQ(match.length, 0);
  EXPECT_EQ(match.miss, MissReason::snapshot_diverged);
  EXPECT_EQ(session.cache.offset(), 5);  // no state was touched
  EXPECT_EQ(session.tokens, counting(5, 7000));
  EXPECT_EQ(bench.request(counting(650)).length, 640);  // the exact prefix still hits
  EXPECT_TRUE(bench.is_right);
}

TEST(PromptCache, LeastRecentlyUsedConversationGoesFirst) {
  Bench bench(tiny_layout({kStandard}), 12 * kPage);
  bench.request(counting(256, 1000));
  bench.request(counting(256, 2000));
  bench.request(counting(256, 3000));
  EXPECT_EQ(bench.pool.available_bytes(), 0u);
  bench.cache.match(kA, counting(256, 1000), 255);  // used now
  bench.request(counting(128, 4000));               // takes two pages from the end of 2000
  EXPECT_EQ(bench.cache.stats(kA).evictions_lru, 2u);
  const auto reach = [&](TokenId first) {
    return bench.cache.match(kA, counting(256, first), 256).length;
  };
  EXPECT_EQ(reach(2000), 128);
  EXPECT_EQ(reach(1000), 256);
  EXPECT_EQ(reach(3000), 256);
  ASSERT_TRUE(bench.cache.make_room(bench.pool.budget_bytes()));
  EXPECT_EQ(bench.cache.stats(kA).nodes, 0u);
  const auto gone = bench.cache.match(kA, counting(200, 3000), 199);
  EXPECT_EQ(gone.miss, MissReason::evicted);
  EXPECT_EQ(bench.cache.match(kA, counting(200, 9000), 199).miss, MissReason::no_candidate);
  EXPECT_EQ(bench.cache.match(kB, counting(200, 3000), 199).miss, MissReason::no_candidate);
}

// When a branch loses its end, blocks that end nowhere worth resuming go before other branches.
TEST(PromptCache, StrandedBlocksGoBeforeOtherConversations) {
  Bench bench(tiny_layout({kStandard, window(8)}), 100 * kPage);
  {
    Session session = bench.open();
    ASSERT_TRUE(bench.go_on(session, counting(512), true));
    bench.cache.mark(session.path, session.tokens, 128, MarkKind::history_boundary);
    bench.cache.mark(session.path, session.tokens, 512, MarkKind::completion_end);
  }
  bench.request(counting(64, 5000));
  bench.request(counting(64, 6000));
  // Six unmarked windows first, then block 7, then 6..2, whose windows are gone.
  ASSERT_TRUE(bench.cache.make_room(bench.pool.available_bytes() + (6 + 2 + 5) * kPage));
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.match(kA, counting(512), 512).length, 128);
  EXPECT_EQ(bench.cache.match(kA, counting(64, 5000), 64).length, 64);
  EXPECT_EQ(bench.cache.match(kA, counting(64, 6000), 64).length, 64);
  EXPECT_EQ(bench.cache.stats(kA).bytes_by_group, (std::vector<std::size_t>{4 * kPage, 3 * kPage}));
}

TEST(PromptCache, WhatRunningSequencesHoldIsPassedOver) {
  Bench bench(tiny_layout({kStandard}), 8 * kPage);
  Session session = bench.open();
  ASSERT_TRUE(bench.go_on(session, counting(250), true));
  EXPECT_FALSE(bench.cache.make_room(5 * kPage));
  EXPECT_EQ(bench.cache.stats(kA).nodes, 4u);
  EXPECT_TRUE(bench.cache.make_room(4 * kPage));
  EXPECT_FALSE(bench.cache.make_room(9 * kPage));
  session = bench.open();
  EXPECT_TRUE(bench.cache.make_room(5 * kPage));
  EXPECT_EQ(bench.cache.match(kA, counting(250), 249).length, 192);
}

TEST(PromptCache, MarkedWindowsAreTheLastResort) {
  Bench bench(tiny_layout({kStandard, window(8)}), 8 * kPage);
  Session session = bench.open();
  ASSERT_TRUE(bench.go_on(session, counting(256), false));
  bench.cache.mark(session.path, session.tokens, 128, MarkKind::history_boundary);
  session.cache.drop_unneeded();
  EXPECT_EQ(bench.pool.available_bytes(), 0u);
  ASSERT_TRUE(bench.cache.make_room(2 * kPage));
  EXPECT_EQ(bench.cache.match(kA, counting(128), 128).length, 128);
  ASSERT_TRUE(bench.cache.make_room(3 * kPage));
  EXPECT_EQ(bench.cache.match(kA, counting(128), 128).miss, MissReason::snapshot_diverged);
  EXPECT_FALSE(bench.cache.make_room(4 * kPage));
  bench.cache.check_invariants();
}

TEST(PromptCache, TimeToLive) {
  Bench bench(tiny_layout({kStandard}), kPlenty, {.ttl_ms = 100});
  bench.request(counting(200));
  bench.now += 60;
  bench.request(branch(counting(200), 100, 150, 900));
  bench.now += 60;
  bench.cache.expire();  // the first conversation's end is 120 old, the blocks of 100 tokens 60
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.stats(kA).evictions_ttl, 2u);
  EXPECT_EQ(bench.cache.match(kA, counting(200), 200).length, 128);
  bench.now += 161;
  bench.cache.expire();
  EXPECT_EQ(bench.cache.stats(kA).nodes, 0u);
  EXPECT_EQ(bench.cache.stats(kA).evictions_ttl, 6u);
  EXPECT_EQ(bench.pool.used_bytes(), 0u);
  EXPECT_EQ(bench.cache.match(kA, counting(200), 200).miss, MissReason::evicted);
}

TEST(PromptCache, SaltsDoNotSeeEachOther) {
  Bench bench(tiny_layout({kStandard}), kPlenty);
  bench.request(counting(100), kA);
  EXPECT_EQ(bench.request(counting(100), kB).miss, MissReason::no_candidate);
  EXPECT_EQ(bench.cache.stats(kA).lookups, 1u);
  EXPECT_EQ(bench.cache.stats(kC).lookups, 0u);
  const auto sum = bench.cache.stats();
  EXPECT_EQ(sum.lookups, 2u);
  EXPECT_EQ(sum.nodes, 4u);
  EXPECT_EQ(sum.bytes, 4 * kPage);
  const auto outcome = bench.cache.reset(kA);
  EXPECT_EQ(outcome.freed_bytes, 2 * kPage);
  EXPECT_EQ(outcome.freed_entries, 1u);
  EXPECT_EQ(bench.cache.stats(kA).nodes, 0u);
  EXPECT_EQ(bench.cache.stats(kA).lookups, 1u);  // counters stay
  EXPECT_EQ(bench.request(counting(100), kB).length, 99);
  EXPECT_EQ(bench.request(counting(100), kA).miss, MissReason::no_candidate);
  EXPECT_EQ(bench.cache.reset(kC).freed_entries, 0u);
}

TEST(PromptCache, PathsOutliveAReset) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  Session session = bench.open();
  ASSERT_TRUE(bench.go_on(session, counting(130), true));
  session.cache.drop_unneeded();
  Session other = bench.open();
  bench.look_up(other, counting(200), 199);
  EXPECT_EQ(bench.cache.reset(kA).freed_entries, 1u);
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.match(kA, counting(130), 129).miss, MissReason::no_candidate);
  bench.cache.mark(session.path, session.tokens, 128, MarkKind::prompt_end);  // nothing to hold
  ASSERT_TRUE(bench.go_on(session, counting(192), false));  // starts again at the root
  bench.cache.check_invariants();
  EXPECT_EQ(session.path.published(), 192);
  EXPECT_EQ(bench.cache.match(kA, counting(192), 192).length, 192);
  // The window of block 0 was dropped long ago, that of block 1 was not.
  EXPECT_EQ(bench.cache.match(kA, counting(60), 60).miss, MissReason::snapshot_diverged);
  EXPECT_EQ(bench.cache.match(kA, counting(100), 100).length, 100);
}

TEST(PromptCache, OwnPageGivesWayToTheSharedOne) {
  Bench bench(tiny_layout({kStandard, window(100)}), kPlenty);
  Session first = bench.open();
  Session second = bench.open();
  ASSERT_TRUE(bench.go_on(first, counting(128), false));
  ASSERT_TRUE(bench.go_on(second, counting(128), false));
  EXPECT_EQ(bench.pool.used_bytes(), 4 * kPage);
  EXPECT_EQ(first.cache.page(1, 1), second.cache.page(1, 1));
  bench.cache.check_invariants();
}

TEST(PromptCache, MissingPagesAreFilledIn) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  bench.request(counting(256), kA, false);
  ASSERT_TRUE(bench.cache.make_room(bench.pool.available_bytes() + 4 * kPage));
  EXPECT_EQ(bench.request(counting(256), kA, false).miss, MissReason::snapshot_diverged);
  EXPECT_EQ(bench.request(counting(256), kA, false).length, 255);
  EXPECT_EQ(bench.cache.stats(kA).nodes, 4u);
  EXPECT_EQ(bench.cache.stats(kA).bytes, 8 * kPage);
}

// Two requests resume at the same unfinished end: one appends in place, the other copies.
TEST(PromptCache, TailsAreSharedAndExtended) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  bench.request(counting(40));
  Session one = bench.open();
  Session two = bench.open();
  EXPECT_EQ(bench.look_up(one, counting(50), 49).length, 40);
  EXPECT_EQ(bench.look_up(two, branch(counting(40), 40, 55, 900), 54).length, 40);
  ASSERT_TRUE(bench.go_on(two, branch(counting(40), 40, 55, 900), true));
  ASSERT_TRUE(bench.go_on(one, counting(50), true));
  bench.cache.check_invariants();
  EXPECT_TRUE(test::holds_identities(one.cache, test::identities(one.tokens)));
  EXPECT_TRUE(test::holds_identities(two.cache, test::identities(two.tokens)));
  EXPECT_EQ(bench.cache.stats(kA).entries, 2u);  // the first tail went into one of them
  EXPECT_EQ(bench.request(counting(50)).length, 49);
  EXPECT_EQ(bench.request(branch(counting(40), 40, 55, 900)).length, 54);
  EXPECT_TRUE(bench.is_right);
}

// The page of an unfinished entry went on in place with tokens of another sequence.
TEST(PromptCache, AnExtendedEntryDoesNotKeepAPageThatWentOnElsewhere) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  bench.request(counting(40));
  Session in_place = bench.open();
  EXPECT_EQ(bench.look_up(in_place, counting(60), 59).length, 40);
  ASSERT_TRUE(bench.go_on(in_place, counting(60), false));
  const Tokens other = branch(counting(40), 40, 55, 900);
  EXPECT_EQ(bench.request(other).length, 40);
  EXPECT_EQ(bench.cache.stats(kA).nodes, 1u);
  EXPECT_EQ(bench.request(other).length, 54);
  ASSERT_TRUE(bench.go_on(in_place, counting(70), true));
  EXPECT_EQ(bench.request(counting(70)).length, 69);
  EXPECT_TRUE(bench.is_right);
}

TEST(PromptCache, ShorterTailOfALongerEntryAddsNothing) {
  Bench bench(tiny_layout({kStandard}), kPlenty);
  bench.request(counting(60));
  bench.request(counting(30));
  EXPECT_EQ(bench.cache.stats(kA).nodes, 1u);
  EXPECT_EQ(bench.pool.used_bytes(), kPage);
}

TEST(PromptCache, MaterialisedHitsGoThroughTheContract) {
  Bench bench(tiny_layout({kStandard, window(8), chunk(32)}), kPlenty,
              {.store = CacheStore::materialised});
  bench.request(counting(150));
  EXPECT_EQ(bench.request(counting(300)).length, 150);
  EXPECT_EQ(bench.request(branch(counting(300), 200, 290, 900)).length, 200);
  EXPECT_TRUE(bench.is_right);
  Session session = bench.open();
  const std::size_t used = bench.pool.used_bytes();
  bench.look_up(session, counting(300), 299);
  EXPECT_EQ(bench.pool.used_bytes(), used + (5 + 1 + 1) * kPage);  // pages of its own
  EXPECT_EQ(session.cache.held(1), (PositionRange{291, 299}));
}

TEST(PromptCache, DoubtIsACountedMiss) {
  Bench bench(tiny_layout({kStandard}), kPlenty, {.store = CacheStore::materialised});
  Session writer = bench.open();
  ASSERT_TRUE(bench.go_on(writer, counting(80, 4000), true));
  const std::uint16_t infinity = 0x7c00;
  std::memcpy(writer.cache.page_at(0, 3), &infinity, sizeof(infinity));
  const PromptCache::Match match = bench.cache.match(kA, counting(80, 4000), 79);
  ASSERT_EQ(match.length, 79);
  Session reader = bench.open();
  EXPECT_FALSE(bench.cache.restore(kA, counting(80, 4000), match, reader.cache, reader.path));
  EXPECT_EQ(reader.cache.offset(), 0);
  EXPECT_EQ(reader.path.published(), 0);
  const auto stats = bench.cache.stats(kA);
  EXPECT_EQ(misses(stats, MissReason::corrupt), 1u);
  EXPECT_EQ(stats.last_miss, MissReason::corrupt);
  bench.cache.check_invariants();
}

// Many entries begin alike inside one block, and only some of them still have its window: the
// restore must find the same one as the lookup.
TEST(PromptCache, ARestoreFindsTheSiblingThatTheLookupFound) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  const auto entry = [](TokenId first) { return branch(counting(32), 32, 200, first); };
  for (TokenId i = 1; i <= 20; i++) bench.request(entry(1000 * i));
  while (bench.cache.stats(kA).evictions_lru == 0) ASSERT_TRUE(bench.give_up(kPage));
  int behind_the_fork = 0;
  for (TokenId i = 1; i <= 20; i++) {
    // 40 tokens are those of one entry, 32 those of all.
    const Tokens prompt = branch(entry(1000 * i), 40, 62, 500 + 30 * i);
    const PromptCache::Match match = bench.request(prompt, kA, false);
    EXPECT_EQ(match.common, 40);
    EXPECT_TRUE(match.length == 32 || match.length == 40);
    if (match.length == 32) behind_the_fork++;
  }
  EXPECT_GE(behind_the_fork, 3);
  EXPECT_LE(behind_the_fork, 17);
  EXPECT_TRUE(bench.is_right);
}

// A request that ends before it forwards anything publishes what it restored: the entry that it
// came from keeps its pages, whatever else begins alike.
TEST(PromptCache, AnUnusedRestoreLeavesTheEntryItsPages) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  const Tokens poor = branch(counting(40), 40, 60, 1000);
  const Tokens rich = branch(counting(40), 40, 200, 2000);
  bench.request(poor, kA, false);
  bench.request(rich, kA, false);
  ASSERT_TRUE(bench.cache.make_room(bench.pool.available_bytes() + kPage));  // the poor one's
  Session session = bench.open();
  ASSERT_EQ(bench.look_up(session, branch(counting(40), 40, 60, 1500), 59).length, 40);
  bench.cache.publish(session.path, session.tokens, session.cache, true);
  bench.cache.check_invariants();
  EXPECT_EQ(bench.request(rich).length, 199);
  EXPECT_TRUE(bench.is_right);
}

// Clients choose salts: what is kept of those that have nothing in the cache is bounded, the sums
// never fall.
TEST(PromptCache, SaltsWithoutEntriesAreForgotten) {
  Bench bench(tiny_layout({kStandard}), kPlenty, {.idle_salts_max = 3});
  const auto visitor = [](int i) { return CacheScope{"v", "visitor " + std::to_string(i)}; };
  const CacheScope with_entries{"t", "entries"}, with_path{"t", "running"},
      with_orphan{"t", "orphaned"};
  bench.request(counting(100), with_entries);
  Session running = bench.open(with_path);
  bench.look_up(running, counting(50), 49);
  Session orphaned = bench.open(with_orphan);
  ASSERT_TRUE(bench.go_on(orphaned, counting(70), true));
  bench.cache.reset(with_orphan);
  const CacheScope quiet{"another tenant", "idle"};
  bench.look_up(*std::make_unique<Session>(bench.open(quiet)), counting(50), 49);
  for (int i = 0; i < 10; i++) {
    Session session = bench.open(visitor(i));
    bench.look_up(session, counting(50), 49);
    bench.cache.check_invariants();
  }
  EXPECT_EQ(bench.cache.stats(visitor(6)).lookups, 0u);
  EXPECT_EQ(bench.cache.stats(visitor(7)).lookups, 1u);
  EXPECT_EQ(bench.cache.stats(visitor(9)).lookups, 1u);
  EXPECT_EQ(bench.cache.stats(with_entries).lookups, 1u);
  EXPECT_EQ(bench.cache.stats(with_path).lookups, 1u);
  EXPECT_EQ(bench.cache.stats(quiet).lookups, 1u);  // a tenant's salts push out its own only
  EXPECT_EQ(bench.cache.stats().lookups, 13u);
  EXPECT_EQ(misses(bench.cache.stats(), MissReason::no_candidate), 13u);
  // Who does not use the cache leaves no salt behind.
  bench.cache.count_lookup({"v", "off"}, {}, {.miss = MissReason::disabled});
  EXPECT_EQ(bench.cache.stats({"v", "off"}).lookups, 0u);
  EXPECT_EQ(bench.cache.stats().lookups, 14u);
  EXPECT_EQ(bench.cache.stats(visitor(7)).lookups, 1u);
  ASSERT_TRUE(bench.go_on(orphaned, counting(140), true));  // its salt is there as long as its path
  EXPECT_EQ(bench.cache.stats(with_orphan).nodes, 3u);
  EXPECT_EQ(bench.request(counting(100), with_entries).length, 99);
  bench.cache.check_invariants();
}

TEST(PromptCache, GhostsAreBounded) {
  Bench bench(tiny_layout({kStandard}), 4 * kPage, {.ghosts_per_salt = 2});
  for (int i = 0; i < 5; i++) bench.request(counting(64, 1000 * (i + 1)));
  ASSERT_TRUE(bench.cache.make_room(4 * kPage));
  bench.cache.check_invariants();
  EXPECT_EQ(bench.cache.match(kA, counting(63, 5000), 62).miss, MissReason::no_candidate);
  EXPECT_EQ(bench.cache.match(kA, counting(65, 5000), 64).miss, MissReason::evicted);
  EXPECT_EQ(bench.cache.match(kA, counting(65, 4000), 64).miss, MissReason::evicted);
  EXPECT_EQ(bench.cache.match(kA, counting(65, 3000), 64).miss, MissReason::no_candidate);
}

}  // namespace
}  // namespace reprise
