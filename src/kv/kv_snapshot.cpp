// Writes a sequence as a snapshot in canonical form, and builds a sequence from a checked snapshot.
#include "kv/kv_snapshot.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "kv/page_places.h"
#include "kv/snapshot_layer.h"

namespace reprise {
namespace {

constexpr std::int32_t kStep = 256;              // growth step of the original's buffers
constexpr std::int32_t kTurboSeed = 0x7B470404;  // the original's default; without effect in fp16

std::size_t key_row_bytes(const kernels::KvShape& shape) {
  return shape.keys_bytes() / kPagePositions;
}
std::size_t value_row_bytes(const kernels::KvShape& shape) {
  return shape.values_bytes() / kPagePositions;
}

// Appends the tensors of one layer.
class LayerWriter {
 public:
  LayerWriter(StateSnapshot& snapshot, const SequenceCache& cache, const SnapshotWords& words,
              int layer)
      : snapshot_(snapshot),
        cache_(cache),
        place_(cache.layout().layers[static_cast<std::size_t>(layer)]),
        group_(cache.layout().groups[static_cast<std::size_t>(place_.group)]),
        prefix_(snapshot_prefix(words, group_.span.kind, layer)) {}

  void write() {
    const Position offset = cache_.offset();
    const Position begin =
        std::max(cache_.held(place_.group).begin, group_.span.kept(offset).begin);
    if (begin < offset) push_buffers({begin, offset});
    switch (group_.span.kind) {
      case SpanKind::standard:
        push("offset", offset);
        push("mode", kSnapshotModeFp16);
        break;
      case SpanKind::rotating:
        push("max_size", group_.span.size);
        push("buffer_size", 0);
        push("offset", offset);
        push("start_position", 0);
        push("idx", offset - begin);
        push("step", kStep);
        push("mode", kSnapshotModeFp16);
        push("turbo_seed", kTurboSeed);
        break;
      case SpanKind::chunked:
        push("chunk_size", group_.span.size);
        push("offset", offset);
        push("start_position", begin);
        break;
    }
  }

 private:
  void push(std::string_view field, std::int64_t value) {
    CHECK(0 <= value && value <= std::numeric_limits<std::int32_t>::max());
    const auto scalar = static_cast<std::int32_t>(value);
    NamedTensor tensor{prefix_ + std::string(field), SnapshotDtype::i32, {1}, {}};
    tensor.bytes.resize(sizeof(scalar));
    std::memcpy(tensor.bytes.data(), &scalar, sizeof(scalar));
    snapshot_.tensors.push_back(std::move(tensor));
  }

  void push_buffers(PositionRange live) {
    const kernels::KvShape& shape = group_.shape;
    const Position tokens = live.end - live.begin;
    const SnapshotDtype dtype = snapshot_dtype(shape.type);
    NamedTensor keys{prefix_ + "keys", dtype, {1, group_.kv_heads, tokens, shape.head_dim}, {}};
    NamedTensor values{
        prefix_ + "values", dtype, {1, group_.kv_heads, tokens, shape.value_dim}, {}};
    const auto rows = static_cast<std::size_t>(group_.kv_heads * tokens);
    keys.bytes.resize(rows * key_row_bytes(shape));
    values.bytes.resize(rows * value_row_bytes(shape));
    std::byte* key = keys.bytes.data();
    std::byte* value = values.bytes.data();
    for (int head = 0; head < group_.kv_heads; head++) {
      const std::size_t block = group_.block_offset(place_.index, head);
      for (Position p = live.begin; p < live.end; p++) {
        read_place(shape, cache_.page_at(place_.group, p) + block,
                   static_cast<int>(p % kPagePositions), key, value);
        key += key_row_bytes(shape);
        value += value_row_bytes(shape);
      }
    }
    snapshot_.tensors.push_back(std::move(keys));
    snapshot_.tensors.push_back(std::move(values));
  }

