// The budget over all groups' pages, counted references to them, and when pages are moved together.
#include "kv/page_pool.h"

#include <algorithm>
#include <deque>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/machine.h"
#include "kv/page_range.h"

namespace reprise {
namespace {

constexpr std::size_t kPagesMax = UINT32_MAX;  // of a group; handles and slots are 32 bits

}  // namespace

struct PagePool::Arena {
  KvLayout layout;
  std::size_t budget_bytes = 0;
  PagePoolOptions options;
  std::size_t used_bytes = 0;
  std::uint64_t generation = 0;
  std::vector<std::unique_ptr<PageRange>> ranges;

  PageRange& range(int group) const { return *ranges[static_cast<std::size_t>(group)]; }
  PageState& state(int group, std::uint32_t handle) const { return range(group).state(handle); }

  // What may be committed while `bytes` are live in so many groups (page_pool.h).
  std::size_t committed_max(std::size_t bytes, std::size_t groups) const {
    return bytes + bytes / kSlackPart + options.slack_extents * options.extent_bytes * groups;
  }
};

Status PagePool::check(const KvLayout& layout, std::size_t budget_bytes, PagePoolOptions options) {
  std::deque<Reservation> tried;
  for (const SpanGroup& group : layout.groups) {
    const std::size_t pages = budget_bytes / group.page_bytes();
    const std::size_t bytes =
        PageRange::reserved_bytes(group.page_bytes(), pages, options.extent_bytes);
    if (bytes == 0) continue;
    if (pages >= kPagesMax) {
      return fail(Errc::exhausted, fmt::format("keys and values: {} bytes are {} pages, expected "
                                               "fewer than {}",
                                               budget_bytes, pages, kPagesMax));
    }
    if (tried.emplace_back(bytes).data() != nullptr) continue;
    return fail(Errc::exhausted,
                fmt::format("keys and values: the system refused {} bytes of address space for "
                            "span group {} of {}, each of which takes that of the whole capacity{}",
                            bytes, &group - layout.groups.data() + 1, layout.groups.size(),
                            address_space_note()));
  }
  return {};
}

PagePool::PagePool(KvLayout layout, std::size_t budget_bytes, PagePoolOptions options)
    : arena_(std::make_unique<Arena>()) {
  arena_->layout = std::move(layout);
  arena_->budget_bytes = budget_bytes;
  arena_->options = options;
  for (const SpanGroup& group : arena_->layout.groups) {
    const std::size_t page_bytes = group.page_bytes();
    CHECK(page_bytes > 0);
    CHECK(budget_bytes / page_bytes < kPagesMax);
    arena_->ranges.push_back(
        std::make_unique<PageRange>(page_bytes, budget_bytes / page_bytes, options.extent_bytes));
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

std::size_t PagePool::compact(std::size_t copy_bytes) {
  const std::size_t whole_max = arena_->committed_max(budget_bytes(), arena_->ranges.size());
  std::size_t moved = 0;
  for (const auto& range : arena_->ranges) {
    while (range->committed_bytes() > arena_->committed_max(range->live_bytes(), 1) &&
           (moved < copy_bytes || committed_bytes() > whole_max) && range->move_highest_down()) {
      moved += range->page_bytes();
    }
  }
  if (moved > 0) arena_->generation++;
  return moved;
}

std::uint64_t PagePool::generation() const {
  return arena_->generation;
}

PageRef::PageRef(const PageRef& other)
    : pool_(other.pool_), group_(other.group_), handle_(other.handle_) {
  if (pool_ != nullptr) pool_->arena_->state(group_, handle_).references++;
}

PageRef::PageRef(PageRef&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      group_(std::exchange(other.group_, 0)),
      handle_(std::exchange(other.handle_, 0)) {}

PageRef& PageRef::operator=(PageRef other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(group_, other.group_);
  std::swap(handle_, other.handle_);
  return *this;
}

PageRef::~PageRef() {
  if (pool_ == nullptr) return;
  PageRange& range = pool_->arena_->range(group_);
  if (--range.state(handle_).references > 0) return;
  pool_->arena_->used_bytes -= range.page_bytes();
  range.give_back(handle_);
}

std::uint8_t* PageRef::data() const {
  return pool_->arena_->range(group_).data(handle_);
}
std::uint64_t PageRef::key() const {
  DCHECK(pool_ != nullptr);
  return (static_cast<std::uint64_t>(group_) << 32) | handle_;
}
bool PageRef::is_shared() const {
  return pool_->arena_->state(group_, handle_).references > 1;
}
int PageRef::first() const {
  return pool_->arena_->state(group_, handle_).first;
}
int PageRef::written() const {
  return pool_->arena_->state(group_, handle_).written;
}
int PageRef::claimed() const {
  return pool_->arena_->state(group_, handle_).claimed;
}

void PageRef::set_first(int place) {
  PageState& state = pool_->arena_->state(group_, handle_);
  CHECK(0 <= place && place <= kPagePositions && state.written == 0);
  state.first = static_cast<std::uint8_t>(place);
}

void PageRef::set_written(int places) {
  PageState& state = pool_->arena_->state(group_, handle_);
  CHECK(state.written <= places && places <= kPagePositions);
  state.written = static_cast<std::uint8_t>(places);
}

void PageRef::rewind(int places) {
  PageState& state = pool_->arena_->state(group_, handle_);
  CHECK(state.references == 1 && 0 <= places && places <= state.written);
  state.first = static_cast<std::uint8_t>(std::min<int>(state.first, places));
  state.written = static_cast<std::uint8_t>(places);
  state.claimed = state.written;
}

void PageRef::set_claimed(int places) {
  PageState& state = pool_->arena_->state(group_, handle_);
  CHECK(state.written <= places && places <= kPagePositions);
  state.claimed = static_cast<std::uint8_t>(places);
}

}  // namespace reprise
