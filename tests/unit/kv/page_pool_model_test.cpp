// The page pool against a naive twin (what each page is, and in which slot it lies): random
// allocations, copies, drops, writes and compactions, invariants after each; and all short
// sequences of them on three pages. REPRISE_MODEL_OPERATIONS says how many random operations,
// 100000 by default.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kv/page_pool.h"
#include "unit/kv/kv_test_support.h"

namespace reprise {
namespace {

using test::kStandard;
using test::Random;
using test::tiny_layout;
using test::window;

std::size_t model_operations() {
  const char* chosen = std::getenv("REPRISE_MODEL_OPERATIONS");
  return chosen != nullptr ? std::stoull(chosen) : 100000;
}

struct TwinPage {
  int group = 0;
  int references = 0;
  std::uint64_t seed = 0;  // of its content; 0: all zero
  int first = 0, written = 0, claimed = 0;
};

// Which page lies where, by the rules of page_pool.h and page_range.h, with no data structure.
class TwinSlots {
 public:
  TwinSlots(const KvLayout& layout, std::size_t budget_bytes, PagePoolOptions options)
      : options_(options), budget_bytes_(budget_bytes) {
    for (const SpanGroup& group : layout.groups)
      groups_.push_back({group.page_bytes(), std::vector<Key>(budget_bytes / group.page_bytes())});
  }

  void take(int group, std::uint64_t key) {
    std::vector<Key>& slots = groups_[static_cast<std::size_t>(group)].slots;
    *std::find(slots.begin(), slots.end(), std::nullopt) = key;
  }
  void give_back(int group, std::uint64_t key) {
    std::vector<Key>& slots = groups_[static_cast<std::size_t>(group)].slots;
    *std::find(slots.begin(), slots.end(), Key(key)) = std::nullopt;
  }
  std::size_t slot(int group, std::uint64_t key) const {
    const std::vector<Key>& slots = groups_[static_cast<std::size_t>(group)].slots;
    return static_cast<std::size_t>(std::find(slots.begin(), slots.end(), Key(key)) -
                                    slots.begin());
  }

  std::size_t compact(std::size_t copy_bytes) {
    const std::size_t whole = committed_max(budget_bytes_, groups_.size());
    std::size_t moved = 0;
    for (Group& group : groups_) {
      const std::size_t live =
          group.slots.size() - static_cast<std::size_t>(std::count(
                                   group.slots.begin(), group.slots.end(), std::nullopt));
      while (committed(group) > committed_max(live * group.page_bytes, 1) &&
             (moved < copy_bytes || committed() > whole) && move_one(group)) {
        moved += group.page_bytes;
      }
    }
    return moved;
  }

  std::size_t committed() const {
    std::size_t bytes = 0;
    for (const Group& group : groups_) bytes += committed(group);
    return bytes;
  }

 private:
  using Key = std::optional<std::uint64_t>;
  struct Group {
    std::size_t page_bytes = 0;
    std::vector<Key> slots;
  };

  std::size_t committed_max(std::size_t bytes, std::size_t groups) const {
    return bytes + bytes / PagePool::kSlackPart +
           options_.slack_extents * options_.extent_bytes * groups;
  }

  std::size_t committed(const Group& group) const {
    std::size_t extents = 0;
    std::size_t counted_end = 0;  // extents ascend with slots
    for (std::size_t slot = 0; slot < group.slots.size(); slot++) {
      if (!group.slots[slot]) continue;
      const std::size_t begin = slot * group.page_bytes / options_.extent_bytes;
      const std::size_t end = ((slot + 1) * group.page_bytes - 1) / options_.extent_bytes + 1;
      extents += end - std::max(begin, counted_end);
      counted_end = end;
    }
    return extents * options_.extent_bytes;
  }

  bool move_one(Group& group) const {
    std::vector<Key>& slots = group.slots;
    std::size_t from = slots.size() - 1;
    while (!slots[from]) from--;
    const std::size_t before = committed(group);
    std::optional<std::size_t> lowest, chosen;
    for (std::size_t to = 0; to < from && !chosen; to++) {
      if (slots[to]) continue;
      if (!lowest) lowest = to;
      slots[to] = slots[from];
      if (committed(group) - before <= group.page_bytes) chosen = to;
      slots[to] = std::nullopt;
    }
    if (!chosen) chosen = lowest;
    if (!chosen) return false;
    std::swap(slots[*chosen], slots[from]);
    return true;
  }

  PagePoolOptions options_;
  std::size_t budget_bytes_;
  std::vector<Group> groups_;
};

// A pool, references to its pages, and the twin.
class PoolModel {
 public:
  PoolModel(const KvLayout& layout, std::size_t budget_bytes, PagePoolOptions options)
      : options_(options),
        pool_(layout, budget_bytes, options),
        slots_(layout, budget_bytes, options),
        starts_(layout.groups.size()) {}

