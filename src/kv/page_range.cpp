// Slots of one address range, the handles of the pages in them, and extents given back when empty.
#include "kv/page_range.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <sys/mman.h>

#include "base/check.h"

namespace reprise {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t extents_for(std::size_t page_bytes, std::size_t pages_max, std::size_t extent_bytes) {
  if (page_bytes > 0 && pages_max > SIZE_MAX / page_bytes) return SIZE_MAX / extent_bytes;
  const std::size_t bytes = page_bytes * pages_max;
  return bytes / extent_bytes + (bytes % extent_bytes > 0 ? 1 : 0);
}

}  // namespace

Reservation::Reservation(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped != MAP_FAILED) data_ = static_cast<std::uint8_t*>(mapped);
}

Reservation::~Reservation() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

std::size_t PageRange::reserved_bytes(std::size_t page_bytes, std::size_t pages_max,
                                      std::size_t extent_bytes) {
  const std::size_t extents = extents_for(page_bytes, pages_max, extent_bytes);
  if (extents == 0) return 0;
  if (extents >= SIZE_MAX / extent_bytes) return SIZE_MAX;
  return (extents + 1) * extent_bytes;  // one more, to align
}

PageRange::PageRange(std::size_t page_bytes, std::size_t pages_max, std::size_t extent_bytes)
    : page_bytes_(page_bytes),
      extent_bytes_(extent_bytes),
      reserved_(reserved_bytes(page_bytes, pages_max, extent_bytes)) {
  const std::size_t extents = extents_for(page_bytes, pages_max, extent_bytes);
  if (extents == 0) return;
  CHECK(reserved_.data() != nullptr);
  live_in_extent_.resize(extents);
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(reserved_.data()) % extent_bytes;
  start_ = reserved_.data() + (beyond > 0 ? extent_bytes - beyond : 0);
  // Extents are whole huge pages, so that what is in memory is what is committed: khugepaged fills
  // up a huge page of which a part is in use, but makes none where nothing is, so it cannot bring
  // back an extent that was given back. A wish only: some systems have no huge pages.
  if (extent_bytes % kHugePage == 0) ::madvise(start_, extents * extent_bytes, MADV_HUGEPAGE);
}

PageRange::Extents PageRange::extents_of(std::uint32_t slot) const {
  return {slot * page_bytes_ / extent_bytes_,
          ((slot + std::size_t{1}) * page_bytes_ - 1) / extent_bytes_ + 1};
}

// The lowest free slot from `slot` on, or slots().
std::uint32_t PageRange::next_free(std::uint32_t slot) const {
  std::size_t word = slot / 64;
  if (word >= free_slots_.size()) return slots();
  std::uint64_t bits = free_slots_[word] & (~std::uint64_t{0} << (slot % 64));
  while (bits == 0) {
    if (++word == free_slots_.size()) return slots();
    bits = free_slots_[word];
  }
  return static_cast<std::uint32_t>(word * 64) + static_cast<std::uint32_t>(std::countr_zero(bits));
}

// Whether a page in this slot takes no more new extents than it fills.
bool PageRange::pays(std::uint32_t slot) const {
  const Extents extents = extents_of(slot);
  std::size_t fresh = 0;
  for (std::size_t extent = extents.begin; extent < extents.end; extent++)
    fresh += live_in_extent_[extent] == 0 ? 1 : 0;
  return fresh * extent_bytes_ <= page_bytes_;
}

// Where to move the page in slot end - 1; `end` where no slot below is free. What lies highest goes
// from one end on, so that moves into slots that pay give back all that they copy but an extent.
std::uint32_t PageRange::lower_slot(std::uint32_t end) {
  std::uint32_t slot = next_free(std::max(pays_begin_, free_begin_));
  while (slot < end && !pays(slot)) slot = next_free(slot + 1);
  if (slot < end) {
    pays_begin_ = slot;
    return slot;
  }
  pays_begin_ = end;
  return std::min(next_free(free_begin_), end);
}

void PageRange::occupy(std::uint32_t slot, std::uint32_t handle) {
  const Extents extents = extents_of(slot);
  CHECK(extents.end <= live_in_extent_.size());
  for (std::size_t extent = extents.begin; extent < extents.end; extent++) {
    if (live_in_extent_[extent]++ == 0) committed_extents_++;
  }
  handle_in_slot_[slot] = handle;
  free_slots_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
  if (free_begin_ == slot) free_begin_++;
  states_[handle].slot = slot;
  live_end_ = std::max(live_end_, slot + 1);
}

void PageRange::vacate(std::uint32_t slot) {
  const Extents extents = extents_of(slot);
  for (std::size_t extent = extents.begin; extent < extents.end; extent++) {
    if (--live_in_extent_[extent] > 0) continue;
    committed_extents_--;
    CHECK(::madvise(start_ + extent * extent_bytes_, extent_bytes_, MADV_DONTNEED) == 0);
  }
  handle_in_slot_[slot] = kFree;
  free_slots_[slot / 64] |= std::uint64_t{1} << (slot % 64);
  free_begin_ = std::min(free_begin_, slot);
}

std::uint32_t PageRange::take() {
  std::uint32_t handle = 0;
  if (free_handles_.empty()) {
    handle = static_cast<std::uint32_t>(states_.size());
    states_.emplace_back();
    free_handles_.reserve(states_.capacity());  // giving back takes no memory
  } else {
    handle = free_handles_.back();
    free_handles_.pop_back();
  }
  const std::uint32_t slot = next_free(free_begin_);
  if (slot == slots()) {
    handle_in_slot_.push_back(kFree);
    free_slots_.resize((slot + std::size_t{64}) / 64);
  }
  free_begin_ = slot;
  pays_begin_ = 0;
  states_[handle] = {.references = 1};
  occupy(slot, handle);
  const std::size_t slot_begin = slot * page_bytes_;
  const std::size_t slot_end = slot_begin + page_bytes_;
  const Extents extents = extents_of(slot);
  for (std::size_t extent = extents.begin; extent < extents.end; extent++) {
    if (live_in_extent_[extent] == 1) continue;  // ours alone: fresh from the system, zero
    const std::size_t begin = std::max(slot_begin, extent * extent_bytes_);
    const std::size_t end = std::min(slot_end, (extent + 1) * extent_bytes_);
    std::memset(start_ + begin, 0, end - begin);
  }
  return handle;
}

void PageRange::give_back(std::uint32_t handle) {
  vacate(states_[handle].slot);
  free_handles_.push_back(handle);
  pays_begin_ = 0;
}

bool PageRange::move_highest_down() {
  while (live_end_ > 0 && handle_in_slot_[live_end_ - 1] == kFree) live_end_--;
  if (live_end_ == 0) return false;
  const std::uint32_t from = live_end_ - 1;
  const std::uint32_t to = lower_slot(live_end_);
  if (to > from) return false;
  occupy(to, handle_in_slot_[from]);
  std::memcpy(slot_data(to), slot_data(from), page_bytes_);
  vacate(from);
  // Free slots that share an extent with `to` may pay now.
  const std::uint32_t around = static_cast<std::uint32_t>(extent_bytes_ / page_bytes_) + 1;
  pays_begin_ = std::min(pays_begin_, to - std::min(to, around));
  return true;
}

}  // namespace reprise
