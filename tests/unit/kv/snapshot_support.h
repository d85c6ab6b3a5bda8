// Snapshots for tests: scalars and buffers by hand, and every layer in each physical form that the
// original leaves behind.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kv/kv_snapshot.h"
#include "unit/kv/kv_test_support.h"

namespace reprise::test {

inline std::vector<std::uint64_t> chain_of(int length) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(length));
  std::iota(tokens.begin(), tokens.end(), 3);
  return identities(tokens);
}

inline SequenceCache sequence_of(PagePool& pool, std::span<const std::uint64_t> chain,
                                 Position length) {
  SequenceCache cache(pool);
  CHECK(extend(cache, chain, length));
  return cache;
}

inline StateSnapshot snapshot_of(const SequenceCache& cache, const SnapshotWords& words) {
  Result<StateSnapshot> snapshot = snapshot_sequence(cache, words);
  CHECK(snapshot.has_value());
  return *std::move(snapshot);
}

inline NamedTensor scalar(const std::string& name, std::int32_t value) {
  NamedTensor tensor{name, SnapshotDtype::i32, {1}, std::vector<std::byte>(4)};
  std::memcpy(tensor.bytes.data(), &value, 4);
  return tensor;
}

// The value of a scalar that must be there; a number that no test expects where it is not.
inline std::int32_t scalar_of(const StateSnapshot& snapshot, const std::string& name) {
  const NamedTensor* tensor = snapshot.find(name);
  if (tensor == nullptr || tensor->bytes.size() != 4) return -12345;
  std::int32_t value = 0;
  std::memcpy(&value, tensor->bytes.data(), 4);
  return value;
}

