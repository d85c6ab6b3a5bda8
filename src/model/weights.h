// Weights in memory, and the loader that takes them out of a model's files: checks every shape
// against what the configuration expects, then packs all matrices into panels with all threads and
// hashes everything it took.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/weight_type.h"
#include "model/checkpoint.h"
#include "model/tensor_names.h"
#include "model/weight_packer.h"
#include "model/weight_rows.h"

namespace reprise {

// y = W x + b. The bias is empty when the layer has none.
struct Linear {
  kernels::PanelMatrix matrix;  // [outputs, inputs]
  std::vector<float> bias;      // [outputs]
};

// The same projection of every expert of a layer.
struct ExpertLinear {
  std::vector<kernels::PanelMatrix> matrices;  // one [outputs, inputs] an expert
};

// What matrices of F32, F16 or BF16 become on load.
enum class Quantization : std::uint8_t {
  none,
  q8_0,  // GGUF's Q8_0
  q4,    // MLX affine, 4 bit, groups of 64 (32 where 64 does not divide the columns)
};

// One of an expert's three projections.
enum class ExpertPart : std::uint8_t { gate, up, down };
// How folders store gate and up of all experts in one float tensor: [experts, 2 * width, hidden] as
// matrices are, or [experts, hidden, 2 * width] (and the down projection turned likewise).
enum class FusedExperts : std::uint8_t { rows, columns };

// Tensors are asked for by their GGUF names (tensor_names.h), matrices as outputs x inputs. What
// comes back has its place in memory at once; finish() fills all of them.
// Errors of all: not_found, corrupt (shape), unsupported (type); each names the tensor. Matrices
// also exhausted, when the system refuses their memory.
class WeightLoader {
 public:
  // The checkpoint must outlive the loader.
  WeightLoader(const Checkpoint& checkpoint, TensorNames names, Quantization quantization);

  bool is_gguf() const { return checkpoint_->format() == CheckpointFormat::gguf; }
  bool has(std::string_view tensor) const;

  // The matrix "<name>.weight" of shape [outputs, inputs], and "<name>.bias" when it is there.
  Result<Linear> linear(const std::string& name, int outputs, int inputs);
  // The same in float32 whatever the file holds: routers, whose choices must not hang on int8.
  Result<Linear> float_linear(const std::string& name, int outputs, int inputs);
  // Rows [0, count) of "<name>.weight", which may have more (vocabulary padded for the hardware).
  Result<Linear> first_rows(const std::string& name, int count, int inputs);
  // The vector `tensor` of `size` floats (stored as F32, F16 or BF16), plus `add` to each: norms of
  // some families are stored as what is to be added to 1.
  Result<std::vector<float>> vector(const std::string& tensor, int size, float add = 0);
  // One projection of all experts of a block, in whichever form the files have it: stacked
  // [experts, outputs, inputs], one tensor an expert, or gate and up in one.
  Result<ExpertLinear> experts(std::size_t block, ExpertPart part, FusedExperts fused, int count,
                               int outputs, int inputs);
  // The matrix "<name>.weight" of which only single rows are looked up: it stays in the mapped
  // file.
  Result<StoredMatrix> lookup_table(const std::string& name, int rows, int columns);

  // Packs and hashes all that was taken, once, with all threads of the pool. Returns the memory
  // that the matrices lie in.
  std::vector<MemoryBlock> finish(ThreadPool& pool, const LoadProgress& progress);
  std::size_t packed_bytes() const { return packed_bytes_; }
  std::size_t expert_bytes() const { return expert_bytes_; }  // of packed_bytes()
  std::size_t stored_bytes() const { return stored_bytes_; }  // of the same matrices in the files
  // After finish(): one line a tensor taken: name, type, shape, hash of its content.
  std::string inventory() const;
  // Whether a lookup table was taken: the files must then stay mapped.
  bool needs_files() const { return needs_files_; }
  // Stored tensors that nothing asked for.
  std::vector<std::string_view> untaken() const;

 private:
  // Which matrices of a stored tensor: `count` (0: it is one matrix) times rows [first,
  // first + outputs) of `total` (-1: as many as it has).
  struct Slice {
    int count = 0;
    int first = 0;
    int outputs = 0;
    int total = -1;
    int inputs = 0;
  };

  struct Source {
    StoredMatrix matrix;
    WeightPacker::Origin origin;
  };

  Result<const StoredTensor*> require(const std::string& stored);
  Result<std::vector<Source>> slices(const std::string& module, std::string_view suffix,
                                     Slice slice);
  Result<std::vector<Source>> affine_slices(const StoredTensor& weight, const std::string& module,
                                            Slice slice);
  Result<std::vector<Source>> turned_slices(const std::string& tensor, Slice slice);
  Result<std::vector<Source>> expert_slices(std::size_t block, ExpertPart part, FusedExperts fused,
                                            Slice slice);
  Result<std::vector<Source>> fused_slices(const std::string& stem, ExpertPart part,
                                           FusedExperts fused, Slice slice);
  kernels::PanelMatrix target_of(const StoredMatrix& source) const;
  void pack(const Source& source, kernels::PanelMatrix& target, std::uint8_t* panels);
  Result<Linear> pack_linear(const Source& source, kernels::PanelMatrix target);
  void take(const StoredTensor& tensor);

  const Checkpoint* checkpoint_;
  TensorNames names_;
  Quantization quantization_;
  WeightPacker packer_;
  std::size_t packed_bytes_ = 0, expert_bytes_ = 0, stored_bytes_ = 0;
  std::vector<const StoredTensor*> taken_;  // in this order
  std::unordered_set<std::string_view> taken_names_;
  bool needs_files_ = false;
};

}  // namespace reprise
