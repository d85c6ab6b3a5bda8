// All KV memory: pages by span group, counted references, one budget (law L6).
// Owner and only caller: the engine thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kv/kv_layout.h"

namespace reprise {

class PagePool;

// One counted reference to a page. Copying shares the page; the last one to go frees it.
class PageRef {
 public:
  PageRef() = default;  // refers to nothing
  PageRef(const PageRef& other);
  PageRef(PageRef&& other) noexcept;
  PageRef& operator=(PageRef other) noexcept;
  ~PageRef();

  explicit operator bool() const { return pool_ != nullptr; }
  int group() const { return group_; }
  std::uint8_t* data() const;
  bool is_shared() const;  // more than one reference
  // Places [first, written) hold keys and values that are never rewritten (law L4). `written` only
  // grows. `first` is above 0 only where a sequence began inside the page without what lies before:
  // after a restore of a snapshot's live part, or at a chunk edge. Set once, on a new page.
  int first() const;
  int written() const;
  void set_first(int place);
  void set_written(int places);
  // Forgets places [places, written) of a page that nobody else refers to.
  void rewind(int places);
  // Places [written, claimed) belong to the one sequence that reserved them: two sequences that
  // stand at `written` together must not both append in place.
  int claimed() const;
  void set_claimed(int places);
  bool operator==(const PageRef& other) const {
    return pool_ == other.pool_ && group_ == other.group_ && index_ == other.index_;
  }

 private:
  friend class PagePool;
  PageRef(PagePool* pool, int group, std::uint32_t index)
      : pool_(pool), group_(group), index_(index) {}

  PagePool* pool_ = nullptr;
  int group_ = 0;
  std::uint32_t index_ = 0;
};

class PagePool {
 public:
  // Reserves address space for `budget_bytes` of every group; memory is taken as pages are.
  PagePool(KvLayout layout, std::size_t budget_bytes);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  ~PagePool();  // all references must be gone

  const KvLayout& layout() const;

  // A zeroed page with one reference and nothing written; nullopt when the budget has no room for
  // it.
  std::optional<PageRef> allocate(int group);

  std::size_t budget_bytes() const;
  std::size_t used_bytes() const;  // bytes of live pages, each counted once
  std::size_t available_bytes() const { return budget_bytes() - used_bytes(); }
  // Bytes of the 2 MiB extents that hold live pages; the rest was given back to the system.
  std::size_t committed_bytes() const;
  std::size_t live_pages(int group) const;

 private:
  friend class PageRef;
  struct Arena;
  std::unique_ptr<Arena> arena_;
};

}  // namespace reprise
