// Sequences on shared pages: law L4 by content, truncation and dropping by arithmetic, pages that
// compaction moved, and a model test in which every sequence's held positions must read back as its
// own tokens.
#include "kv/sequence_cache.h"

#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/rounds.h"
#include "unit/kv/kv_test_support.h"

namespace reprise {
namespace {

using test::chunk;
using test::extend;
using test::holds_identities;
using test::identities;
using test::kStandard;
using test::Random;
using test::tiny_layout;
using test::window;

std::vector<std::uint64_t> chain_of(int length, TokenId base = 0) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < tokens.size(); i++) tokens[i] = base + static_cast<TokenId>(i);
  return identities(tokens);
}

TEST(SequenceCache, ReadsBackWhatWasWritten) {
  PagePool pool(tiny_layout({kStandard, window(8), chunk(16)}, 2, 32, 16), 1 << 24);
  SequenceCache cache(pool);
  const auto chain = chain_of(200);
  for (const Position length : {1, 5, 63, 64, 65, 130, 200})
    ASSERT_TRUE(extend(cache, chain, length));
  EXPECT_TRUE(holds_identities(cache, chain));
  EXPECT_EQ(cache.held(0), (PositionRange{0, 200}));
  cache.drop_unneeded();
  EXPECT_EQ(cache.held(0), (PositionRange{0, 200}));
  EXPECT_EQ(cache.held(1), (PositionRange{192, 200}));  // kept [192, 200)
  EXPECT_EQ(cache.held(2), (PositionRange{128, 200}));  // kept [184, 200)
  EXPECT_EQ(cache.pages(1)[0], nullptr);
  EXPECT_TRUE(holds_identities(cache, chain));
}

// What was reserved and did not become part of the sequence: pages go, claims too.
TEST(SequenceCache, GivesBackWhatItReservedInVain) {
  PagePool pool(tiny_layout({kStandard, window(8)}), 1 << 20);
  const auto chain = chain_of(140);
  SequenceCache first(pool);
  ASSERT_TRUE(extend(first, chain, 60));
  SequenceCache second = first.fork();
  const std::size_t used = pool.used_bytes();
  ASSERT_TRUE(first.reserve(130));
  EXPECT_GT(pool.used_bytes(), used);
  EXPECT_GT(second.bytes_to_reserve(61), 0u);  // the place is claimed
  first.give_back();
  EXPECT_EQ(pool.used_bytes(), used);
  EXPECT_EQ(first.page_count(0), 1);
  EXPECT_EQ(second.bytes_to_reserve(61), 0u);
  EXPECT_EQ(first.bytes_to_reserve(61), 0u);
  ASSERT_TRUE(extend(second, chain, 62));
  EXPECT_GT(first.bytes_to_reserve(61), 0u);
  ASSERT_TRUE(extend(first, chain, 63));
  ASSERT_TRUE(first.reserve(130));
  first.commit(128);  // the page ends with the sequence
  first.give_back();
  EXPECT_EQ(first.page_count(1), 2);
  EXPECT_TRUE(holds_identities(second, chain));
  first.give_back();  // nothing is left to give
  ASSERT_TRUE(extend(first, chain, 140));
}

TEST(SequenceCache, FirstWriterAppendsSecondCopies) {
  PagePool pool(tiny_layout({kStandard}), 1 << 20);
  const std::size_t page = pool.layout().groups[0].page_bytes();
  auto chain = chain_of(20);
  auto other = chain_of(10);
  for (std::uint64_t extra = 1; extra <= 10; extra++) other.push_back(test::mix(extra));
  SequenceCache first(pool);
  ASSERT_TRUE(extend(first, chain, 10));
  SequenceCache second = first.fork();
  EXPECT_EQ(pool.used_bytes(), page);
  EXPECT_EQ(first.bytes_to_reserve(20), 0u);
  ASSERT_TRUE(extend(first, chain, 20));
  EXPECT_EQ(pool.used_bytes(), page);
  EXPECT_EQ(second.bytes_to_reserve(20), page);
  ASSERT_TRUE(extend(second, other, 20));
  EXPECT_EQ(pool.used_bytes(), 2 * page);
  EXPECT_TRUE(holds_identities(first, chain));
  EXPECT_TRUE(holds_identities(second, other));
}

