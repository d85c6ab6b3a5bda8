// Reads and checks one layer of a snapshot: which live tokens it holds and in which slots they lie.
// Knows every form that the snapshot contract allows (docs/snapshot_format.md).
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "kv/kv_layout.h"
#include "kv/kv_snapshot.h"

namespace reprise {

std::string_view snapshot_word(const SnapshotWords& words, SpanKind kind);
SnapshotDtype snapshot_dtype(kernels::KvType type);
std::size_t snapshot_dtype_bytes(SnapshotDtype dtype);
std::string_view snapshot_dtype_name(SnapshotDtype dtype);
// "layer3.rotating.": what the names of a layer's tensors begin with.
std::string snapshot_prefix(const SnapshotWords& words, SpanKind kind, int layer);

// The tensors of a snapshot by name; remembers which names were asked for.
class SnapshotIndex {
 public:
  // Errors: corrupt (a name twice, a negative extent, bytes that do not fit the shape).
  static Result<SnapshotIndex> build(const StateSnapshot& snapshot);

  const NamedTensor* find(const std::string& name);
  // Errors: corrupt when some tensor was never asked for (a layer or field that we do not have).
  Status check_all_used(const SnapshotWords& words) const;

 private:
  std::unordered_map<std::string_view, const NamedTensor*> tensors_;
  std::set<std::string_view> used_;
};

// The live tokens of one layer. Slots are rows of the tensors' third dimension.
struct LayerSource {
  PositionRange live;  // holds needed(token_length)
  const NamedTensor* keys = nullptr;
  const NamedTensor* values = nullptr;
  std::int64_t slots = 0;
  std::int64_t first_slot = 0;  // of live.begin; slots go round

  std::int64_t slot(Position position) const {
    return (first_slot + (position - live.begin)) % slots;
  }
};

// Errors: invalid_argument, corrupt, unsupported; each names family, layer, kind, field, got and
// expected. `group` is the layer's.
Result<LayerSource> read_layer(SnapshotIndex& index, const SnapshotWords& words,
                               const SpanGroup& group, int layer, Position token_length);

}  // namespace reprise
