// What the prompt cache tells people: the tree; and how a cached reply went on.
#include <algorithm>

#include <gtest/gtest.h>

#include "unit/kv/prompt_cache_support.h"

namespace reprise {
namespace {

using test::Bench;
using test::branch;
using test::counting;
using test::kA;
using test::kB;
using test::kStandard;
using test::Session;
using test::tiny_layout;
using test::Tokens;
using test::window;

constexpr std::size_t kPage = 4096;  // of one layer in the tiny layout

TEST(PromptTree, RunsEndWhereTheyBranch) {
  Bench bench(tiny_layout({kStandard, window(8)}), 1000 * kPage);
  bench.turn(counting(200), counting(300));
  bench.now += 50;
  bench.turn(branch(counting(300), 128, 200, 5000), branch(counting(300), 128, 250, 5000));
  bench.now += 50;
  Session session = bench.open();
  bench.look_up(session, counting(200), 199);
  EXPECT_TRUE(bench.cache.tree(kB, 10).empty());
  const std::vector<CacheRun> tree = bench.cache.tree(kA, 10);
  ASSERT_EQ(tree.size(), 3u);
  EXPECT_EQ(tree[0].parent, CacheRun::kNoParent);
  EXPECT_EQ(tree[0].start, 0);
  EXPECT_EQ(tree[0].end, 128);
  EXPECT_EQ(tree[0].marks,
            (std::vector<std::pair<Position, MarkKind>>{{128, MarkKind::branch_point}}));
  EXPECT_EQ(tree[0].pages, (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(tree[0].bytes, 4 * kPage);
  EXPECT_EQ(tree[0].hits, 1u);
  EXPECT_EQ(tree[0].used_unix_ms, 1100);
  EXPECT_EQ(tree[1].parent, 0u);
  EXPECT_EQ(tree[1].start, 128);
  EXPECT_EQ(tree[1].end, 300);
  EXPECT_EQ(tree[1].marks,
            (std::vector<std::pair<Position, MarkKind>>{{197, MarkKind::history_boundary},
                                                        {200, MarkKind::prompt_end},
                                                        {300, MarkKind::completion_end}}));
  EXPECT_EQ(tree[1].hits, 1u);
  EXPECT_EQ(tree[1].paths, 1);
  EXPECT_EQ(tree[1].used_unix_ms, 1100);
  EXPECT_EQ(tree[2].parent, 0u);
  EXPECT_EQ(tree[2].end, 250);
  EXPECT_EQ(tree[2].paths, 0);
  EXPECT_EQ(tree[2].used_unix_ms, 1050);
  EXPECT_NE(tree[1].hash, tree[2].hash);
}

TEST(PromptTree, ShowsWhatWasUsedLastWithWhatItContinues) {
  Bench bench(tiny_layout({kStandard}), 1000 * kPage);
  for (TokenId i = 1; i <= 20; i++) bench.request(branch(counting(128), 64, 128, 1000 * i));
  bench.request(counting(64, 700));
  bench.reach(branch(counting(128), 64, 128, 5000));
  EXPECT_EQ(bench.cache.tree(kA, 100).size(), 22u);
  EXPECT_TRUE(bench.cache.tree(kA, 0).empty());
  const std::vector<CacheRun> tree = bench.cache.tree(kA, 3);
  ASSERT_EQ(tree.size(), 3u);
  EXPECT_EQ(tree[0].end, 64);
  EXPECT_EQ(tree[1].parent, 0u);
  EXPECT_EQ(tree[2].parent, CacheRun::kNoParent);
}

// Prompt of 100 tokens, reply up to 230.
TEST(PromptReplies, WhereAPromptLeavesAReplyItsTokensAreTold) {
  Bench bench(tiny_layout({kStandard, window(8)}), 1000 * kPage);
  const Tokens whole = counting(230);
  bench.turn(counting(100), whole);
  const auto ask = [&](const Tokens& prompt, std::size_t most) {
    const auto match = bench.cache.match(kA, prompt, static_cast<Position>(prompt.size()) - 1);
    return bench.cache.sampled_continuation(kA, prompt, match, most);
  };
  const auto rest_from = [&](int at, int count) {
    return Tokens(whole.begin() + at, whole.begin() + at + count);
  };
  EXPECT_EQ(ask(branch(whole, 140, 300, 7000), 1000), rest_from(140, 90));
  EXPECT_EQ(ask(branch(whole, 128, 300, 7000), 1000), rest_from(128, 102));  // at a block's end
  EXPECT_EQ(ask(branch(whole, 140, 300, 7000), 5), rest_from(140, 5));
  EXPECT_EQ(ask(branch(whole, 100, 300, 7000), 5), rest_from(100, 5));
  EXPECT_TRUE(ask(branch(whole, 140, 300, 7000), 0).empty());
  EXPECT_TRUE(ask(branch(whole, 60, 300, 7000), 1000).empty());   // in the prompt
  EXPECT_TRUE(ask(branch(whole, 230, 300, 7000), 1000).empty());  // behind the reply
  EXPECT_TRUE(ask(counting(300, 7000), 1000).empty());
  PromptCache::Match elsewhere;
  elsewhere.common = 100;
  EXPECT_TRUE(bench.cache.sampled_continuation(kB, whole, elsewhere, 10).empty());

  // The prompt that leaves it is forwarded; the place is a branch point then.
  bench.turn(branch(whole, 140, 300, 7000), branch(whole, 140, 320, 7000));
  EXPECT_EQ(ask(branch(whole, 150, 300, 8000), 1000), rest_from(150, 80));
  EXPECT_TRUE(bench.cache.stats(kA).retokenised == 0);
  bench.cache.count_retokenised(kA, 140);
  bench.cache.count_retokenised(kA, 120);
  EXPECT_EQ(bench.cache.stats(kA).retokenised, 2u);
  EXPECT_EQ(bench.cache.stats(kA).last_retokenised_at, 120);
  EXPECT_EQ(bench.cache.stats(kB).retokenised, 0u);
  EXPECT_EQ(bench.cache.stats().retokenised, 2u);
  EXPECT_EQ(bench.cache.stats().last_retokenised_at, 120);
}

// The same prompt, answered three times.
TEST(PromptReplies, OfSeveralTheOneUsedLast) {
  Bench bench(tiny_layout({kStandard, window(8)}), 1000 * kPage);
  const auto reply = [](TokenId first) { return branch(counting(100), 100, 180, first); };
  for (TokenId i = 1; i <= 3; i++) bench.turn(counting(100), reply(1000 * i));
  const Tokens prompt = branch(counting(100), 100, 200, 9000);
  const auto ask = [&] {
    return bench.cache.sampled_continuation(kA, prompt, bench.cache.match(kA, prompt, 199), 1);
  };
  EXPECT_EQ(ask(), Tokens{3000});
  bench.reach(reply(1000));
  EXPECT_EQ(ask(), Tokens{1000});
}

}  // namespace
}  // namespace reprise