TEST(SequenceCache, TwoThatReserveTheSamePlaceDoNotMeet) {
  PagePool pool(tiny_layout({kStandard}), 1 << 20);
  const auto chain = chain_of(20);
  auto other = chain;
  for (std::size_t i = 10; i < 20; i++) other[i] = test::mix(i);
  SequenceCache first(pool);
  ASSERT_TRUE(extend(first, chain, 10));
  SequenceCache second = first.fork();
  ASSERT_TRUE(first.reserve(20));  // both are in one step's plan
  ASSERT_TRUE(second.reserve(20));
  ASSERT_TRUE(first.reserve(20));
  ASSERT_TRUE(extend(first, chain, 20));
  ASSERT_TRUE(extend(second, other, 20));
  EXPECT_TRUE(holds_identities(first, chain));
  EXPECT_TRUE(holds_identities(second, other));
}

TEST(SequenceCache, ReserveIsAllOrNothing) {
  PagePool pool(tiny_layout({kStandard, window(8)}), 7 * 4096);
  ASSERT_EQ(pool.layout().groups[0].page_bytes(), 4096u);
  SequenceCache cache(pool);
  ASSERT_TRUE(extend(cache, chain_of(64), 64));
  EXPECT_EQ(cache.bytes_to_reserve(256), 6u * 4096);
  EXPECT_FALSE(cache.reserve(256));
  EXPECT_EQ(pool.used_bytes(), 2u * 4096);
  EXPECT_EQ(cache.page_count(0), 1);
  EXPECT_TRUE(cache.reserve(192));
  EXPECT_EQ(pool.available_bytes(), 4096u);
}

TEST(SequenceCache, TruncatesByTheLaw) {
  PagePool pool(tiny_layout({kStandard, window(70)}), 1 << 22);
  SequenceCache cache(pool);
  const auto chain = chain_of(400);
  ASSERT_TRUE(extend(cache, chain, 400));
  cache.drop_unneeded();
  EXPECT_EQ(cache.held(1).begin, 320);
  EXPECT_TRUE(cache.can_truncate(389));  // needs [320, 389)
  EXPECT_FALSE(cache.can_truncate(388));
  EXPECT_TRUE(cache.can_truncate(0));
  cache.truncate(390);
  auto other = chain;
  for (std::size_t i = 390; i < 400; i++) other[i] = test::mix(i);
  ASSERT_TRUE(extend(cache, other, 400));
  EXPECT_TRUE(holds_identities(cache, other));
}

TEST(SequenceCache, ChunkEdgeWithoutPagesGoesOnWithoutPretending) {
  PagePool pool(tiny_layout({chunk(32)}), 1 << 20);
  SequenceCache cache(pool);
  cache.adopt(96, {{PageRef(), PageRef()}});  // 96 is an edge: nothing needed
  EXPECT_EQ(cache.held(0), (PositionRange{96, 96}));
  const auto chain = chain_of(128);
  ASSERT_TRUE(extend(cache, chain, 120));
  EXPECT_EQ(cache.held(0), (PositionRange{96, 120}));  // not [64, 120)
  EXPECT_TRUE(holds_identities(cache, chain));
  EXPECT_FALSE(cache.can_truncate(90));
  cache.truncate(96);
  ASSERT_TRUE(extend(cache, chain, 128));
  EXPECT_TRUE(holds_identities(cache, chain));
}

// Starts and content of all that the sequence holds.
void expect_in_place(const SequenceCache& cache, std::span<const std::uint64_t> chain) {
  for (int group = 0; group < static_cast<int>(cache.layout().groups.size()); group++) {
    for (Position i = 0; i < cache.page_count(group); i++) {
      const PageRef& page = cache.page(group, i);
      ASSERT_EQ(cache.pages(group)[i], page ? page.data() : nullptr);
    }
  }
  ASSERT_TRUE(holds_identities(cache, chain));
}

// Pages of 4 KiB in extents of 8 KiB, and no slack: every gap is closed.
constexpr PagePoolOptions kSmallExtents{.extent_bytes = 8192, .slack_extents = 0};

