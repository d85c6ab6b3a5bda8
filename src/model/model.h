// A loaded model: configuration, weights in the kernels' layout, the identity of both, and what the
// snapshot contract asks of a model: five methods, written once for all families.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "kv/kv_snapshot.h"
#include "model/checkpoint.h"
#include "model/family.h"
#include "model/model_config.h"

namespace reprise {

struct ModelOptions {
  // Tokens that exist: rows of the head beyond them have none and are cut off. 0: all rows.
  int vocabulary = 0;
  std::vector<TokenId> suppressed;  // ids that must never be sampled
  Quantization quantization = Quantization::none;
  LoadProgress progress = {};
};

class Model {
 public:
  // Reads the configuration, checks every tensor against it, packs the weights with all threads of
  // `pool`. Keeps the checkpoint only when rows are looked up in it later.
  // Errors: corrupt, unsupported, not_found: one line naming the tensor, key or type; exhausted:
  // the system refuses memory for the weights.
  static Result<Model> load(std::unique_ptr<const Checkpoint> checkpoint, ThreadPool& pool,
                            const ModelOptions& options = {});

  const ModelConfig& config() const { return *config_; }
  const Family& family() const { return *family_; }
  // Hash over tensor names, types, shapes and contents, the configuration and the numeric
  // contract's version: equal for equal weights, whatever the file is called.
  const std::string& fingerprint() const { return fingerprint_; }
  std::size_t weight_bytes() const { return weight_bytes_; }
  // The same weights' bytes in the files, vectors and lookup tables not counted.
  std::size_t stored_bytes() const { return stored_bytes_; }
  // Of weight_bytes(), what a decode step of one sequence reads.
  std::size_t token_bytes() const { return token_bytes_; }
  // How long load() took.
  double load_seconds() const { return load_seconds_; }

  // ---- the snapshot contract (docs/snapshot_format.md)
  // Whether sequences of this model can be snapshotted and restored: every family's can.
  bool supports_snapshot_reuse() const { return true; }
  // The words of this family in tensor names, and its tag.
  SnapshotWords snapshot_words() const;
  // Errors: unsupported when the pool's KV mode may not be snapshotted.
  Result<StateSnapshot> snapshot_sequence_state(const SequenceCache& cache) const;
  // Errors: as restore_sequence's.
  Result<SequenceCache> restore_sequence_state(const StateSnapshot& snapshot, PagePool& pool) const;
  // Whether restore_sequence_state_truncated can, for a pool of the snapshot's own KV type.
  bool snapshot_truncatable_to(const StateSnapshot& snapshot, Position target) const;
  // Errors: as restore_sequence's; unsupported when the tokens that `target` needs are gone,
  // invalid_argument when it is out of range.
  Result<SequenceCache> restore_sequence_state_truncated(const StateSnapshot& snapshot,
                                                         PagePool& pool, Position target) const;

 private:
  Model() = default;
  std::unique_ptr<const Checkpoint> checkpoint_;  // null when nothing is looked up in it
  std::unique_ptr<const ModelConfig> config_;
  std::unique_ptr<const Family> family_;
  std::string fingerprint_;
  std::vector<MemoryBlock> weights_;  // what the family's matrices lie in
  std::size_t weight_bytes_ = 0, stored_bytes_ = 0, token_bytes_ = 0;
  double load_seconds_ = 0;
};

}  // namespace reprise