inline NamedTensor* tensor_of(StateSnapshot& snapshot, const std::string& name) {
  for (NamedTensor& tensor : snapshot.tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

inline void set_scalar(StateSnapshot& snapshot, const std::string& name, std::int32_t value) {
  *tensor_of(snapshot, name) = scalar(name, value);
}

inline void erase_tensor(StateSnapshot& snapshot, const std::string& name) {
  std::erase_if(snapshot.tensors, [&](const NamedTensor& tensor) { return tensor.name == name; });
}

// Positions [begin, end), then slots without one.
inline std::vector<Position> range(Position begin, Position end, int slack = 0) {
  std::vector<Position> positions;
  for (Position p = begin; p < end; p++) positions.push_back(p);
  positions.insert(positions.end(), static_cast<std::size_t>(slack), -1);
  return positions;
}

// The buffers of a layer as the original holds them: slot by slot a position, or -1 for slack.
inline void push_buffers(StateSnapshot& snapshot, const std::string& prefix, const SpanGroup& group,
                         int layer, const std::vector<Position>& slots,
                         std::span<const std::uint64_t> chain) {
  const auto count = static_cast<std::int64_t>(slots.size());
  const SnapshotDtype dtype = snapshot_dtype(group.shape.type);
  NamedTensor keys{prefix + "keys", dtype, {1, group.kv_heads, count, group.shape.head_dim}, {}};
  NamedTensor values{
      prefix + "values", dtype, {1, group.kv_heads, count, group.shape.value_dim}, {}};
  for (int head = 0; head < group.kv_heads; head++) {
    for (const Position position : slots) {
      const std::uint64_t identity = position < 0 ? 999 : chain[static_cast<std::size_t>(position)];
      const Rows rows = rows_of(group.shape, identity, layer, head);
      keys.bytes.insert(keys.bytes.end(), rows.key.begin(), rows.key.end());
      values.bytes.insert(values.bytes.end(), rows.value.begin(), rows.value.end());
    }
  }
  snapshot.tensors.push_back(std::move(keys));
  snapshot.tensors.push_back(std::move(values));
}

// One layer in one physical form: what lies in its slots, and its scalars.
struct LayerForm {
  std::string name;
  std::optional<std::vector<Position>> slots;  // nullopt: neither keys nor values
  std::vector<std::pair<std::string, Position>> scalars;
};

inline LayerForm ring_form(std::string name, Position window, Position offset, Position buffer_size,
                           Position start, Position idx, std::vector<Position> slots) {
  return {std::move(name),
          std::move(slots),
          {{"max_size", window},
           {"buffer_size", buffer_size},
           {"offset", offset},
           {"start_position", start},
           {"idx", idx},
           {"step", 256},
           {"mode", 0},
           {"turbo_seed", 0x7B470404}}};
}

inline std::vector<LayerForm> ring_forms(Position window, Position offset) {
  std::vector<LayerForm> forms;
  const auto add = [&](const char* name, Position buffer_size, Position start, Position idx,
                       std::vector<Position> slots) {
    forms.push_back(ring_form(name, window, offset, buffer_size, start, idx, std::move(slots)));
  };
  const Position live = std::min(offset, window);
  add("canonical", 0, 0, live, range(offset - live, offset));
  if (offset >= window) add("needed only", 0, 0, window - 1, range(offset - window + 1, offset));
  if (offset < window) add("growth slack", 0, 0, offset, range(0, offset, 5));
  if (offset > window) {
    std::vector<Position> ring(static_cast<std::size_t>(window));
    for (Position p = offset - window; p < offset; p++)
      ring[static_cast<std::size_t>(p % window)] = p;
    add("ring", 0, 0, offset % window == 0 ? window : offset % window, ring);
    add("long prefill", 0, 0, offset, range(0, offset));
    add("appended chunk", 0, 0, window + 3 < offset ? window + 3 : offset,
        range(std::max<Position>(0, offset - window - 3), offset));
  }
  const Position start = std::max<Position>(0, offset - window - 2);
  add("temporal", 8, start, offset - start, range(start, offset, 6));
  return forms;
}

inline std::vector<LayerForm> chunk_forms(Position chunk, Position offset) {
  std::vector<LayerForm> forms;
  const auto add = [&](const char* name, Position start,
                       std::optional<std::vector<Position>> slots) {
    forms.push_back({name,
                     std::move(slots),
                     {{"chunk_size", chunk}, {"offset", offset}, {"start_position", start}}});
  };
  const Position trimmed = std::max<Position>(0, offset - chunk);
  add("canonical", trimmed, range(trimmed, offset));
  add("untrimmed", 0, range(0, offset, 7));
  add("chunk only", offset / chunk * chunk, range(offset / chunk * chunk, offset, 2));
  if (offset % chunk == 0) add("edge", offset, std::nullopt);
  return forms;
}

inline std::vector<LayerForm> standard_forms(Position offset) {
  return {{"canonical", range(0, offset), {{"offset", offset}, {"mode", 0}}},
          {"growth slack", range(0, offset, 9), {{"offset", offset}, {"mode", 0}}},
          {"no scalars", range(0, offset), {}}};
}

inline std::vector<LayerForm> forms_of(const LayerSpan& span, Position offset) {
  switch (span.kind) {
    case SpanKind::standard:
      return standard_forms(offset);
    case SpanKind::rotating:
      return ring_forms(span.size, offset);
    case SpanKind::chunked:
      return chunk_forms(span.size, offset);
  }
  return {};
}

inline void push_layer(StateSnapshot& snapshot, const SnapshotWords& words, const KvLayout& layout,
                       int layer, const LayerForm& form, std::span<const std::uint64_t> chain) {
  const LayerPlace place = layout.layers[static_cast<std::size_t>(layer)];
  const SpanGroup& group = layout.groups[static_cast<std::size_t>(place.group)];
  const std::string prefix = snapshot_prefix(words, group.span.kind, layer);
  if (form.slots) push_buffers(snapshot, prefix, group, layer, *form.slots, chain);
  for (const auto& [field, value] : form.scalars)
    snapshot.tensors.push_back(scalar(prefix + field, static_cast<std::int32_t>(value)));
}

// A snapshot of `offset` tokens with each layer in a form that `source.below(count)` picks.
template <class Source>
StateSnapshot formed_snapshot(const SnapshotWords& words, const KvLayout& layout, Position offset,
                              std::span<const std::uint64_t> chain, Source& source) {
  StateSnapshot snapshot{words.family, offset, {}};
  for (std::size_t layer = 0; layer < layout.layers.size(); layer++) {
    if (layout.layers[layer].group < 0) continue;
    const LayerSpan& span =
        layout.groups[static_cast<std::size_t>(layout.layers[layer].group)].span;
    const std::vector<LayerForm> forms = forms_of(span, offset);
    const auto pick =
        static_cast<std::size_t>(source.below(static_cast<std::int64_t>(forms.size())));
    push_layer(snapshot, words, layout, static_cast<int>(layer), forms[pick], chain);
  }
  return snapshot;
}

}  // namespace reprise::test
