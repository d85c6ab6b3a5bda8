// Large zeroed memory straight from the system, aligned for vectors and backed by huge pages.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

namespace reprise {

// Owns `size` zeroed bytes (0: owns nothing). Move-only. Memory that cannot be had ends the process
// (weights and scratch are taken at start; what grows with requests goes through kv/page_pool).
class MemoryBlock {
 public:
  MemoryBlock() = default;
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
