// The pool against a naive twin: references, zeroed pages, lowest index first, budget, extents.
#include "kv/page_pool.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "unit/kv/kv_test_support.h"

namespace reprise {
namespace {

using test::chunk;
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

// Random references, copies and drops; the twin counts references by page address.
TEST(PagePool, ModelTest) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const KvLayout layout = tiny_layout({kStandard, window(8), window(8), chunk(8)}, 8, 64, 64);
    const std::size_t unit = layout.groups[0].page_bytes();
    PagePool pool(layout, 60 * unit);
    std::vector<PageRef> references;
    std::map<std::pair<int, const std::uint8_t*>, int> twin;
    for (int step = 0; step < 4000; step++) {
      const bool shrinks = step % 1000 > 700;
      const std::int64_t action = random.below(shrinks ? 10 : 5);
      if (action < 2) {
        const int group = static_cast<int>(random.below(3));
        const std::size_t bytes = layout.groups[static_cast<std::size_t>(group)].page_bytes();
        const bool fits = bytes <= pool.available_bytes();
        std::optional<PageRef> page = pool.allocate(group);
        ASSERT_EQ(page.has_value(), fits);
        if (!page) continue;
        for (std::size_t i = 0; i < bytes; i += 509) ASSERT_EQ(page->data()[i], 0);
        std::memset(page->data(), 0xa5, bytes);
        ASSERT_EQ((twin[{group, page->data()}]++), 0);
        references.push_back(std::move(*page));
      } else if (!references.empty()) {
        const auto at =
            static_cast<std::size_t>(random.below(static_cast<std::int64_t>(references.size())));
        const std::pair<int, const std::uint8_t*> key{references[at].group(),
                                                      references[at].data()};
        if (action == 2) {
          references.push_back(references[at]);
          twin[key]++;
        } else {
          if (--twin[key] == 0) twin.erase(key);
          references.erase(references.begin() + static_cast<std::ptrdiff_t>(at));
        }
      }
      std::size_t bytes = 0;
      std::set<std::pair<int, std::uintptr_t>> extents;
      for (const auto& [key, count] : twin) {
        const std::size_t size = layout.groups[static_cast<std::size_t>(key.first)].page_bytes();
        bytes += size;
        const auto start = reinterpret_cast<std::uintptr_t>(key.second);
        for (auto e = start / kExtent; e <= (start + size - 1) / kExtent; e++)
          extents.insert({key.first, e});
      }
      ASSERT_EQ(pool.used_bytes(), bytes);
      ASSERT_EQ(pool.committed_bytes(), extents.size() * kExtent);
      for (const PageRef& page : references)
        ASSERT_EQ(page.is_shared(), (twin[{page.group(), page.data()}] > 1));
    }
  }
}

}  // namespace
}  // namespace reprise
