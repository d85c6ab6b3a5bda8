// Weights in memory, and the loader that takes them out of a file: checks every shape against what
// the configuration expects, packs matrices into panels with all threads, hashes everything it
// takes.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/weight_type.h"
#include "model/gguf.h"

namespace reprise {

// y = W x + b. The bias is empty when the layer has none.
struct Linear {
  kernels::PanelMatrix matrix;  // [outputs, inputs]
  std::vector<float> bias;      // [outputs]
  MemoryBlock memory;
};

// Called while weights are packed; `done` of `total` bytes.
using LoadProgress = std::function<void(std::size_t done, std::size_t total)>;

class WeightLoader {
 public:
  // The file and the pool must outlive the loader.
  WeightLoader(const GgufFile& file, ThreadPool& pool, LoadProgress progress);

  bool has(std::string_view tensor) const { return file_->find_tensor(tensor) != nullptr; }

  // The matrix "<name>.weight" of shape [outputs, inputs], and "<name>.bias" when it is there.
  // Errors: not_found, corrupt (shape), unsupported (type); each names the tensor.
  Result<Linear> linear(const std::string& name, int outputs, int inputs);
  // The vector `tensor` of `size` floats (stored as F32, F16 or BF16).
  Result<std::vector<float>> vector(const std::string& tensor, int size);
  // Rows of the matrix `tensor` [rows, columns]; rows < 0: as many as there are.
  Result<Linear> matrix(const std::string& tensor, int rows, int columns);

  std::size_t packed_bytes() const { return packed_bytes_; }
  // One line a tensor taken so far: name, type, shape, hash of its content.
  const std::string& inventory() const { return inventory_; }

 private:
  Result<const GgufTensor*> require(const std::string& name);
  Status pack(const GgufTensor& tensor, Linear& linear);
  void take(const GgufTensor& tensor);

  const GgufFile* file_;
  ThreadPool* pool_;
  LoadProgress progress_;
  std::size_t bytes_done_ = 0, bytes_total_ = 0, packed_bytes_ = 0;
  std::string inventory_;
};

}  // namespace reprise
