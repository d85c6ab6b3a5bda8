// Conversations that branch: edits, regenerated replies, returns, forks side by side; and the
// lengths at which windows and chunks begin and end.
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
using test::Tokens;
using test::window;

constexpr std::size_t kPage = 4096;  // of one layer in the tiny layout
constexpr std::size_t kPlenty = 4000 * kPage;

TEST(PromptBranches, EveryLengthAroundWindowsAndChunksResumes) {
  for (const int length : {63, 64, 65, 69, 70, 71, 95, 96, 97, 139, 140, 141, 191, 192, 193, 288}) {
    Bench bench(tiny_layout({kStandard, window(70), chunk(96)}), kPlenty);
    const Tokens all = counting(length);
    bench.turn(counting(length - 20), all);
    EXPECT_EQ(bench.reach(all), length);
    for (const int at : {length, length - 1, length - 5, length - 20})
      EXPECT_EQ(
          bench.turn(branch(all, at, at + 30, 900 * at), branch(all, at, at + 40, 900 * at)).length,
          at);
    // Without any window but those of marks: still at each marked place.
    while (bench.cache.stats(kA).evictions_lru == 0) ASSERT_TRUE(bench.give_up(kPage));
    EXPECT_GE(bench.reach(all), length / 64 * 64);
    EXPECT_EQ(bench.request(branch(all, length - 20, length + 9, 7)).length, length - 20);
    EXPECT_TRUE(bench.is_right);
  }
}

TEST(PromptBranches, EditsRegenerationsAndReturnsAllHit) {
  Bench bench(tiny_layout({kStandard, window(40)}), kPlenty);
  for (int turn = 1; turn <= 5; turn++)
    EXPECT_EQ(bench.turn(counting(100 * turn - 40), counting(100 * turn)).length, 100 * (turn - 1));
  // The second message edited: its own branch from there, for two turns.
  const Tokens edited = branch(counting(500), 130, 400, 5000);
  EXPECT_EQ(bench.turn(branch(edited, 220, 220, 0), branch(edited, 300, 300, 0)).length, 130);
  EXPECT_EQ(bench.turn(branch(edited, 350, 350, 0), edited).length, 300);
  // Back to the first branch, as if nothing had been; its last reply again, twice.
  EXPECT_EQ(bench.turn(counting(540), counting(600)).length, 500);
  for (const TokenId first : {8000, 9000})
    EXPECT_EQ(bench.turn(counting(540), branch(counting(540), 540, 600, first)).length, 539);
  // And a turn after each of the three replies.
  EXPECT_EQ(bench.turn(counting(650), counting(660)).length, 600);
  for (const TokenId first : {8000, 9000}) {
    const Tokens reply = branch(counting(540), 540, 600, first);
    EXPECT_EQ(
        bench.turn(branch(reply, 600, 650, first + 70), branch(reply, 600, 660, first + 70)).length,
        600);
  }
  EXPECT_EQ(bench.turn(branch(edited, 400, 450, 70), branch(edited, 400, 460, 70)).length, 400);
  EXPECT_EQ(bench.cache.match(kB, edited, 399).miss, MissReason::no_candidate);
  EXPECT_TRUE(bench.is_right);
}

// Five requests resume at one place inside a block and go on in turn, each its own way.
TEST(PromptBranches, ForksSideBySide) {
  Bench bench(tiny_layout({kStandard, window(40), chunk(24)}), kPlenty);
  bench.turn(counting(80), counting(100));
  std::vector<Session> sessions;
  std::vector<Tokens> texts;
  for (TokenId i = 1; i <= 5; i++) {
    texts.push_back(branch(counting(100), 100, 260, 1000 * i));
    sessions.push_back(bench.open());
    EXPECT_EQ(bench.look_up(sessions.back(), texts.back(), 259).length, 100);
  }
  for (int length = 120; length <= 260; length += 20) {
    for (std::size_t i = 0; i < sessions.size(); i++) {
      Tokens part = texts[i];
      part.resize(static_cast<std::size_t>(length));
      ASSERT_TRUE(bench.go_on(sessions[i], part, length == 260));
      sessions[i].cache.drop_unneeded();
      bench.cache.check_invariants();
    }
    // What a path stands on stays, whatever is given up meanwhile.
    if (length == 180) {
      EXPECT_FALSE(bench.cache.make_room(bench.pool.budget_bytes()));
      bench.cache.check_invariants();
    }
  }
  for (std::size_t i = 0; i < sessions.size(); i++)
    EXPECT_TRUE(test::holds_identities(sessions[i].cache, test::identities(texts[i])));
  sessions.clear();
  for (const Tokens& text : texts) EXPECT_EQ(bench.request(text).length, 259);
  EXPECT_TRUE(bench.is_right);
}

}  // namespace
}  // namespace reprise
