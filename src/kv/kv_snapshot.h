// The snapshot contract: a sequence's state as ordered named tensors (docs/snapshot_format.md).
// Layer by layer, every attention kind; written in one canonical form, read from any valid one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kv/sequence_cache.h"

namespace reprise {

enum class SnapshotDtype : std::uint8_t { f16, bf16, f32, i32 };

struct NamedTensor {
  std::string name;
  SnapshotDtype dtype = SnapshotDtype::i32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  // row-major, little-endian
};

// A deep copy: shares nothing with any sequence.
struct StateSnapshot {
  std::string family;         // tag: "gemma3", "llama"
  Position token_length = 0;  // == the offset of every layer
  std::vector<NamedTensor> tensors;

  const NamedTensor* find(std::string_view name) const;
  std::size_t byte_size() const;
};

// What a family calls its layers in tensor names ("standard" or Muse Glimmer's "full" ...).
struct SnapshotWords {
  std::string family;
  std::string standard = "standard";
  std::string rotating = "rotating";
  std::string chunked = "chunked";
};

// Storage modes of the contract; only fp16 ("as the model produced it") may be snapshotted.
inline constexpr std::int32_t kSnapshotModeFp16 = 0;

// The whole sequence in canonical form: live tokens in chronological order. Errors: none but bugs.
StateSnapshot snapshot_sequence(const SequenceCache& cache, const SnapshotWords& words);

// Checks everything, then builds a sequence with pages of its own. Errors: invalid_argument,
// corrupt, unsupported (each names family, layer, kind, field, got and expected); exhausted (no
// room).
Result<SequenceCache> restore_sequence(const StateSnapshot& snapshot, const SnapshotWords& words,
                                       PagePool& pool);

// Whether the snapshot's layers hold what resuming at `target` needs (law L3).
bool snapshot_truncatable_to(const StateSnapshot& snapshot, const SnapshotWords& words,
                             const KvLayout& layout, Position target);

}  // namespace reprise
