// Pages in one address range a group; extents without live pages go back to the system at once.
#include "kv/page_pool.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <sys/mman.h>
#include <utility>

#include "base/check.h"

namespace reprise {
namespace {

constexpr std::size_t kExtent = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t size, std::size_t unit) {
  return (size + unit - 1) / unit * unit;
}

struct PageState {
  std::uint32_t references = 0;
  std::uint8_t first = 0, written = 0, claimed = 0;
};

// The pages of one group: an address range that is reserved whole and filled from its start.
class PageRange {
 public:
  PageRange(std::size_t page_bytes, std::size_t pages_max) : page_bytes_(page_bytes) {
    const std::size_t extents = round_up(page_bytes * pages_max, kExtent) / kExtent;
    live_in_extent_.resize(extents);
    if (extents == 0) return;
    mapped_bytes_ = (extents + 1) * kExtent;  // one more, to align
    mapped_ = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(mapped_ != MAP_FAILED);
    const auto address = reinterpret_cast<std::uintptr_t>(mapped_);
    start_ = static_cast<std::uint8_t*>(mapped_) + (round_up(address, kExtent) - address);
    ::madvise(start_, extents * kExtent, MADV_HUGEPAGE);  // a wish: some systems have none
  }
  PageRange(const PageRange&) = delete;
  PageRange& operator=(const PageRange&) = delete;
  ~PageRange() {
    if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
  }

  std::size_t page_bytes() const { return page_bytes_; }
  std::size_t live_pages() const { return states_.size() - free_.size(); }
  std::size_t committed_bytes() const { return committed_extents_ * kExtent; }
  PageState& state(std::uint32_t index) { return states_[index]; }
  std::uint8_t* data(std::uint32_t index) const { return start_ + index * page_bytes_; }

  // The lowest free page, so that live pages crowd into few extents.
  std::uint32_t take() {
    std::uint32_t index = 0;
    if (free_.empty()) {
      index = static_cast<std::uint32_t>(states_.size());
      states_.emplace_back();
    } else {
      std::pop_heap(free_.begin(), free_.end(), std::greater<>());
      index = free_.back();
      free_.pop_back();
    }
    CHECK(extent_of_end(index) < live_in_extent_.size());
    for (std::size_t extent = extent_of_start(index); extent <= extent_of_end(index); extent++) {
      if (live_in_extent_[extent]++ == 0) {
        committed_extents_++;  // fresh from the system: zero
      } else {
        zero_overlap(index, extent);
      }
    }
    states_[index] = {.references = 1};
    return index;
  }

  void give_back(std::uint32_t index) {
    for (std::size_t extent = extent_of_start(index); extent <= extent_of_end(index); extent++) {
      if (--live_in_extent_[extent] > 0) continue;
      committed_extents_--;
      CHECK(::madvise(start_ + extent * kExtent, kExtent, MADV_DONTNEED) == 0);
    }
    free_.push_back(index);
    std::push_heap(free_.begin(), free_.end(), std::greater<>());
  }

 private:
  std::size_t extent_of_start(std::uint32_t index) const { return index * page_bytes_ / kExtent; }
  std::size_t extent_of_end(std::uint32_t index) const {
    return ((index + std::size_t{1}) * page_bytes_ - 1) / kExtent;
  }
  void zero_overlap(std::uint32_t index, std::size_t extent) {
    const std::size_t begin = std::max(index * page_bytes_, extent * kExtent);
    const std::size_t end =
        std::min((index + std::size_t{1}) * page_bytes_, (extent + 1) * kExtent);
    std::memset(start_ + begin, 0, end - begin);
  }

  std::size_t page_bytes_;
  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::uint8_t* start_ = nullptr;
  std::vector<PageState> states_;
  std::vector<std::uint32_t> free_;  // a heap, lowest index on top
  std::vector<std::uint32_t> live_in_extent_;
  std::size_t committed_extents_ = 0;
};

}  // namespace

struct PagePool::Arena {
  KvLayout layout;
  std::size_t budget_bytes = 0;
  std::size_t used_bytes = 0;
  std::vector<std::unique_ptr<PageRange>> ranges;

