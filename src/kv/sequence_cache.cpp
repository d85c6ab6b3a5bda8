// Pages of one sequence: reserve before a forward, commit after it, drop what no row sees again.
#include "kv/sequence_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/page_places.h"

namespace reprise {
namespace {

Position pages_for(Position length) {
  return (length + kPagePositions - 1) / kPagePositions;
}
int place_of(Position position) {
  return static_cast<int>(position % kPagePositions);
}
std::size_t as_index(Position value) {
  return static_cast<std::size_t>(value);
}

// How many places of page `index` lie before `length`.
int places_before(Position length, Position index) {
  return static_cast<int>(std::clamp<Position>(length - index * kPagePositions, 0, kPagePositions));
}

}  // namespace

SequenceCache::SequenceCache(PagePool& pool)
    : pool_(&pool), generation_(pool.generation()), groups_(pool.layout().groups.size()) {}

const KvLayout& SequenceCache::layout() const {
  return pool_->layout();
}

// Whether the page of the next place may not be appended to: another holder wrote or reserved that
// place. A page of our own alone is rewound instead.
bool SequenceCache::must_copy(const GroupPages& group) const {
  const int place = place_of(offset_);
  const auto index = as_index(offset_ / kPagePositions);
  if (place == 0 || index >= group.pages.size() || !group.pages[index]) return false;
  const PageRef& page = group.pages[index];
  if (!page.is_shared()) return false;
  if (page.written() > place) return true;
  const bool is_ours = reserved_ > offset_;
  return page.claimed() > place && !is_ours;
}

std::size_t SequenceCache::bytes_to_reserve(Position length) const {
  if (length <= offset_) return 0;
  std::size_t bytes = 0;
  for (std::size_t g = 0; g < groups_.size(); g++) {
    std::size_t pages = must_copy(groups_[g]) ? 1 : 0;
    for (Position index = offset_ / kPagePositions; index < pages_for(length); index++) {
      if (as_index(index) >= groups_[g].pages.size() || !groups_[g].pages[as_index(index)]) pages++;
    }
    bytes += pages * group_layout(g).page_bytes();
  }
  return bytes;
}

void SequenceCache::refresh_starts() {
  if (generation_ == pool_->generation()) return;
  for (GroupPages& group : groups_) {
    for (std::size_t i = 0; i < group.pages.size(); i++)
      group.starts[i] = group.pages[i] ? group.pages[i].data() : nullptr;
  }
  generation_ = pool_->generation();
}

bool SequenceCache::reserve(Position length) {
  refresh_starts();
  if (length <= offset_) return true;
  if (bytes_to_reserve(length) > pool_->available_bytes()) return false;
  const int place = place_of(offset_);
  for (std::size_t g = 0; g < groups_.size(); g++) {
    GroupPages& group = groups_[g];
    const bool copies = must_copy(group);
    if (as_index(pages_for(length)) > group.pages.size()) {
      group.pages.resize(as_index(pages_for(length)));
      group.starts.resize(group.pages.size());
    }
    for (Position index = offset_ / kPagePositions; index < pages_for(length); index++) {
      PageRef& page = group.pages[as_index(index)];
      const bool is_next = index == offset_ / kPagePositions;
      if (!page || (is_next && copies)) {
        std::optional<PageRef> fresh = pool_->allocate(static_cast<int>(g));
        CHECK(fresh.has_value());
        if (is_next && page) {
          copy_first_places(group_layout(g), page.data(), fresh->data(), place);
          fresh->set_first(std::min(page.first(), place));
          fresh->set_written(place);
        } else if (is_next) {
          fresh->set_first(place);  // what lies before is not here (a chunk edge)
          fresh->set_written(place);
        }
        page = std::move(*fresh);
        group.starts[as_index(index)] = page.data();
      } else if (is_next && page.written() > place) {
        page.rewind(place);  // we went back, and nobody else has the page
      }
      page.set_claimed(std::max(page.claimed(), places_before(length, index)));
    }
  }
  reserved_ = std::max(reserved_, length);
  return true;
}

const std::uint8_t* const* SequenceCache::pages(int group) const {
  CHECK(generation_ == pool_->generation());  // reserve() first
  return groups_[static_cast<std::size_t>(group)].starts.data();
}

std::uint8_t* SequenceCache::page_at(int group, Position position) const {
  const PageRef& held = page(group, position / kPagePositions);
  CHECK(held);
  return held.data();
}

const PageRef& SequenceCache::page(int group, Position index) const {
  const GroupPages& pages = groups_[static_cast<std::size_t>(group)];
  CHECK(0 <= index && as_index(index) < pages.pages.size());
  return pages.pages[as_index(index)];
}

void SequenceCache::replace_page(int group, Position index, PageRef page) {
  GroupPages& pages = groups_[static_cast<std::size_t>(group)];
  CHECK(0 <= index && as_index(index) < pages.pages.size());
  CHECK(page && page.group() == group && page.written() >= places_before(offset_, index));
  pages.starts[as_index(index)] = page.data();
  pages.pages[as_index(index)] = std::move(page);
  if (index == offset_ / kPagePositions) reserved_ = offset_;  // the claim was on the other page
}

Position SequenceCache::page_count(int group) const {
  return static_cast<Position>(groups_[static_cast<std::size_t>(group)].pages.size());
}

void SequenceCache::commit(Position length) {
  CHECK(offset_ <= length && length <= std::max(reserved_, offset_));
  if (length == offset_) return;
  for (GroupPages& group : groups_) {
    for (Position index = offset_ / kPagePositions; index < pages_for(length); index++) {
      PageRef& page = group.pages[as_index(index)];
      page.set_written(places_before(length, index));
    }
  }
  offset_ = length;
}

void SequenceCache::give_back() {
  if (reserved_ <= offset_) return;
  const Position last = offset_ / kPagePositions;
  for (GroupPages& group : groups_) {
    group.pages.resize(std::min(group.pages.size(), as_index(pages_for(offset_))));
    group.starts.resize(group.pages.size());
    // The claim is ours: nobody else appends to a page while it lasts.
    if (as_index(last) < group.pages.size() && group.pages[as_index(last)]) {
      group.pages[as_index(last)].set_claimed(places_before(offset_, last));
    }
  }
  reserved_ = offset_;
}

void SequenceCache::drop_unneeded() {
  for (std::size_t g = 0; g < groups_.size(); g++) {
    GroupPages& group = groups_[g];
    const Position end = group_layout(g).span.kept(offset_).begin / kPagePositions;
    // Below a dropped page all are dropped.
    for (Position index = end - 1; index >= 0 && group.pages[as_index(index)]; index--) {
      group.pages[as_index(index)] = PageRef();
      group.starts[as_index(index)] = nullptr;
    }
  }
}

PositionRange SequenceCache::held(int group) const {
  const GroupPages& pages = groups_[static_cast<std::size_t>(group)];
  Position begin = offset_;
  for (Position index = pages_for(offset_) - 1; index >= 0; index--) {
    const PageRef& page = pages.pages[as_index(index)];
    if (!page) break;
    begin = std::min(begin, index * kPagePositions + page.first());
    if (page.first() > 0) break;
  }
  return {begin, offset_};
}

bool SequenceCache::can_truncate(Position target) const {
  for (std::size_t g = 0; g < groups_.size(); g++) {
    if (!group_layout(g).span.can_truncate(held(static_cast<int>(g)), target)) return false;
  }
  return 0 <= target && target <= offset_;
}

void SequenceCache::truncate(Position target) {
  CHECK(can_truncate(target));
  for (GroupPages& group : groups_) {
    group.pages.resize(as_index(pages_for(target)));
    group.starts.resize(group.pages.size());
  }
  offset_ = target;
  reserved_ = target;
}

SequenceCache SequenceCache::fork() const {
  SequenceCache copy(*pool_);
  copy.offset_ = offset_;
  copy.reserved_ = offset_;
  copy.generation_ = generation_;
  for (std::size_t g = 0; g < groups_.size(); g++) {
    const auto count = static_cast<std::ptrdiff_t>(pages_for(offset_));
    const GroupPages& group = groups_[g];
    copy.groups_[g].pages.assign(group.pages.begin(), group.pages.begin() + count);
    copy.groups_[g].starts.assign(group.starts.begin(), group.starts.begin() + count);
  }
  return copy;
}

void SequenceCache::adopt(Position length, std::vector<std::vector<PageRef>> pages) {
  CHECK(pages.size() == groups_.size());
  offset_ = length;
  reserved_ = length;
  generation_ = pool_->generation();
  for (std::size_t g = 0; g < groups_.size(); g++) {
    GroupPages& group = groups_[g];
    group.pages = std::move(pages[g]);
    CHECK(group.pages.size() == as_index(pages_for(length)));
    group.starts.assign(group.pages.size(), nullptr);
    bool is_gapless = true;
    for (Position index = pages_for(length) - 1; index >= 0; index--) {
      PageRef& page = group.pages[as_index(index)];
      if (!is_gapless) page = PageRef();
      if (!page) {
        is_gapless = false;
        continue;
      }
      CHECK(page.group() == static_cast<int>(g) && page.written() >= places_before(length, index));
      group.starts[as_index(index)] = page.data();
    }
    CHECK(held(static_cast<int>(g)).contains(group_layout(g).span.needed(length)));
  }
}

std::size_t SequenceCache::held_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t g = 0; g < groups_.size(); g++) {
    for (const PageRef& page : groups_[g].pages) {
      if (page) bytes += group_layout(g).page_bytes();
    }
  }
  return bytes;
}

}  // namespace reprise
