// What marks keep, how strongly, and what a conversation loses when memory is short.
#include <algorithm>

#include <gtest/gtest.h>

#include "unit/kv/prompt_cache_support.h"

namespace reprise {
namespace {

using test::Bench;
using test::branch;
using test::chunk;
using test::counting;
using test::kA;
using test::kStandard;
using test::Session;
using test::tiny_layout;
using test::Tokens;
using test::window;

constexpr std::size_t kPage = 4096;  // of one layer in the tiny layout
constexpr std::size_t kPlenty = 4000 * kPage;
// Windows weigh four times what full attention does.
const std::vector<LayerSpan> kMostlyWindows = {kStandard, window(8), window(8), window(8),
                                               window(8)};

// Marks of a kind in the scope's tree, ascending.
std::vector<Position> marks(const Bench& bench, MarkKind kind, const CacheScope& scope = kA) {
  std::vector<Position> positions;
  for (const CacheRun& run : bench.cache.tree(scope, 1000)) {
    for (const auto& [position, each] : run.marks) {
      if (each == kind) positions.push_back(position);
    }
  }
  std::ranges::sort(positions);
  return positions;
}

// Turns of 100 tokens, 60 of them the reply.
Tokens converse(Bench& bench, int turns, TokenId first = 1, const CacheScope& scope = kA) {
  for (int turn = 1; turn <= turns; turn++)
    bench.turn(counting(100 * turn - 60, first), counting(100 * turn, first), scope);
  return counting(100 * turns, first);
}

// The bytes of windowed pages that nothing but `kept` pages hold are given up.
void drop_windows(Bench& bench, std::size_t kept_pages) {
  const std::size_t page = 4 * kPage;
  const std::size_t held = bench.cache.stats(kA).bytes_by_group[1] / page;
  ASSERT_TRUE(bench.give_up((held - kept_pages) * page));
}

TEST(PromptMarks, EveryEarlierTurnCanBeResumedWhileThereIsRoom) {
  Bench bench(tiny_layout(kMostlyWindows), kPlenty);
  converse(bench, 8);
  for (int turn = 1; turn <= 8; turn++) {
    for (const int length : {100 * turn - 63, 100 * turn - 60, 100 * turn})
      EXPECT_EQ(bench.reach(branch(counting(800), length, 900, 5000)), length);
  }
  EXPECT_TRUE(bench.is_right);
}

// Blocks: 0 [0, 64), 1 [64, 128), 2 [128, 192) ...
TEST(PromptMarks, ALaterTurnWeakensTheOnesBefore) {
  Bench bench(tiny_layout(kMostlyWindows), kPlenty);
  converse(bench, 3);  // prompt ends 40, 140, 240; replies' 100, 200, 300
  EXPECT_EQ(marks(bench, MarkKind::prompt_end), (std::vector<Position>{40, 140, 240}));
  EXPECT_EQ(marks(bench, MarkKind::completion_end), (std::vector<Position>{100, 200, 300}));
  // Loose: none. Weak: 40 in block 0, 100 in 1, 140 in 2, 200 in 3 and what it needs of 2.
  // Strong: 237 and 240 in 3, 300 in 4, and 256 in 3.
  drop_windows(bench, 2);
  EXPECT_EQ(bench.reach(counting(300)), 300);
  EXPECT_EQ(bench.reach(counting(240)), 240);
  EXPECT_EQ(bench.reach(branch(counting(300), 190, 300, 5000)), 0);
  EXPECT_EQ(bench.cache.stats(kA).evictions_lru, 0u);
}

TEST(PromptMarks, MessageEndsAreWeakFromTheStart) {
  Bench bench(tiny_layout(kMostlyWindows), kPlenty);
  Session session = bench.open();
  ASSERT_TRUE(bench.go_on(session, counting(200), true));
  bench.cache.mark(session.path, session.tokens, 30, MarkKind::turn_end);
  bench.cache.mark(session.path, session.tokens, 190, MarkKind::turn_end);
  bench.cache.mark(session.path, session.tokens, 128, MarkKind::history_boundary);
  session = bench.open();
  drop_windows(bench, 3);  // block 1, which no mark but 128 holds, stays; block 2's was loose
  EXPECT_EQ(bench.reach(branch(counting(200), 30, 90, 5000)), 30);
  EXPECT_EQ(bench.reach(branch(counting(200), 128, 190, 5000)), 128);
  drop_windows(bench, 1);
  EXPECT_EQ(bench.reach(branch(counting(200), 30, 90, 5000)), 0);
  EXPECT_EQ(bench.reach(branch(counting(200), 128, 190, 5000)), 128);
}

// Kept turns: wherever four blocks of full attention weigh as much as a mark's window.
TEST(PromptMarks, SomeEarlierTurnsStayStrong) {
  Bench bench(tiny_layout(kMostlyWindows), kPlenty);
  converse(bench, 12);
  // Only strong windows are left: those of the last turn and of the kept ones.
  const std::size_t strong = [&] {
    std::size_t pages = 0;
    while (true) {
      const auto before = bench.cache.stats(kA);
      if (!bench.give_up(kPage) || bench.cache.stats(kA).evictions_lru > 0) return pages;
      pages = bench.cache.stats(kA).bytes_by_group[1] / (4 * kPage);
    }
  }();
  EXPECT_GE(strong, 4u);
  EXPECT_LE(strong, 9u);
  std::vector<Position> reached;
  for (int common = 1150; common > 0; common -= 10)
    reached.push_back(bench.reach(branch(counting(1200), common, 1300, 5000)));
  EXPECT_TRUE(std::ranges::is_sorted(reached, std::ranges::greater{}));
  const auto distinct = std::ranges::unique(reached).begin() - reached.begin();
  EXPECT_GE(distinct, 4);
}

// With one conversation, what can be resumed shrinks in steps with the memory, and no more memory
// than a step's is kept in vain.
TEST(PromptMarks, ALongConversationDegradesGradually) {
  for (const std::vector<LayerSpan>& spans :
       {kMostlyWindows, std::vector<LayerSpan>{kStandard, window(100)},
        std::vector<LayerSpan>{kStandard}}) {
    Bench bench(tiny_layout(spans), kPlenty);
    const Tokens all = converse(bench, 30);
    Position before = bench.reach(all);
    ASSERT_EQ(before, 3000);
    int steps = 0;
    while (bench.give_up(kPage)) {
      const Position now = bench.reach(all);
      ASSERT_LE(now, before);
      ASSERT_LE(before - now, 520);
      const auto full_pages =
          static_cast<Position>(bench.cache.stats(kA).bytes_by_group[0] / kPage);
      ASSERT_LE(full_pages * 64 - now, 520 + 64);
      if (now < before) steps++;
      before = now;
    }
    EXPECT_GE(steps, 6);
    EXPECT_EQ(bench.cache.stats(kA).bytes, 0u);
    EXPECT_EQ(bench.cache.stats(kA).nodes, 0u);
  }
}

// One cold prompt with all its messages, as an agent sends it first: their ends are the steps.
TEST(PromptMarks, AColdConversationDegradesGraduallyToo) {
  Bench bench(tiny_layout({kStandard, window(40), chunk(96)}), kPlenty);
  const Tokens all = counting(3000);
  Session session = bench.open();
  for (int length = 500; length <= 3000; length += 500) {
    ASSERT_TRUE(bench.go_on(session, counting(length), length == 3000));
    for (Position at = length - 450; at <= length; at += 70)
      bench.cache.mark(session.path, session.tokens, std::min(at, session.path.published()),
                       MarkKind::turn_end);
    session.cache.drop_unneeded();
  }
  bench.cache.mark(session.path, session.tokens, 3000, MarkKind::prompt_end);
  session = bench.open();
  Position before = bench.reach(all);
  ASSERT_EQ(before, 3000);
  int steps = 0;
  while (bench.give_up(kPage)) {
    const Position now = bench.reach(all);
    ASSERT_LE(now, before);
    ASSERT_LE(before - now, 520);
    if (now < before) steps++;
    before = now;
  }
  EXPECT_GE(steps, 6);
  EXPECT_EQ(bench.cache.stats(kA).nodes, 0u);
}

// The next turn says the ends of earlier messages again: their marks are no newer for that.
TEST(PromptMarks, AMessageEndSaidAgainStaysWeak) {
  Bench bench(tiny_layout(kMostlyWindows), kPlenty);
  bench.turn(counting(40), counting(100));
  bench.turn(counting(140), counting(200));
  Session session = bench.open();
  bench.look_up(session, counting(240), 239);
  ASSERT_TRUE(bench.go_on(session, counting(240), true));
  for (const Position at : {37, 40, 100, 140, 200})
    bench.cache.mark(session.path, session.tokens, at, MarkKind::turn_end);
  bench.cache.mark(session.path, session.tokens, 240, MarkKind::prompt_end);
  session = bench.open();
  drop_windows(bench, 2);  // of 240: blocks 2 and 3
  EXPECT_EQ(bench.reach(counting(240)), 240);
  EXPECT_EQ(bench.reach(counting(100)), 0);
  EXPECT_EQ(bench.cache.stats(kA).evictions_lru, 0u);
}

// Idle conversations come back as far as the budget's pages allow: the newest, whole.
TEST(PromptMarks, IdleConversationsComeBackAsFarAsTheBudgetAllows) {
  Bench bench(tiny_layout(kMostlyWindows), kPlenty);
  std::vector<Tokens> all;
  for (int i = 1; i <= 64; i++) all.push_back(converse(bench, 4, 10000 * i));
  Position last = 64 * 400;
  for (const std::size_t kept : {64u, 48u, 32u, 16u, 4u, 1u}) {
    // One that is kept: 7 blocks, and the windows of its last turn: blocks 4 (of 337, 340), 5
    // and 6.
    const std::size_t bytes = kept * (7 + 3 * 4) * kPage;
    const std::size_t used = bench.pool.used_bytes();
    ASSERT_TRUE(bench.give_up(used > bytes ? used - bytes : 0));
    Position resumed = 0;
    for (const Tokens& conversation : all) resumed += bench.reach(conversation);
    EXPECT_LE(resumed, last);
    EXPECT_GE(resumed, static_cast<Position>(kept) * 384 - 400) << kept;
    last = resumed;
  }
}

// The tail goes; the position before it can be resumed, and carries the marks.
TEST(PromptMarks, ATailIsGivenUpBeforeItsPath) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  bench.turn(counting(150), counting(150));
  while (bench.cache.stats(kA).evictions_lru == 0) ASSERT_TRUE(bench.give_up(kPage));
  EXPECT_EQ(bench.reach(counting(150)), 128);
  EXPECT_EQ(marks(bench, MarkKind::completion_end), (std::vector<Position>{128}));
  EXPECT_EQ(marks(bench, MarkKind::prompt_end), (std::vector<Position>{128}));
  EXPECT_EQ(bench.cache.stats(kA).bytes_by_group,
            (std::vector<std::size_t>{2 * kPage, 1 * kPage}));  // 128 needs block 1's window
}

TEST(PromptMarks, WhereContinuationsPartIsMarked) {
  Bench bench(tiny_layout(kMostlyWindows), kPlenty);
  const Tokens system = counting(100);
  const auto user = [&](TokenId first, int length = 400) {
    return branch(system, 100, length, first);
  };
  bench.turn(user(1000), user(1000, 460));
  EXPECT_TRUE(marks(bench, MarkKind::branch_point).empty());
  bench.turn(user(2000), user(2000, 460));
  EXPECT_EQ(marks(bench, MarkKind::branch_point), (std::vector<Position>{100}));
  for (TokenId i = 3; i < 20; i++) bench.turn(user(1000 * i), user(1000 * i, 460));
  EXPECT_EQ(bench.cache.stats(kA).hits, 18u);
  // All but one conversation's worth of memory goes: the system prompt is there for the next.
  ASSERT_TRUE(bench.give_up(bench.pool.used_bytes() - 30 * kPage));
  EXPECT_EQ(bench.turn(user(50000), user(50000, 460)).length, 100);
  EXPECT_TRUE(bench.is_right);
}

TEST(PromptMarks, APlaceBetweenBlocksIsABranchPointToo) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  bench.request(branch(counting(128), 128, 300, 1000));
  bench.request(branch(counting(128), 128, 300, 2000));
  EXPECT_EQ(marks(bench, MarkKind::branch_point), (std::vector<Position>{128}));
  bench.request(counting(100, 7000));  // beside it, at the root: nothing in common
  EXPECT_EQ(marks(bench, MarkKind::branch_point), (std::vector<Position>{128}));
}

