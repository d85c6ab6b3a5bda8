// The pool: references, zeroed pages, lowest slot first, budget, extents, and compaction: what it
// keeps, what it gives back, what it copies, and that the process holds what the pool says.
#include "kv/page_pool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "base/machine.h"
#include "support/limited_memory.h"
#include "unit/kv/kv_test_support.h"

namespace reprise {
namespace {

using test::kStandard;
using test::Random;
using test::tiny_layout;
using test::window;

constexpr std::size_t kExtent = std::size_t{2} << 20;

TEST(KvLayout, GroupsLayersByKindSizeAndShape) {
  const std::vector<std::optional<LayerKv>> layers = {
      LayerKv{window(8), 2, 32, 16}, LayerKv{kStandard, 2, 32, 16},
      LayerKv{window(8), 2, 32, 16}, std::nullopt,
      LayerKv{window(9), 2, 32, 16}, LayerKv{window(8), 1, 32, 16}};
  const KvLayout layout = make_kv_layout(layers, kernels::KvType::bf16);
  ASSERT_EQ(layout.groups.size(), 4u);
  EXPECT_EQ(layout.groups[0].layers, (std::vector<int>{0, 2}));
  EXPECT_EQ(layout.groups[1].layers, (std::vector<int>{1}));
  EXPECT_EQ(layout.layers[2].group, 0);
  EXPECT_EQ(layout.layers[2].index, 1);
  EXPECT_EQ(layout.layers[3].group, -1);
  EXPECT_EQ(layout.layers[4].group, 2);
  EXPECT_EQ(layout.groups[0].page_bytes(), 2u * 2u * 64u * (32u + 16u) * 2u);
  EXPECT_EQ(layout.groups[0].block_offset(1, 1), 3u * 64u * 48u * 2u);
}

TEST(KvLayout, SequenceBytesCountsWhatGroupsKeep) {
  const KvLayout layout = tiny_layout({kStandard, window(64)});
  const std::size_t page = layout.groups[0].page_bytes();
  EXPECT_EQ(layout.sequence_bytes(0), 0u);
  EXPECT_EQ(layout.sequence_bytes(1), 2 * page);
  EXPECT_EQ(layout.sequence_bytes(128), 2 * page + 1 * page);  // keeps [64, 128)
  EXPECT_EQ(layout.sequence_bytes(130), 3 * page + 2 * page);  // keeps [66, 130)
}

TEST(PagePool, PagesAreZeroWhenTakenAgain) {
  PagePool pool(tiny_layout({kStandard}), 1 << 20);
  const std::size_t bytes = pool.layout().groups[0].page_bytes();
  std::optional<PageRef> keeps_extent = pool.allocate(0);
  std::optional<PageRef> page = pool.allocate(0);
  std::memset(page->data(), 0xff, bytes);
  const std::uint8_t* address = page->data();
  page.reset();
  page = pool.allocate(0);
  EXPECT_EQ(page->data(), address);  // the lowest free one
  EXPECT_TRUE(std::all_of(address, address + bytes, [](std::uint8_t byte) { return byte == 0; }));
  EXPECT_EQ(page->written(), 0);
}

TEST(PagePool, BudgetIsSharedByGroupsAndExact) {
  const KvLayout layout = tiny_layout({kStandard, window(8), window(8)});  // pages of 1 and 2 units
  const std::size_t unit = layout.groups[0].page_bytes();
  PagePool pool(layout, 4 * unit);
  std::optional<PageRef> small = pool.allocate(0);
  std::optional<PageRef> large = pool.allocate(1);
  EXPECT_EQ(pool.available_bytes(), unit);
  EXPECT_FALSE(pool.allocate(1).has_value());
  EXPECT_TRUE(pool.allocate(0).has_value());  // and gone again
  EXPECT_EQ(pool.used_bytes(), 3 * unit);
  EXPECT_EQ(pool.live_pages(1), 1u);
}

TEST(PagePool, ExtentsAreGivenBack) {
  // Pages of 1.5 MiB straddle extents.
  PagePool pool(tiny_layout({kStandard}, 96, 64, 64), std::size_t{16} << 20);
  ASSERT_EQ(pool.layout().groups[0].page_bytes(), 3 * kExtent / 4);
  std::vector<PageRef> pages;
  for (int i = 0; i < 4; i++) pages.push_back(*pool.allocate(0));
  EXPECT_EQ(pool.committed_bytes(), 3 * kExtent);
  std::memset(pages[2].data(), 0xff, 3 * kExtent / 4);
  pages.erase(pages.begin() + 2);  // lies in extents 1 and 2, both still used
  EXPECT_EQ(pool.committed_bytes(), 3 * kExtent);
  pages.pop_back();  // extent 2 is free now
  EXPECT_EQ(pool.committed_bytes(), 2 * kExtent);
  const PageRef again = *pool.allocate(0);
  EXPECT_TRUE(std::all_of(again.data(), again.data() + 3 * kExtent / 4,
                          [](std::uint8_t byte) { return byte == 0; }));
}

// committed_bytes() once compact() has come to rest, as page_pool.h states it.
std::size_t committed_max(const PagePool& pool, std::size_t bytes, std::size_t extents = 2,
                          std::size_t extent_bytes = kExtent) {
  return bytes + bytes / PagePool::kSlackPart +
         extents * extent_bytes * pool.layout().groups.size();
}

std::vector<PageRef> take(PagePool& pool, int group, std::size_t count) {
  std::vector<PageRef> pages;
  for (std::size_t i = 0; i < count; i++) pages.push_back(*pool.allocate(group));
  return pages;
}

// Keeps every `stride`th page.
void thin_out(std::vector<PageRef>& pages, std::size_t stride) {
  std::vector<PageRef> kept;
  for (std::size_t i = stride - 1; i < pages.size(); i += stride) kept.push_back(pages[i]);
  pages = std::move(kept);
}

void fill(const PageRef& page, std::size_t bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = test::mix(seed + i);
    std::memcpy(page.data() + i, &word, 8);
  }
}

bool is_filled(const PageRef& page, std::size_t bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = test::mix(seed + i);
    if (std::memcmp(page.data() + i, &word, 8) != 0) return false;
  }
  return true;
}

