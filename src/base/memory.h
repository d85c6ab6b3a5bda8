// Large zeroed memory straight from the system, aligned for vectors and backed by huge pages.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"

namespace reprise {

// Owns `size` zeroed bytes (0: owns nothing). Move-only. For what is taken at start: weights and
// scratch; what grows with requests goes through kv/page_pool.
class MemoryBlock {
 public:
  MemoryBlock() = default;
  // Errors: exhausted, saying how many bytes the system refused, and the process's limit if it has
  // one.
  static Result<MemoryBlock> take(std::size_t size);
  // For members that cannot tell an error: refused memory ends the process with take()'s message
  // on stderr and exit code 1.
  explicit MemoryBlock(std::size_t size);
  MemoryBlock(MemoryBlock&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MemoryBlock& operator=(MemoryBlock&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;
  ~MemoryBlock();

  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace reprise