TEST(PromptMarks, BranchPointsAndMarksAreBounded) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  bench.request(counting(64));
  for (int at = 1; at < 64; at++) bench.request(branch(counting(64), at, 64, 1000 * at));
  Session session = bench.open();
  bench.look_up(session, counting(65), 64);
  for (Position at = 1; at <= 64; at++)
    bench.cache.mark(session.path, counting(65), at, MarkKind::turn_end);
  bench.cache.check_invariants();  // has the bounds
  EXPECT_EQ(bench.cache.stats(kA).nodes, 64u);
}

// The conversation that has the branch point goes, the others keep it.
TEST(PromptMarks, ABranchPointOutlivesTheBranchThatMadeIt) {
  Bench bench(tiny_layout({kStandard, window(8)}), kPlenty);
  const auto entry = [](TokenId first) { return branch(counting(64), 40, 64, first); };
  for (TokenId i = 1; i <= 3; i++) bench.request(entry(1000 * i));
  for (const TokenId first : {1000, 3000}) EXPECT_EQ(bench.reach(entry(first)), 64);
  ASSERT_TRUE(bench.give_up(kPage));  // the second entry, which had the mark, is the oldest
  EXPECT_EQ(bench.reach(entry(2000)), 40);
  EXPECT_EQ(marks(bench, MarkKind::branch_point), (std::vector<Position>{40}));
}

// The same prompt again resumes one token before its end: there just behind a chunk's edge, or
// where the window begins in the page before, needs a page more than resuming at the end.
TEST(PromptMarks, TheSamePromptAgainHitsAtEveryEdge) {
  for (const LayerSpan& span : {chunk(128), window(65)}) {
    Bench bench(tiny_layout({kStandard, span}), kPlenty);
    bench.request(counting(256));
    const std::size_t held = bench.cache.stats(kA).bytes_by_group[1];
    ASSERT_EQ(held, 4 * kPage);
    ASSERT_TRUE(bench.give_up(2 * kPage));  // the loose ones
    EXPECT_EQ(bench.cache.match(kA, counting(256), 255).length, 255);
    EXPECT_EQ(bench.reach(branch(counting(256), 256, 300, 900)), 256);
  }
}

}  // namespace
}  // namespace reprise