  StateSnapshot& snapshot_;
  const SequenceCache& cache_;
  const LayerPlace place_;
  const SpanGroup& group_;
  std::string prefix_;
};

// All layers of a snapshot, checked; a source per model layer (unused where a layer owns nothing)
// and per group the positions that all its layers hold.
struct CheckedSnapshot {
  std::vector<LayerSource> layers;
  std::vector<PositionRange> live;
};

Result<CheckedSnapshot> check_snapshot(const StateSnapshot& snapshot, const SnapshotWords& words,
                                       const KvLayout& layout) {
  if (snapshot.family != words.family) {
    return fail(Errc::invalid_argument,
                fmt::format("cannot restore {} snapshot into {}", snapshot.family, words.family),
                "family");
  }
  if (snapshot.token_length < 0 ||
      snapshot.token_length > std::numeric_limits<std::int32_t>::max()) {
    return fail(Errc::corrupt,
                fmt::format("{} restore: snapshot token length {}, expected 0 to {}", words.family,
                            snapshot.token_length, std::numeric_limits<std::int32_t>::max()),
                "token_length");
  }
  TRY_ASSIGN(SnapshotIndex index, SnapshotIndex::build(snapshot));
  CheckedSnapshot checked;
  checked.layers.resize(layout.layers.size());
  checked.live.assign(layout.groups.size(), {0, snapshot.token_length});
  for (std::size_t g = 0; g < layout.groups.size(); g++) {
    for (const int layer : layout.groups[g].layers) {
      TRY_ASSIGN(checked.layers[static_cast<std::size_t>(layer)],
                 read_layer(index, words, layout.groups[g], layer, snapshot.token_length));
      checked.live[g].begin = std::max(checked.live[g].begin,
                                       checked.layers[static_cast<std::size_t>(layer)].live.begin);
    }
  }
  TRY(index.check_all_used(words));
  return checked;
}

// A place that holds an infinity or a NaN would spoil rows that do not even see it.
bool is_finite(std::span<const std::byte> row, kernels::KvType type) {
  if (type == kernels::KvType::f32) {
    for (std::size_t i = 0; i < row.size(); i += 4) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, row.data() + i, sizeof(bits));
      if ((bits & 0x7f800000u) == 0x7f800000u) return false;
    }
    return true;
  }
  const std::uint16_t exponent = type == kernels::KvType::f16 ? 0x7c00 : 0x7f80;
  for (std::size_t i = 0; i < row.size(); i += 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, row.data() + i, sizeof(bits));
    if ((bits & exponent) == exponent) return false;
  }
  return true;
}

// The bytes of one head and position in a snapshot's buffer.
std::span<const std::byte> row_at(const NamedTensor& tensor, const LayerSource& source, int head,
                                  Position position, std::size_t row_bytes) {
  const auto row = static_cast<std::size_t>(head * source.slots + source.slot(position));
  return std::span(tensor.bytes).subspan(row * row_bytes, row_bytes);
}

Status check_finite(const CheckedSnapshot& checked, const SnapshotWords& words,
                    const KvLayout& layout) {
  for (std::size_t g = 0; g < layout.groups.size(); g++) {
    const SpanGroup& group = layout.groups[g];
    for (const int layer : group.layers) {
      const LayerSource& source = checked.layers[static_cast<std::size_t>(layer)];
      for (int head = 0; head < group.kv_heads; head++) {
        for (Position p = checked.live[g].begin; p < checked.live[g].end; p++) {
          const bool keys_are = is_finite(
              row_at(*source.keys, source, head, p, key_row_bytes(group.shape)), group.shape.type);
          const bool values_are =
              is_finite(row_at(*source.values, source, head, p, value_row_bytes(group.shape)),
                        group.shape.type);
          if (keys_are && values_are) continue;
          const std::string field =
              snapshot_prefix(words, group.span.kind, layer) + (keys_are ? "values" : "keys");
          return fail(Errc::corrupt,
                      fmt::format("{} restore: {} has a number that is not finite at head {}, "
                                  "position {}, expected finite numbers",
                                  words.family, field, head, p),
                      field);
        }
      }
    }
  }
  return {};
}