TEST(PagePool, KeysNamePagesWhileTheyLive) {
  PagePool pool(tiny_layout({kStandard, window(8)}), 1 << 20);
  const std::vector<PageRef> pages = take(pool, 0, 3);
  const std::vector<PageRef> others = take(pool, 1, 3);
  std::set<std::uint64_t> keys;
  for (const PageRef& page : pages) keys.insert(page.key());
  for (const PageRef& page : others) keys.insert(page.key());
  EXPECT_EQ(keys.size(), 6u);
  const PageRef copy = pages[1];
  EXPECT_EQ(copy.key(), pages[1].key());
}

TEST(PagePool, CompactionKeepsWhatPagesAre) {
  PagePool pool(tiny_layout({kStandard, window(8), window(8)}), std::size_t{64} << 20);
  for (const int group : {0, 1}) {
    const std::size_t bytes = pool.layout().groups[static_cast<std::size_t>(group)].page_bytes();
    std::vector<PageRef> pages = take(pool, group, 4000);
    thin_out(pages, 10);
    std::vector<PageRef> copies;
    std::vector<std::uint64_t> keys;
    std::vector<const std::uint8_t*> addresses;
    for (std::size_t i = 0; i < pages.size(); i++) {
      fill(pages[i], bytes, i);
      pages[i].set_first(static_cast<int>(i % 60));
      pages[i].set_written(static_cast<int>(i % 60) + 2);
      pages[i].set_claimed(static_cast<int>(i % 60) + 4);
      if (i % 3 == 0) copies.push_back(pages[i]);
      keys.push_back(pages[i].key());
      addresses.push_back(pages[i].data());
    }
    const std::uint64_t generation = pool.generation();
    const std::size_t used = pool.used_bytes();
    EXPECT_GT(pool.committed_bytes(), committed_max(pool, used));
    EXPECT_GT(pool.compact(), 0u);
    EXPECT_NE(pool.generation(), generation);
    EXPECT_LE(pool.committed_bytes(), committed_max(pool, used));
    EXPECT_EQ(pool.used_bytes(), used);
    std::size_t moved = 0;
    for (std::size_t i = 0; i < pages.size(); i++) {
      ASSERT_TRUE(is_filled(pages[i], bytes, i)) << i;
      ASSERT_EQ(pages[i].first(), static_cast<int>(i % 60));
      ASSERT_EQ(pages[i].written(), static_cast<int>(i % 60) + 2);
      ASSERT_EQ(pages[i].claimed(), static_cast<int>(i % 60) + 4);
      ASSERT_EQ(pages[i].is_shared(), i % 3 == 0);
      ASSERT_EQ(pages[i].key(), keys[i]);
      moved += pages[i].data() != addresses[i] ? 1 : 0;
    }
    EXPECT_GT(moved, 0u);
    for (std::size_t i = 0; i < copies.size(); i++)
      ASSERT_EQ(copies[i].data(), pages[3 * i].data());
    EXPECT_EQ(pool.compact(), 0u);  // at rest
    for (int i = 0; i < 1000; i++) {
      const std::optional<PageRef> fresh = pool.allocate(group);
      ASSERT_TRUE(std::all_of(fresh->data(), fresh->data() + bytes,
                              [](std::uint8_t byte) { return byte == 0; }));
      fill(*fresh, bytes, 7);
    }
  }
}