  PageRange& range(int group) const { return *ranges[static_cast<std::size_t>(group)]; }
  PageState& state(int group, std::uint32_t index) const { return range(group).state(index); }
};

PagePool::PagePool(KvLayout layout, std::size_t budget_bytes) : arena_(std::make_unique<Arena>()) {
  arena_->layout = std::move(layout);
  arena_->budget_bytes = budget_bytes;
  for (const SpanGroup& group : arena_->layout.groups) {
    const std::size_t page_bytes = group.page_bytes();
    CHECK(page_bytes > 0);
    CHECK(budget_bytes / page_bytes < UINT32_MAX);
    arena_->ranges.push_back(std::make_unique<PageRange>(page_bytes, budget_bytes / page_bytes));
  }
}

PagePool::~PagePool() {
  CHECK(arena_->used_bytes == 0);
}

const KvLayout& PagePool::layout() const {
  return arena_->layout;
}
std::size_t PagePool::budget_bytes() const {
  return arena_->budget_bytes;
}
std::size_t PagePool::used_bytes() const {
  return arena_->used_bytes;
}
std::size_t PagePool::live_pages(int group) const {
  return arena_->range(group).live_pages();
}

std::size_t PagePool::committed_bytes() const {
  std::size_t bytes = 0;
  for (const auto& range : arena_->ranges) bytes += range->committed_bytes();
  return bytes;
}

std::optional<PageRef> PagePool::allocate(int group) {
  PageRange& range = arena_->range(group);
  if (range.page_bytes() > available_bytes()) return std::nullopt;
  arena_->used_bytes += range.page_bytes();
  return PageRef(this, group, range.take());
}

PageRef::PageRef(const PageRef& other)
    : pool_(other.pool_), group_(other.group_), index_(other.index_) {
  if (pool_ != nullptr) pool_->arena_->state(group_, index_).references++;
}

PageRef::PageRef(PageRef&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      group_(std::exchange(other.group_, 0)),
      index_(std::exchange(other.index_, 0)) {}

PageRef& PageRef::operator=(PageRef other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(group_, other.group_);
  std::swap(index_, other.index_);
  return *this;
}

PageRef::~PageRef() {
  if (pool_ == nullptr) return;
  PageRange& range = pool_->arena_->range(group_);
  if (--range.state(index_).references > 0) return;
  pool_->arena_->used_bytes -= range.page_bytes();
  range.give_back(index_);
}

std::uint8_t* PageRef::data() const {
  return pool_->arena_->range(group_).data(index_);
}
bool PageRef::is_shared() const {
  return pool_->arena_->state(group_, index_).references > 1;
}
int PageRef::first() const {
  return pool_->arena_->state(group_, index_).first;
}
int PageRef::written() const {
  return pool_->arena_->state(group_, index_).written;
}
int PageRef::claimed() const {
  return pool_->arena_->state(group_, index_).claimed;
}

void PageRef::set_first(int place) {
  PageState& state = pool_->arena_->state(group_, index_);
  CHECK(0 <= place && place <= kPagePositions && state.written == 0);
  state.first = static_cast<std::uint8_t>(place);
}

void PageRef::set_written(int places) {
  PageState& state = pool_->arena_->state(group_, index_);
  CHECK(state.written <= places && places <= kPagePositions);
  state.written = static_cast<std::uint8_t>(places);
}

void PageRef::rewind(int places) {
  PageState& state = pool_->arena_->state(group_, index_);
  CHECK(state.references == 1 && 0 <= places && places <= state.written);
  state.first = static_cast<std::uint8_t>(std::min<int>(state.first, places));
  state.written = static_cast<std::uint8_t>(places);
  state.claimed = state.written;
}

void PageRef::set_claimed(int places) {
  PageState& state = pool_->arena_->state(group_, index_);
  CHECK(state.written <= places && places <= kPagePositions);
  state.claimed = static_cast<std::uint8_t>(places);
}

}  // namespace reprise