TEST(SequenceCache, PointersAreRightAfterCompaction) {
  PagePool pool(tiny_layout({kStandard, window(70)}), 1 << 22, kSmallExtents);
  std::vector<SequenceCache> caches;
  std::vector<std::vector<std::uint64_t>> chains;
  for (int i = 0; i < 6; i++) {
    caches.emplace_back(pool);
    chains.push_back(chain_of(1000, 1000 * i));
  }
  for (Position length = 50; length <= 600; length += 50) {
    for (std::size_t i = 0; i < 6; i++) {
      ASSERT_TRUE(extend(caches[i], chains[i], length));
      caches[i].drop_unneeded();
    }
  }
  for (const std::ptrdiff_t gone : {4, 2, 0}) {
    caches.erase(caches.begin() + gone);
    chains.erase(chains.begin() + gone);
  }
  const std::size_t used = pool.used_bytes();
  const std::uint8_t* before = caches[2].page_at(0, 599);
  ASSERT_GT(pool.compact(), 0u);
  EXPECT_NE(caches[2].page_at(0, 599), before);
  EXPECT_EQ(pool.used_bytes(), used);
  for (std::size_t i = 0; i < 3; i++) {
    ASSERT_TRUE(holds_identities(caches[i], chains[i]));  // before it reserves, too
    ASSERT_TRUE(caches[i].reserve(i == 0 ? 600 : 601));
    expect_in_place(caches[i], chains[i]);
    ASSERT_TRUE(extend(caches[i], chains[i], 1000));
    expect_in_place(caches[i], chains[i]);
  }
}

TEST(SequenceCache, ForkTruncateAdoptAndReplaceAfterCompaction) {
  PagePool pool(tiny_layout({kStandard, window(70)}), 1 << 22, kSmallExtents);
  auto chain = chain_of(400);
  auto other = chain;
  for (std::size_t i = 290; i < 400; i++) other[i] = test::mix(i);
  SequenceCache first(pool);
  {
    SequenceCache gone(pool);  // leaves gaps below and between
    for (Position length = 30; length <= 300; length += 30) {
      ASSERT_TRUE(extend(gone, chain, length));
      ASSERT_TRUE(extend(first, chain, length));
    }
  }
  SequenceCache early = first.fork();
  SequenceCache adopted(pool);
  ASSERT_GT(pool.compact(), 0u);
  SequenceCache late = first.fork();
  late.truncate(290);
  ASSERT_TRUE(extend(late, other, 400));  // a copy of a page that moved
  ASSERT_TRUE(extend(early, chain, 350));
  first.drop_unneeded();
  std::vector<std::vector<PageRef>> pages(2);
  for (int group = 0; group < 2; group++) {
    for (Position i = 0; i < first.page_count(group); i++)
      pages[static_cast<std::size_t>(group)].push_back(first.page(group, i));
  }
  adopted.adopt(300, std::move(pages));
  expect_in_place(adopted, chain);
  ASSERT_TRUE(first.reserve(300));
  first.replace_page(0, 4, late.page(0, 4));  // 290 lies in page 4: late copied it
  ASSERT_TRUE(first.reserve(301));
  expect_in_place(early, chain);
  expect_in_place(late, other);
  EXPECT_NE(first.page(0, 4).key(), early.page(0, 4).key());
}

TEST(SequenceCache, StaleStartsAreRefused) {
  PagePool pool(tiny_layout({kStandard}), 1 << 22, kSmallExtents);
  std::optional<PageRef> gap = pool.allocate(0);
  SequenceCache cache(pool);
  ASSERT_TRUE(extend(cache, chain_of(200), 200));
  gap.reset();
  ASSERT_NE(cache.pages(0), nullptr);
  ASSERT_GT(pool.compact(), 0u);
  EXPECT_DEATH(cache.pages(0), "generation");
  ASSERT_TRUE(cache.reserve(200));  // nothing to add
  EXPECT_EQ(cache.pages(0)[3], cache.page(0, 3).data());
}

struct Twin {
  SequenceCache cache;
  std::vector<std::uint64_t> chain;
};

// Every page that some sequence refers to is counted once by the pool.
void check_ledger(const PagePool& pool, const std::vector<Twin>& twins) {
  std::set<std::pair<int, const std::uint8_t*>> pages;
  std::size_t bytes = 0;
  for (const Twin& twin : twins) {
    for (int group = 0; group < static_cast<int>(pool.layout().groups.size()); group++) {
      for (Position i = 0; i < twin.cache.page_count(group); i++) {
        const PageRef& page = twin.cache.page(group, i);
        ASSERT_EQ(twin.cache.pages(group)[i], page ? page.data() : nullptr);
        if (page && pages.insert({group, page.data()}).second)
          bytes += pool.layout().groups[static_cast<std::size_t>(group)].page_bytes();
      }
    }
  }
  ASSERT_EQ(pool.used_bytes(), bytes);
}

