// One layer of a snapshot, read and checked: which tokens it holds, in which slots they lie, and to
// which shorter lengths it can be cut. Knows every form that the snapshot contract allows.
#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "kv/kv_layout.h"
#include "kv/state_snapshot.h"

namespace reprise {

// The tensors of a snapshot by name; remembers which names were asked for.
class SnapshotIndex {
 public:
  // Errors: corrupt (a name twice, a negative extent, bytes that do not fit the shape).
  static Result<SnapshotIndex> build(const StateSnapshot& snapshot);

  const NamedTensor* find(const std::string& name);
  // Errors: corrupt when some tensor was never asked for: a layer that a model of so many layers
  // does not have, or another kind or field than its layers have.
  Status check_all_used(const SnapshotWords& words, std::size_t layers) const;

 private:
  std::unordered_map<std::string_view, const NamedTensor*> tensors_;
  std::set<std::string_view> used_;
};

// What a snapshot says of one layer. Views the snapshot's tensors, which must outlive it. Slots are
// rows of the tensors' third dimension.
class LayerState {
 public:
  Position offset() const { return offset_; }
  // Positions whose keys and values are there; contains needed(offset()).
  PositionRange held() const { return held_; }
  // Those that a cache at offset() keeps: what is restored.
  PositionRange live() const;

  // Whether the tokens held allow to stand at `target` exactly as a cold run would (law L3).
  bool snapshot_truncatable_to(Position target) const;
  // Goes back to `target`. Errors: invalid_argument (a target outside 0 to offset), unsupported
  // (the tokens that `target` needs are gone); nothing has changed then.
  Status truncate_to(Position target);

  // The bytes of one head and held position.
  std::span<const std::byte> key_row(int head, Position position) const;
  std::span<const std::byte> value_row(int head, Position position) const;
  // Errors: corrupt, where a live place has a number that is not finite: it would spoil rows that
  // do not even see it.
  Status check_finite() const;

 private:
  friend class LayerReader;
  std::span<const std::byte> row(const NamedTensor& tensor, int head, Position position,
                                 std::size_t row_bytes) const;

  const SpanGroup* group_ = nullptr;
  std::string family_, layer_;  // "gemma3", "layer1: rotating", for messages
  std::string prefix_;          // "layer1.rotating."
  Position offset_ = 0;
  PositionRange held_;
  const NamedTensor* keys_ = nullptr;
  const NamedTensor* values_ = nullptr;
  std::int64_t slots_ = 0;
  std::int64_t first_slot_ = 0;  // of held_.begin; slots go round
};

// Reads one layer and checks all but the content of its rows. Errors: invalid_argument, corrupt,
// unsupported; each names family, layer, kind, field, got and expected. `group` is the layer's and
// outlives the result.
Result<LayerState> read_layer(SnapshotIndex& index, const SnapshotWords& words,
                              const SpanGroup& group, int layer, Position token_length);

}  // namespace reprise