TEST(PagePool, CompactionLeavesTheSlackAlone) {
  PagePool pool(tiny_layout({kStandard}), std::size_t{64} << 20);
  std::vector<PageRef> pages = take(pool, 0, 5 * 512);  // five extents
  std::vector<PageRef> kept;
  for (std::size_t i = 0; i < pages.size(); i++) {
    if (i % 2 == 0 || i > 2000) kept.push_back(pages[i]);
  }
  pages = std::move(kept);  // wastes 1000 pages, two extents are 1024
  const std::uint64_t generation = pool.generation();
  EXPECT_EQ(pool.compact(), 0u);
  EXPECT_EQ(pool.generation(), generation);
  pages.erase(pages.begin(), pages.begin() + 120);
  EXPECT_GT(pool.compact(), 0u);
  EXPECT_LE(pool.committed_bytes(), committed_max(pool, pool.used_bytes()));
}

TEST(PagePool, OneCallCopiesABoundedAmount) {
  constexpr std::size_t kCopy = std::size_t{256} << 10;
  PagePool pool(tiny_layout({kStandard}), std::size_t{256} << 20);
  std::vector<PageRef> pages = take(pool, 0, 20000);
  thin_out(pages, 4);
  const std::size_t at_rest = committed_max(pool, pool.used_bytes());
  std::size_t calls = 0;
  for (std::size_t before = pool.committed_bytes(); before > at_rest; calls++) {
    const std::size_t moved = pool.compact(kCopy);
    ASSERT_LE(moved, kCopy);  // exact for pages of 4 KiB
    ASSERT_GT(moved, 0u);
    ASSERT_LE(pool.committed_bytes(), before);
    // Moves into held extents give back what they copy, but for the extent that is being emptied.
    ASSERT_LE(pool.committed_bytes() + moved, before + kExtent);
    before = pool.committed_bytes();
  }
  EXPECT_GE(calls, 20u);
  EXPECT_EQ(pool.compact(kCopy), 0u);
}

// Nothing at the bottom, thin pages above, no gap at the top: the top must not be copied down into
// extents that would have to be taken anew.
TEST(PagePool, MovesGiveBackWhatTheyCopy) {
  PagePool pool(tiny_layout({kStandard}), std::size_t{48} << 20);
  std::vector<PageRef> pages = take(pool, 0, 12288);
  std::vector<PageRef> kept;
  for (std::size_t i = 4096; i < pages.size(); i++) {
    if (i % 16 == 0 || i >= 8192) kept.push_back(pages[i]);
  }
  pages = std::move(kept);
  for (int round = 0; round < 2; round++) {
    const std::size_t before = pool.committed_bytes();
    const std::size_t moved = pool.compact();
    EXPECT_GT(moved, 0u);
    EXPECT_LE(pool.committed_bytes() + moved, before + kExtent);
    EXPECT_LE(pool.committed_bytes(), committed_max(pool, pool.used_bytes()));
    thin_out(pages, 2);
  }
}

