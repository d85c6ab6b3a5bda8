// Packs all matrices of a model in one loop over all threads. The loader first checks every tensor
// and notes what is to be done; then each thread takes one huge page of the panels at a time, reads
// the rows that go there, hashes them while they are in its cache, and writes the page.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/weight_type.h"
#include "model/checkpoint.h"
#include "model/weight_rows.h"

namespace reprise {

// Called while weights are packed; `done` of `total` bytes of the files.
using LoadProgress = std::function<void(std::size_t done, std::size_t total)>;

class WeightPacker {
 public:
  // Where a matrix lies in the files: `offset` bytes into `tensor`. With `whole` the matrices added
  // for this tensor cover it without gaps or overlaps, and it is hashed on the way.
  struct Origin {
    const StoredTensor* tensor = nullptr;
    std::size_t offset = 0;
    bool whole = false;
  };

  // `bytes` is about what the panels will take. The checkpoint must outlive the packer.
  WeightPacker(const Checkpoint& checkpoint, std::size_t bytes)
      : checkpoint_(&checkpoint), bytes_(bytes), bytes_left_(bytes) {}

  // Memory for panels, at a multiple of 64 bytes; it stays where it is. Errors: exhausted, saying
  // how many bytes were refused, taken before, and are needed in all.
  Result<std::uint8_t*> reserve(std::size_t bytes);
  // `source` is to be packed as `target` (weight_rows.h) to `panels`, in memory of reserve().
  void add(const StoredMatrix& source, const kernels::PanelMatrix& target, std::uint8_t* panels,
           Origin origin);
  // A tensor whose content counts.
  void note(const StoredTensor& tensor);

  // Does all of it. `progress` is called from this thread.
  void run(ThreadPool& pool, const LoadProgress& progress);
  // Hash of a noted tensor's content, after run().
  std::string digest(const StoredTensor& tensor) const;
  // The memory, after run(): it holds the panels.
  std::vector<MemoryBlock> take_memory() { return std::move(slabs_); }

 private:
  struct Job {
    StoredMatrix source;
    kernels::PanelMatrix target;
    std::uint8_t* panels = nullptr;
    Origin origin;
    int pieces_left = 0;  // to be packed, by any thread

    // Bytes of the source before a panel.
    std::size_t source_bytes(int panel) const;
  };
  struct Content {
    const StoredTensor* tensor = nullptr;
    ChunkedHash hash;
    bool is_hashed_by_jobs = false;
  };
  // Panels [begin, end) of a job, or (job < 0) chunks of a content.
  struct Piece {
    int job = -1;
    std::size_t content = 0;
    std::size_t begin = 0, end = 0;
  };

  std::size_t taken_bytes() const;
  void cut_jobs();
  void cut_contents();
  void add_piece(const Piece& piece, bool starts_group);
  std::size_t bytes_of(const Piece& piece) const;
  void pack(const Piece& piece);
  void release_turned(Job& job);
  void hash(const Piece& piece);
  void hash_between(const Origin& origin, std::size_t begin, std::size_t end);

  const Checkpoint* checkpoint_;
  std::size_t bytes_, bytes_left_;
  std::vector<MemoryBlock> slabs_;
  std::size_t slab_used_ = 0;
  std::vector<Job> jobs_;
  std::vector<Content> contents_;
  std::unordered_map<const StoredTensor*, std::size_t> content_of_;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> groups_;  // the first piece of each, then the number of pieces
};

}  // namespace reprise