  std::size_t references() const { return references_.size(); }

  void allocate(int group) {
    const std::size_t bytes = page_bytes(group);
    const bool fits = bytes <= pool_.budget_bytes() - live_bytes();
    std::optional<PageRef> page = pool_.allocate(group);
    ASSERT_EQ(page.has_value(), fits);
    if (!page) return;
    grown_bytes_ += bytes;
    ASSERT_TRUE(twin_.try_emplace(page->key(), TwinPage{.group = group, .references = 1}).second);
    slots_.take(group, page->key());
    const std::uint8_t*& start = starts_[static_cast<std::size_t>(group)];
    if (start == nullptr) start = page->data();  // the first one lies lowest
    references_.push_back(std::move(*page));
    check_page(references_.back());
  }

  void copy(std::size_t at) {
    twin_.at(references_[at].key()).references++;
    references_.push_back(references_[at]);
  }

  void drop(std::size_t at) {
    const auto page = twin_.find(references_[at].key());
    if (--page->second.references == 0) {
      slots_.give_back(page->second.group, page->first);
      twin_.erase(page);
    }
    references_.erase(references_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void write(std::size_t at) {
    PageRef& page = references_[at];
    TwinPage& twin = twin_.at(page.key());
    twin.seed = test::mix(++writes_);
    for (std::size_t i = 0; i < page_bytes(twin.group); i += 8) {
      const std::uint64_t word = twin.seed + i;
      std::memcpy(page.data() + i, &word, 8);
    }
    if (twin.written == 0) page.set_first(twin.first = static_cast<int>(writes_ % 3));
    page.set_written(twin.written = std::min(64, std::max(twin.written, twin.first) + 5));
    page.set_claimed(twin.claimed = std::min(64, twin.written + 9));
  }

  void compact(std::size_t copy_bytes) {
    const std::size_t before = pool_.committed_bytes();
    const std::uint64_t generation = pool_.generation();
    const std::size_t moved = pool_.compact(copy_bytes);
    moved_bytes_ += moved;
    ASSERT_EQ(moved, slots_.compact(copy_bytes));
    ASSERT_EQ(pool_.generation() != generation, moved > 0);
    const std::size_t whole = committed_max(pool_.budget_bytes());
    ASSERT_LE(pool_.committed_bytes(), whole);
    ASSERT_LE(pool_.committed_bytes(), before + 2 * options_.extent_bytes * groups());
    if (moved == 0 && copy_bytes > 0) {
      ASSERT_LE(pool_.committed_bytes(), committed_max(live_bytes()));
    }
    held_bytes_ = pool_.committed_bytes();
    grown_bytes_ = 0;
    for (const PageRef& page : references_) check_page(page);
  }

  void check() const {
    std::vector<std::size_t> live(groups());
    for (const auto& [key, page] : twin_) live[static_cast<std::size_t>(page.group)]++;
    for (std::size_t group = 0; group < live.size(); group++)
      ASSERT_EQ(pool_.live_pages(static_cast<int>(group)), live[group]);
    ASSERT_EQ(pool_.used_bytes(), live_bytes());
    ASSERT_EQ(pool_.committed_bytes(), slots_.committed());
    ASSERT_LE(pool_.committed_bytes(),
              held_bytes_ + grown_bytes_ + options_.extent_bytes * groups());
  }

  void check_page(const PageRef& page) const {
    const TwinPage& twin = twin_.at(page.key());
    ASSERT_EQ(page.group(), twin.group);
    ASSERT_EQ(page.data(), starts_[static_cast<std::size_t>(twin.group)] +
                               slots_.slot(twin.group, page.key()) * page_bytes(twin.group));
    ASSERT_EQ(page.is_shared(), twin.references > 1);
    ASSERT_EQ(page.first(), twin.first);
    ASSERT_EQ(page.written(), twin.written);
    ASSERT_EQ(page.claimed(), twin.claimed);
    for (std::size_t i = 0; i < page_bytes(twin.group); i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, page.data() + i, 8);
      ASSERT_EQ(word, twin.seed == 0 ? 0 : twin.seed + i);
    }
  }
  void check_page(std::size_t at) const { check_page(references_[at]); }
  std::size_t moved_bytes() const { return moved_bytes_; }

 private:
  std::size_t groups() const { return pool_.layout().groups.size(); }
  std::size_t page_bytes(int group) const {
    return pool_.layout().groups[static_cast<std::size_t>(group)].page_bytes();
  }
  std::size_t live_bytes() const {
    std::size_t bytes = 0;
    for (const auto& [key, page] : twin_) bytes += page_bytes(page.group);
    return bytes;
  }
  // Pages without a gap end in a part of an extent: without slack it is one a group.
  std::size_t committed_max(std::size_t bytes) const {
    const std::size_t extents = std::max<std::size_t>(options_.slack_extents, 1);
    return bytes + bytes / PagePool::kSlackPart + extents * options_.extent_bytes * groups();
  }

  PagePoolOptions options_;
  PagePool pool_;
  std::vector<PageRef> references_;
  std::map<std::uint64_t, TwinPage> twin_;
  TwinSlots slots_;
  std::vector<const std::uint8_t*> starts_;  // of slot 0, by group
  std::uint64_t writes_ = 0;
  std::size_t held_bytes_ = 0;   // committed after the last compaction
  std::size_t grown_bytes_ = 0;  // allocated since
  std::size_t moved_bytes_ = 0;
};

constexpr int kGroups = 4;

void random_operation(PoolModel& model, Random& random, bool shrinks) {
  const std::int64_t action = random.below(100);
  const auto pick = [&] {
    return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(model.references())));
  };
  if (action < 6) {
    const std::size_t copy_bytes[] = {0, 1, 20000, std::size_t{64} << 20};
    model.compact(copy_bytes[random.below(4)]);
  } else if (model.references() == 0 || action < (shrinks ? 20 : 45)) {
    model.allocate(static_cast<int>(random.below(kGroups)));
  } else if (action < (shrinks ? 25 : 55)) {
    model.copy(pick());
  } else if (action < (shrinks ? 90 : 80)) {
    model.drop(pick());
  } else {
    model.write(pick());
  }
  if (!testing::Test::HasFatalFailure() && model.references() > 0) model.check_page(pick());
}

TEST(PagePoolModel, RandomOperationsAgreeWithTheTwin) {
  struct Case {
    PagePoolOptions options;
    std::size_t budget_units;
  };
  // Pages of 4, 8, 12 and 16 KiB: smaller than extents, larger, and no multiple of them.
  const Case cases[] = {
      {{8192, 2}, 90}, {{12288, 0}, 60}, {{12288, 1}, 120}, {{32768, 1}, 160}, {{65536, 2}, 250}};
  std::vector<LayerSpan> spans;
  for (int group = 0; group < kGroups; group++)
    spans.insert(spans.end(), static_cast<std::size_t>(group) + 1, window(8 + group));
  const KvLayout layout = tiny_layout(spans);
  std::uint64_t seed = 1;
  for (const Case& chosen : cases) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed++);
    PoolModel model(layout, chosen.budget_units * 4096, chosen.options);
    const std::size_t operations = model_operations() / std::size(cases);
    const std::size_t turn = 20 * chosen.budget_units;
    for (std::size_t i = 0; i < operations; i++) {
      random_operation(model, random, i % turn > turn / 2);
      if (HasFatalFailure()) FAIL() << "operation " << i;
      model.check();
      if (HasFatalFailure()) FAIL() << "operation " << i;
    }
    EXPECT_GT(model.moved_bytes(), 0u);
  }
}

