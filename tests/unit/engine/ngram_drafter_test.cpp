// The drafter against a naive twin that looks at every earlier place, and its promises on memory.
#include "engine/ngram_drafter.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace reprise {
namespace {

using Tokens = std::vector<TokenId>;

// The newest kCandidates places behind the same last two tokens; of those the longest match.
Draft naive_draft(const Tokens& tokens, std::size_t most) {
  Draft draft;
  const std::size_t size = tokens.size();
  if (size < 3 || most == 0) return draft;
  std::size_t source = 0;
  int candidates = 0;
  for (std::size_t place = size - 1; place-- > 1 && candidates < NgramDrafter::kCandidates;) {
    if (tokens[place] != tokens[size - 1] || tokens[place - 1] != tokens[size - 2]) continue;
    candidates++;
    int matched = 0;
    for (std::size_t back = 0; back <= place && matched < NgramDrafter::kMatchMax; back++) {
      if (tokens[place - back] != tokens[size - 1 - back]) break;
      matched++;
    }
    if (matched > draft.matched) {
      draft.matched = matched;
      source = place + 1;
    }
  }
  if (draft.matched == 0) return draft;
  Tokens longer = tokens;
  for (std::size_t i = 0; i < most; i++) longer.push_back(longer[source + i]);
  draft.tokens.assign(longer.begin() + static_cast<std::ptrdiff_t>(size), longer.end());
  return draft;
}

TEST(NgramDrafter, EqualsItsNaiveTwinWhateverIsAppended) {
  std::size_t guesses = 0, silences = 0;
  for (std::uint32_t seed = 0; seed < 60; seed++) {
    std::mt19937 random(seed);
    const int alphabet = 2 + static_cast<int>(seed) * 3;
    NgramDrafter drafter;
    Tokens tokens;
    for (int call = 0; call < 120; call++) {
      const std::size_t count = random() % 5 == 0 ? random() % 40 : 1;
      for (std::size_t i = 0; i < count; i++) {
        const bool repeats = tokens.size() > 20 && random() % 3 != 0;
        tokens.push_back(repeats ? tokens[tokens.size() - 17]
                                 : static_cast<TokenId>(random() % alphabet));
      }
      const std::size_t most = random() % 12;
      const Draft draft = drafter.propose(tokens, most);
      const Draft expected = naive_draft(tokens, most);
      ASSERT_EQ(draft.tokens, expected.tokens) << "seed " << seed << " call " << call;
      ASSERT_EQ(draft.matched, expected.matched) << "seed " << seed << " call " << call;
      (draft.tokens.empty() ? silences : guesses)++;
    }
  }
  EXPECT_GT(guesses, 1000u);
  EXPECT_GT(silences, 100u);
}

TEST(NgramDrafter, PrefersTheLongestMatchThenTheNewest) {
  NgramDrafter drafter;
  // "1 2 3" was followed by 7, "9 2 3" by 8 and later by 6.
  const Tokens tokens = {1, 2, 3, 7, 9, 2, 3, 8, 9, 2, 3, 6, 0, 1, 2, 3};
  const Draft longest = drafter.propose(tokens, 2);
  EXPECT_EQ(longest.tokens, (Tokens{7, 9}));
  EXPECT_EQ(longest.matched, 3);
  Tokens longer = tokens;
  longer.insert(longer.end(), {9, 2, 3});
  EXPECT_EQ(drafter.propose(longer, 1).tokens, (Tokens{6}));
}

TEST(NgramDrafter, RepeatsAPeriodBeyondTheEnd) {
  NgramDrafter drafter;
  const Draft draft = drafter.propose(Tokens{5, 6, 7, 5, 6, 7, 5, 6}, 7);
  EXPECT_EQ(draft.tokens, (Tokens{7, 5, 6, 7, 5, 6, 7}));
  EXPECT_EQ(draft.matched, 5);
}

TEST(NgramDrafter, SaysNothingWhereNothingMatches) {
  NgramDrafter drafter;
  EXPECT_TRUE(drafter.propose({}, 4).tokens.empty());
  EXPECT_TRUE(drafter.propose(Tokens{1, 1}, 4).tokens.empty());
  EXPECT_TRUE(drafter.propose(Tokens{1, 1, 2, 3}, 4).tokens.empty());
  EXPECT_TRUE(drafter.propose(Tokens{1, 1, 2, 3, 4, 3}, 4).tokens.empty());
}

TEST(NgramDrafter, MemoryIsBoundedByTheTokens) {
  std::mt19937 random(1);
  NgramDrafter drafter;
  Tokens tokens;
  for (int i = 0; i < 20'000; i++) {
    tokens.push_back(static_cast<TokenId>(random() % 100'000));
    drafter.propose(tokens, 4);
    ASSERT_LE(drafter.memory_bytes(), 40 * tokens.size() + 1024);
  }
}

}  // namespace
}  // namespace reprise