TEST(PagePool, MovesFillTheExtentThatANewPageOpened) {
  PagePool pool(tiny_layout({kStandard}), std::size_t{32} << 20);
  std::vector<PageRef> pages = take(pool, 0, 8192);
  const std::uint8_t* lowest = pages[0].data();
  pages.erase(pages.begin(), pages.begin() + 1024);
  thin_out(pages, 8);
  EXPECT_EQ(pool.compact(1), 4096u);
  EXPECT_EQ(pages.back().data(), lowest + 1024 * 4096);  // no extent is taken for it
  const PageRef fresh = *pool.allocate(0);
  EXPECT_EQ(fresh.data(), lowest);
  EXPECT_EQ(pool.compact(1), 4096u);
  EXPECT_EQ(pages[pages.size() - 2].data(), lowest + 4096);
}

TEST(PagePool, MovesOfLargePagesFillTheExtentThatTheLastOneOpened) {
  // Pages of 16 KiB in extents of 12 KiB: of each three, the first and last share with the second.
  PagePool pool(tiny_layout({kStandard}, 4), 12 * 16384,
                {.extent_bytes = 12288, .slack_extents = 0});
  std::vector<PageRef> pages = take(pool, 0, 12);
  const std::uint8_t* lowest = pages[0].data();
  for (const std::size_t slot : {0u, 1u, 4u}) pages[slot] = PageRef();
  EXPECT_EQ(pool.compact(1), 16384u);
  EXPECT_EQ(pages[11].data(), lowest + 16384);  // slot 0 alone would take two new extents
  EXPECT_EQ(pool.compact(1), 16384u);
  EXPECT_EQ(pages[10].data(), lowest);
}

TEST(PagePool, CompactionKeepsToTheBudgetWhateverItCopies) {
  PagePool pool(tiny_layout({kStandard, window(8)}), std::size_t{64} << 20);
  std::vector<PageRef> pages = take(pool, 0, 16384);  // all of it
  thin_out(pages, 16);
  EXPECT_EQ(pool.compact(0), 0u);  // much is held in vain, but within the budget
  EXPECT_EQ(pool.committed_bytes(), pool.budget_bytes());
  const std::size_t allocated = std::size_t{32} << 20;
  const std::vector<PageRef> others = take(pool, 1, allocated / 4096);
  EXPECT_EQ(pool.committed_bytes(), pool.budget_bytes() + allocated);
  const std::size_t moved = pool.compact(0);
  EXPECT_LE(pool.committed_bytes(), committed_max(pool, pool.budget_bytes()));
  EXPECT_LE(moved, allocated + 4 * kExtent);
  EXPECT_GT(moved, 0u);
}

TEST(PagePool, PagesLargerThanExtentsComeTogether) {
  // 19 blocks of 128 KiB: pages of 2.4 MiB, that straddle two or three extents.
  PagePool pool(tiny_layout({kStandard}, 19, 512, 512), std::size_t{240} << 20);
  const std::size_t bytes = pool.layout().groups[0].page_bytes();
  ASSERT_EQ(bytes, std::size_t{19} * 128 << 10);
  std::vector<PageRef> pages = take(pool, 0, 98);
  thin_out(pages, 2);
  for (std::size_t i = 0; i < pages.size(); i++) fill(pages[i], bytes, i);
  EXPECT_GT(pool.committed_bytes(), committed_max(pool, pool.used_bytes()));
  while (pool.compact(1) > 0) {
  }  // a page a call
  EXPECT_LE(pool.committed_bytes(), committed_max(pool, pool.used_bytes()));
  for (std::size_t i = 0; i < pages.size(); i++) ASSERT_TRUE(is_filled(pages[i], bytes, i)) << i;
}

TEST(PagePool, ABudgetThatCannotBeReservedIsAnError) {
  const KvLayout layout = tiny_layout({kStandard, window(8)}, 96, 64, 64);
  for (const std::size_t budget :
       {std::size_t{1} << 52, std::size_t{1'000'000'000'000'000'000}, SIZE_MAX - 1, SIZE_MAX}) {
    const Status status = PagePool::check(layout, budget);
    ASSERT_FALSE(status.has_value()) << budget;
    EXPECT_EQ(status.error().code, Errc::exhausted);
  }
  const Status refused = PagePool::check(layout, std::size_t{1} << 47);
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().message.contains("refused 14073")) << refused.error().message;
  EXPECT_TRUE(refused.error().message.contains(" 1 of 2")) << refused.error().message;
  const KvLayout small = tiny_layout({kStandard});
  const std::size_t most = UINT32_MAX * small.groups[0].page_bytes();
  const Status pages = PagePool::check(small, most);
  ASSERT_FALSE(pages.has_value());
  EXPECT_TRUE(pages.error().message.contains("4294967295 pages")) << pages.error().message;
}