// The pages of one group, filled from its layers' sources. The pool has room.
std::vector<PageRef> build_pages(const CheckedSnapshot& checked, const KvLayout& layout, int index,
                                 PagePool& pool) {
  const SpanGroup& group = layout.groups[static_cast<std::size_t>(index)];
  const PositionRange live = checked.live[static_cast<std::size_t>(index)];
  std::vector<PageRef> pages(
      static_cast<std::size_t>((live.end + kPagePositions - 1) / kPagePositions));
  for (Position start = live.begin / kPagePositions * kPagePositions;
       start < live.end && !live.is_empty(); start += kPagePositions) {
    const Position begin = std::max(start, live.begin);
    const Position end = std::min(start + kPagePositions, live.end);
    std::optional<PageRef> page = pool.allocate(index);
    CHECK(page.has_value());
    page->set_first(static_cast<int>(begin - start));
    for (std::size_t i = 0; i < group.layers.size(); i++) {
      const LayerSource& source = checked.layers[static_cast<std::size_t>(group.layers[i])];
      for (int head = 0; head < group.kv_heads; head++) {
        std::uint8_t* block = page->data() + group.block_offset(static_cast<int>(i), head);
        for (Position p = begin; p < end; p++) {
          write_place(group.shape, block, static_cast<int>(p - start),
                      row_at(*source.keys, source, head, p, key_row_bytes(group.shape)).data(),
                      row_at(*source.values, source, head, p, value_row_bytes(group.shape)).data());
        }
      }
    }
    page->set_written(static_cast<int>(end - start));
    pages[static_cast<std::size_t>(start / kPagePositions)] = std::move(*page);
  }
  return pages;
}

std::size_t bytes_of(const CheckedSnapshot& checked, const KvLayout& layout) {
  std::size_t bytes = 0;
  for (std::size_t g = 0; g < layout.groups.size(); g++) {
    const PositionRange live = checked.live[g];
    if (live.is_empty()) continue;
    const Position pages =
        (live.end + kPagePositions - 1) / kPagePositions - live.begin / kPagePositions;
    bytes += static_cast<std::size_t>(pages) * layout.groups[g].page_bytes();
  }
  return bytes;
}

}  // namespace

const NamedTensor* StateSnapshot::find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const NamedTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::size_t StateSnapshot::byte_size() const {
  std::size_t bytes = 0;
  for (const NamedTensor& tensor : tensors) bytes += tensor.bytes.size();
  return bytes;
}

StateSnapshot snapshot_sequence(const SequenceCache& cache, const SnapshotWords& words) {
  StateSnapshot snapshot{words.family, cache.offset(), {}};
  const std::vector<LayerPlace>& layers = cache.layout().layers;
  for (std::size_t layer = 0; layer < layers.size(); layer++) {
    if (layers[layer].group < 0) continue;
    LayerWriter(snapshot, cache, words, static_cast<int>(layer)).write();
  }
  return snapshot;
}

Result<SequenceCache> restore_sequence(const StateSnapshot& snapshot, const SnapshotWords& words,
                                       PagePool& pool) {
  const KvLayout& layout = pool.layout();
  TRY_ASSIGN(const CheckedSnapshot checked, check_snapshot(snapshot, words, layout));
  TRY(check_finite(checked, words, layout));
  if (const std::size_t bytes = bytes_of(checked, layout); bytes > pool.available_bytes()) {
    return fail(Errc::exhausted,
                fmt::format("{} restore: snapshot of {} tokens takes {} bytes of pages, {} are "
                            "available",
                            words.family, snapshot.token_length, bytes, pool.available_bytes()));
  }
  std::vector<std::vector<PageRef>> pages;
  for (std::size_t g = 0; g < layout.groups.size(); g++) {
    pages.push_back(build_pages(checked, layout, static_cast<int>(g), pool));
  }
  SequenceCache cache(pool);
  cache.adopt(snapshot.token_length, std::move(pages));
  return cache;
}

bool snapshot_truncatable_to(const StateSnapshot& snapshot, const SnapshotWords& words,
                             const KvLayout& layout, Position target) {
  const Result<CheckedSnapshot> checked = check_snapshot(snapshot, words, layout);
  if (!checked || target < 0 || target > snapshot.token_length) return false;
  for (std::size_t g = 0; g < layout.groups.size(); g++) {
    if (!layout.groups[g].span.can_truncate(checked->live[g], target)) return false;
  }
  return true;
}

}  // namespace reprise