// Reserves for two sequences before either is written, as one step's plan does.
void extend_together(Twin& a, Twin& b, Random& random, std::uint64_t& fresh) {
  for (Twin* twin : {&a, &b}) {
    const Position target = twin->cache.offset() + 1 + random.below(70);
    if (!twin->cache.reserve(target)) continue;
    while (static_cast<Position>(twin->chain.size()) < target) twin->chain.push_back(fresh++);
  }
  for (Twin* twin : {&a, &b}) {
    const auto target = static_cast<Position>(twin->chain.size());
    for (Position p = twin->cache.offset(); p < target; p++)
      test::write_position(twin->cache, p, twin->chain[static_cast<std::size_t>(p)]);
  }
  for (Twin* twin : {&a, &b}) twin->cache.commit(static_cast<Position>(twin->chain.size()));
}

void step(std::vector<Twin>& twins, PagePool& pool, Random& random, std::uint64_t& fresh) {
  const auto pick = [&] {
    return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(twins.size())));
  };
  if (random.chance(15)) {
    pool.compact(random.chance(50) ? 1 : std::size_t{64} << 20);
    for (Twin& twin : twins) ASSERT_TRUE(twin.cache.reserve(twin.cache.offset()));
    return;
  }
  if (twins.empty() || (twins.size() < 6 && random.chance(10))) {
    twins.push_back({SequenceCache(pool), {}});
    return;
  }
  Twin& twin = twins[pick()];
  const std::int64_t action = random.below(12);
  if (action < 4) {
    const Position target = twin.cache.offset() + 1 + random.below(90);
    const std::size_t bytes = twin.cache.bytes_to_reserve(target);
    const std::size_t used = pool.used_bytes();
    const bool fits = bytes <= pool.available_bytes();
    ASSERT_EQ(twin.cache.reserve(target), fits);
    ASSERT_EQ(pool.used_bytes(), used + (fits ? bytes : 0));
    if (!fits) return;
    ASSERT_EQ(twin.cache.bytes_to_reserve(target), 0u);
    const Position written =
        random.chance(20) ? twin.cache.offset() + (target - twin.cache.offset()) / 2 : target;
    while (static_cast<Position>(twin.chain.size()) < target) twin.chain.push_back(fresh++);
    for (Position p = twin.cache.offset(); p < target; p++)  // scratch beyond the commit too
      test::write_position(twin.cache, p, twin.chain[static_cast<std::size_t>(p)]);
    twin.cache.commit(written);
    twin.chain.resize(static_cast<std::size_t>(written));
  } else if (action < 6 && twins.size() < 6) {
    Twin copy{twin.cache.fork(), twin.chain};
    twins.push_back(std::move(copy));
  } else if (action < 7) {
    twin.cache.drop_unneeded();
  } else if (action < 9 && twin.cache.offset() > 0) {
    const Position target =
        twin.cache.offset() - random.below(std::min<Position>(twin.cache.offset(), 40));
    if (!twin.cache.can_truncate(target)) return;
    twin.cache.truncate(target);
    twin.chain.resize(static_cast<std::size_t>(target));
  } else if (action < 10 && twins.size() >= 2) {
    const std::size_t a = pick();
    const std::size_t b = pick();
    if (a != b) extend_together(twins[a], twins[b], random, fresh);
  } else {
    twins.erase(twins.begin() + static_cast<std::ptrdiff_t>(pick()));
  }
}

TEST(SequenceCache, ModelTest) {
  for (const std::uint64_t seed : {11u, 12u, 13u, 14u}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Position size = 1 + random.below(100);
    PagePool pool(tiny_layout({kStandard, window(size), chunk(1 + random.below(100))}), 60 * 4096,
                  kSmallExtents);
    std::vector<Twin> twins;
    std::uint64_t fresh = 1;
    const int steps = rounds(1700);
    for (int i = 0; i < steps; i++) {
      step(twins, pool, random, fresh);
      if (HasFatalFailure()) return;
      check_ledger(pool, twins);
      if (HasFatalFailure()) return;
      for (const Twin& twin : twins) {
        ASSERT_EQ(twin.cache.offset(), static_cast<Position>(twin.chain.size()));
        ASSERT_TRUE(holds_identities(twin.cache, twin.chain)) << "step " << i;
        for (std::size_t g = 0; g < pool.layout().groups.size(); g++)
          ASSERT_TRUE(twin.cache.held(static_cast<int>(g))
                          .contains(pool.layout().groups[g].span.needed(twin.cache.offset())));
      }
    }
  }
}

}  // namespace
}  // namespace reprise
