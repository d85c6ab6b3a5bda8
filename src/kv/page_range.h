// The pages of one span group in one address range. A page is known by its handle; where it lies,
// its slot, may change (move_highest_down). Slots fill the range from its start; extents without
// live pages are given back to the system at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise {

struct PageState {
  std::uint32_t references = 0;
  std::uint32_t slot = 0;
  std::uint8_t first = 0, written = 0, claimed = 0;
};

// Address space with no memory behind it yet; null where the system refuses it, or of 0 bytes.
class Reservation {
 public:
  explicit Reservation(std::size_t bytes);
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation();

  std::uint8_t* data() const { return data_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_;
};

class PageRange {
 public:
  // Reserves address space for `pages_max` pages, in whole extents that start at multiples of
  // `extent_bytes` (a multiple of the system's page size). It must be there: see PagePool::check.
  PageRange(std::size_t page_bytes, std::size_t pages_max, std::size_t extent_bytes);
  // What that reserves; SIZE_MAX where it is no number.
  static std::size_t reserved_bytes(std::size_t page_bytes, std::size_t pages_max,
                                    std::size_t extent_bytes);

  std::size_t page_bytes() const { return page_bytes_; }
  std::size_t live_pages() const { return states_.size() - free_handles_.size(); }
  std::size_t live_bytes() const { return live_pages() * page_bytes_; }
  std::size_t committed_bytes() const { return committed_extents_ * extent_bytes_; }

  PageState& state(std::uint32_t handle) { return states_[handle]; }
  std::uint8_t* data(std::uint32_t handle) const { return slot_data(states_[handle].slot); }

  // The handle of a zeroed page in the lowest free slot, with one reference; at most `pages_max`.
  std::uint32_t take();
  void give_back(std::uint32_t handle);
  // Moves the page that lies highest down into a free slot and gives the emptied extents back;
  // false if live pages lie without a gap. It goes to the lowest slot that takes no more bytes of
  // new extents than a page has (none, where pages are smaller than extents), else to the lowest.
  bool move_highest_down();

 private:
  static constexpr std::uint32_t kFree = UINT32_MAX;

  struct Extents {
    std::size_t begin = 0, end = 0;
  };
  Extents extents_of(std::uint32_t slot) const;
  std::uint8_t* slot_data(std::uint32_t slot) const { return start_ + slot * page_bytes_; }
  std::uint32_t slots() const { return static_cast<std::uint32_t>(handle_in_slot_.size()); }
  std::uint32_t next_free(std::uint32_t slot) const;
  bool pays(std::uint32_t slot) const;
  std::uint32_t lower_slot(std::uint32_t end);
  void occupy(std::uint32_t slot, std::uint32_t handle);
  void vacate(std::uint32_t slot);

  std::size_t page_bytes_;
  std::size_t extent_bytes_;
  Reservation reserved_;
  std::uint8_t* start_ = nullptr;
  std::vector<PageState> states_;  // by handle
  std::vector<std::uint32_t> free_handles_;
  std::vector<std::uint32_t> handle_in_slot_;  // or kFree
  std::vector<std::uint64_t> free_slots_;      // a bit for each slot
  std::uint32_t free_begin_ = 0;               // no slot below is free
  std::uint32_t pays_begin_ = 0;               // no free slot below pays, while pages only move
  std::uint32_t live_end_ = 0;                 // no page lies at or above it
  std::vector<std::uint32_t> live_in_extent_;
  std::size_t committed_extents_ = 0;
};

}  // namespace reprise