TEST(PagePool, WhatACheckReservedIsGivenBack) {
  const KvLayout layout = tiny_layout({kStandard, window(8)}, 96, 64, 64);
  for (int i = 0; i < 200; i++) {  // 8 TiB each time, of the 128 that a process has
    ASSERT_TRUE(PagePool::check(layout, std::size_t{4} << 40).has_value()) << i;
  }
  for (const std::size_t budget : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 30}) {
    ASSERT_TRUE(PagePool::check(layout, budget).has_value());
    PagePool pool(layout, budget);  // no CHECK
  }
}

#if REPRISE_CAN_LIMIT_MEMORY
[[noreturn]] void check_beyond_the_limit() {
  const KvLayout layout = tiny_layout({kStandard, window(8)});
  testing::limit_memory(200 << 20);
  const Status one = PagePool::check(layout, std::size_t{150} << 20);
  const bool told = !one && one.error().message.contains(" 2 of 2") &&
                    one.error().message.contains(address_space_note());
  std::_Exit(told && PagePool::check(layout, std::size_t{80} << 20) ? 0 : 1);
}

TEST(PagePoolDeathTest, EveryGroupTakesTheWholeBudgetOfTheProcessesLimit) {
  EXPECT_EXIT(check_beyond_the_limit(), ::testing::ExitedWithCode(0), "");
}
#endif

// Bytes of [start, start + size) that are in memory, by the kernel's own account.
std::size_t resident_bytes(std::uint8_t* start, std::size_t size) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> flags(size / page);
  EXPECT_EQ(::mincore(start, size, flags.data()), 0);
  const auto resident =
      std::count_if(flags.begin(), flags.end(), [](unsigned char flag) { return (flag & 1) != 0; });
  return static_cast<std::size_t>(resident) * page;
}

// Law L6: what the process holds is what the ledger says, after churn too.
TEST(PagePool, ResidentMemoryAgreesWithTheLedger) {
  constexpr std::size_t kBudget = std::size_t{96} << 20;
  PagePool pool(tiny_layout({kStandard}, 3), kBudget);  // pages of 12 KiB straddle extents
  const std::size_t bytes = pool.layout().groups[0].page_bytes();
  const std::size_t range = (kBudget / bytes * bytes + kExtent - 1) / kExtent * kExtent;
  std::vector<PageRef> pages = take(pool, 0, kBudget / bytes);
  std::uint8_t* start = pages[0].data();  // the lowest slot
  for (const PageRef& page : pages) std::memset(page.data(), 0xa5, bytes);
  EXPECT_GE(resident_bytes(start, range), pool.used_bytes());
  Random random(5);
  for (const int keep : {30, 8, 50}) {
    for (std::size_t i = pages.size(); i-- > 0;) {
      if (!random.chance(keep)) pages.erase(pages.begin() + static_cast<std::ptrdiff_t>(i));
    }
    EXPECT_LE(resident_bytes(start, range), pool.committed_bytes());
    while (pool.compact(std::size_t{1} << 20) > 0)
      EXPECT_LE(resident_bytes(start, range), pool.committed_bytes());
    const std::size_t resident = resident_bytes(start, range);
    EXPECT_GE(resident, pool.used_bytes());  // every live page was written
    EXPECT_LE(resident, pool.committed_bytes());
    EXPECT_LE(pool.committed_bytes(), committed_max(pool, pool.used_bytes()));
    for (int i = 0; i < 2000; i++) {
      pages.push_back(*pool.allocate(0));
      std::memset(pages.back().data(), 0xa5, bytes);
    }
  }
  pages.clear();
  EXPECT_EQ(pool.committed_bytes(), 0u);
  EXPECT_EQ(resident_bytes(start, range), 0u);
}

}  // namespace
}  // namespace reprise
