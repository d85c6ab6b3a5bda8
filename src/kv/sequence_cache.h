// The keys and values of one sequence: per span group a list of pages, and one offset for all.
// Owner and only caller: the engine thread; kernels read and write through block().
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/page_pool.h"

namespace reprise {

class SequenceCache {
 public:
  explicit SequenceCache(PagePool& pool);
  SequenceCache(SequenceCache&&) noexcept = default;
  SequenceCache& operator=(SequenceCache&&) noexcept = default;
  SequenceCache(const SequenceCache&) = delete;  // share pages by fork()
  SequenceCache& operator=(const SequenceCache&) = delete;

  const KvLayout& layout() const;

  // Tokens whose keys and values exist: the position of the next token.
  Position offset() const { return offset_; }

  // Bytes of new pages that reserve(length) would take now (pages to add, and shared pages to
  // copy). Another sequence's reserve() may take the shared place first: then one more page is
  // copied.
  std::size_t bytes_to_reserve(Position length) const;
  // Makes places [offset, length) writable: adds pages, and copies a page whose next place another
  // holder has written or reserved (law L4). False, with nothing changed, when the pool has no
  // room. After PagePool::compact it also finds the pages where they lie now, whatever the length.
  bool reserve(Position length);

  // Starts of the pages of `group` by page index, for KvBlocks; null where dropped. Valid until the
  // next reserve, drop_unneeded, truncate, adopt or PagePool::compact. Workers read them side by
  // side, so they are not made right here: after a compaction reserve() comes first, as it does
  // before every forward (checked).
  const std::uint8_t* const* pages(int group) const;
  // The page that holds `position`, to write a place that was reserved.
  std::uint8_t* page_at(int group, Position position) const;
  // The page by index; an empty reference where dropped.
  const PageRef& page(int group, Position index) const;
  // Puts another page with the same content in its place (a shared one instead of the own copy).
  // Where that is the page of the next place, what was reserved must be reserved again.
  void replace_page(int group, Position index, PageRef page);
  Position page_count(int group) const;

  // Places [offset, length) are written: they become part of the sequence.
  void commit(Position length);
  // The end of the places that are reserved; offset() where none are.
  Position reserved() const { return std::max(reserved_, offset_); }
  // Gives back what was reserved and not committed: claims, and pages behind the offset's.
  void give_back();
  // Drops pages that lie wholly before what every group keeps at this offset.
  void drop_unneeded();

  // Positions of `group` that are held: [first valid place of the last gapless run, offset).
  PositionRange held(int group) const;
  // Whether the sequence can go back to `target` exactly as a cold run would stand there (law L3).
  bool can_truncate(Position target) const;
  // Goes back to `target`; can_truncate(target) must hold.
  void truncate(Position target);
  // A second sequence on the same pages.
  SequenceCache fork() const;

  // Becomes a sequence of `length` tokens on these pages: pages[group][index], empty where not
  // needed. Every group must hold needed(length); the caller has checked it.
  void adopt(Position length, std::vector<std::vector<PageRef>> pages);

  std::size_t held_bytes() const;  // bytes of the pages it refers to, shared or not

 private:
  struct GroupPages {
    std::vector<PageRef> pages;
    std::vector<const std::uint8_t*> starts;
  };
  const SpanGroup& group_layout(std::size_t group) const { return layout().groups[group]; }
  bool must_copy(const GroupPages& group) const;
  void refresh_starts();

  PagePool* pool_;
  Position offset_ = 0;
  Position reserved_ = 0;     // places [offset, reserved) are ours to write
  std::uint64_t generation_;  // of the pool, when `starts` were right
  std::vector<GroupPages> groups_;
};

}  // namespace reprise