// The operations that can follow: allocate, compact, and copy, drop or write each reference.
std::size_t choices(const PoolModel& model) {
  return 2 + 3 * model.references();
}

void apply(PoolModel& model, std::size_t choice) {
  if (choice == 0) return model.allocate(0);
  if (choice == 1) return model.compact(std::size_t{64} << 20);
  const std::size_t at = (choice - 2) / 3;
  if (choice % 3 == 2) return model.copy(at);
  if (choice % 3 == 0) return model.drop(at);
  return model.write(at);
}

// Runs every sequence of `depth` operations, each on a pool of its own, like an odometer.
TEST(PagePoolModel, AllShortSequencesOnThreePages) {
  constexpr std::size_t kDepth = 6;
  const KvLayout layout = tiny_layout({kStandard, kStandard, kStandard});  // 12 KiB: 1.5 extents
  std::vector<std::size_t> path(kDepth, 0);
  std::vector<std::size_t> widths(kDepth, 0);
  std::size_t sequences = 0;
  std::size_t moved = 0;
  std::size_t changed = 0;  // what comes before was checked with the sequence before
  while (true) {
    PoolModel model(layout, 3 * layout.groups[0].page_bytes(), {8192, 0});
    for (std::size_t i = 0; i < kDepth; i++) {
      widths[i] = choices(model);
      apply(model, path[i]);
      if (i < changed) continue;
      model.check();
      for (std::size_t at = 0; at < model.references(); at++) model.check_page(at);
      if (HasFatalFailure()) FAIL() << "sequence " << testing::PrintToString(path);
    }
    sequences++;
    moved += model.moved_bytes() > 0 ? 1 : 0;
    std::size_t last = kDepth;
    while (last > 0 && path[last - 1] + 1 == widths[last - 1]) last--;
    if (last == 0) break;
    path[last - 1]++;
    changed = last - 1;
    std::fill(path.begin() + static_cast<std::ptrdiff_t>(last), path.end(), 0);
  }
  EXPECT_GT(sequences, 10000u);
  EXPECT_GT(moved, 0u);
}

}  // namespace
}  // namespace reprise
