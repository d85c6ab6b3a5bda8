// A matrix of floats [rows, columns], rows back to back.
#pragma once
#include <cstddef>

#include "base/memory.h"

namespace reprise {

class RowBuffer {
 public:
  RowBuffer() = default;
  RowBuffer(int rows, int columns)
      : columns_(columns),
        memory_(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns) *
                sizeof(float)) {}
  float* row(int index) const {
    return reinterpret_cast<float*>(memory_.data()) +
           static_cast<std::size_t>(index) * static_cast<std::size_t>(columns_);
  }
  int columns() const { return columns_; }

 private:
  int columns_ = 0;
  MemoryBlock memory_;
};

}  // namespace reprise
