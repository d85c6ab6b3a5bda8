// All KV memory: pages by span group, counted references, one budget (law L6).
// Owner and only caller: the engine thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "kv/kv_layout.h"

namespace reprise {

class PagePool;

// One counted reference to a page. Copying shares the page; the last one to go frees it. It is a
// handle: PagePool::compact may move the page, so nobody keeps data() over a compaction.
class PageRef {
 public:
  PageRef() = default;  // refers to nothing
  PageRef(const PageRef& other);
  PageRef(PageRef&& other) noexcept;
  PageRef& operator=(PageRef other) noexcept;
  ~PageRef();

  explicit operator bool() const { return pool_ != nullptr; }
  int group() const { return group_; }
  // Names the page in its pool while it lives, wherever it lies; a later page may have it again.
  std::uint64_t key() const;
  std::uint8_t* data() const;  // until the next compaction
  bool is_shared() const;      // more than one reference
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
    return pool_ == other.pool_ && group_ == other.group_ && handle_ == other.handle_;
  }

 private:
  friend class PagePool;
  PageRef(PagePool* pool, int group, std::uint32_t handle)
      : pool_(pool), group_(group), handle_(handle) {}

  PagePool* pool_ = nullptr;
  int group_ = 0;
  std::uint32_t handle_ = 0;
};

// How memory is given back. Tests choose less, so that a few small pages lie over many extents.
struct PagePoolOptions {
  std::size_t extent_bytes = std::size_t{2} << 20;  // a huge page: memory goes back in these
  std::size_t slack_extents = 2;                    // a group may hold so many in vain
};

// Memory held against memory used (law L6). A page is handed out from the lowest free slot of its
// group, an extent without a live page goes back at once, and compact() moves pages together after
// each step. With slack(bytes) = bytes / kSlackPart + slack_extents * extent_bytes * groups:
// * after enough calls of compact(), nothing else happening:
//     committed_bytes() <= used_bytes() + slack(used_bytes());
// * after each call, however thin the pages lay before:
//     committed_bytes() <= budget_bytes() + slack(budget_bytes());
// * between calls committed_bytes() grows by the bytes allocated since, and an extent a group: all
//   slots below the one handed out are live, so an extent is full before the next one is taken.
// So one step can pass the budget by what it allocates, until its end.
class PagePool {
 public:
  // Whether a pool of this budget can be made: tries what it would reserve, and gives it back.
  // Errors: exhausted, saying how many bytes were refused for which group and the process's limit
  // if it has one, or how many pages are too many.
  static Status check(const KvLayout& layout, std::size_t budget_bytes,
                      PagePoolOptions options = {});
  // Reserves address space for `budget_bytes` of every group; memory is taken as pages are.
  PagePool(KvLayout layout, std::size_t budget_bytes, PagePoolOptions options = {});
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

  // Where a group's extents exceed its live pages and their slack, moves the highest pages down
  // into free slots and gives the emptied extents back. Stops once `copy_bytes` were copied, so
  // that a step is not held up; but goes on while the second bound above is broken. For pages of at
  // most extent_bytes / 66 that copies no more than what was allocated since the last call and two
  // extents a group; larger ones may first fill gaps that give nothing back. Over time it copies no
  // more than was freed: each move fills a slot that a freed page left. Returns the bytes moved.
  // Between steps only: data() of every page may change.
  std::size_t compact(std::size_t copy_bytes = std::size_t{64} << 20);
  // Changes whenever pages may have moved.
  std::uint64_t generation() const;

  static constexpr std::size_t kSlackPart = 32;

 private:
  friend class PageRef;
  struct Arena;
  std::unique_ptr<Arena> arena_;
};

}  // namespace reprise
