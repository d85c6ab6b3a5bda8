// Writes a sequence as a snapshot in canonical form, and builds a sequence from a checked snapshot.
#include "kv/kv_snapshot.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/printable.h"
#include "kv/page_places.h"

namespace reprise {
namespace {

constexpr std::int32_t kStep = 256;              // growth step of the original's buffers
constexpr std::int32_t kTurboSeed = 0x7B470404;  // the original's default; without effect in fp16

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
    keys.bytes.resize(rows * shape.key_row_bytes());
    values.bytes.resize(rows * shape.value_row_bytes());
    std::byte* key = keys.bytes.data();
    std::byte* value = values.bytes.data();
    for (int head = 0; head < group_.kv_heads; head++) {
      const std::size_t block = group_.block_offset(place_.index, head);
      for (Position p = live.begin; p < live.end; p++) {
        read_place(shape, cache_.page_at(place_.group, p) + block,
                   static_cast<int>(p % kPagePositions), key, value);
        key += shape.key_row_bytes();
        value += shape.value_row_bytes();
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

// One state a model layer; that of a layer that owns nothing is empty.
using LayerStates = std::vector<LayerState>;

Status check_header(const StateSnapshot& snapshot, const SnapshotWords& words) {
  if (snapshot.family != words.family) {
    return fail(
        Errc::invalid_argument,
        fmt::format("cannot restore {} snapshot into {}", printable(snapshot.family), words.family),
        "family");
  }
  constexpr Position kLengthMax = std::numeric_limits<std::int32_t>::max();
  if (snapshot.token_length < 0 || snapshot.token_length > kLengthMax) {
    return fail(Errc::corrupt,
                fmt::format("{} restore: snapshot token length {}, expected 0 to {}", words.family,
                            snapshot.token_length, kLengthMax),
                "token_length");
  }
  return {};
}

// All but the content of the rows.
Result<LayerStates> read_layers(const StateSnapshot& snapshot, const SnapshotWords& words,
                                const KvLayout& layout) {
  TRY(check_header(snapshot, words));
  TRY_ASSIGN(SnapshotIndex index, SnapshotIndex::build(snapshot));
  LayerStates layers(layout.layers.size());
  for (const SpanGroup& group : layout.groups) {
    for (const int layer : group.layers) {
      TRY_ASSIGN(layers[static_cast<std::size_t>(layer)],
                 read_layer(index, words, group, layer, snapshot.token_length));
    }
  }
  TRY(index.check_all_used(words, layout.layers.size()));
  return layers;
}

// What all layers of the group hold.
PositionRange common_live(std::span<const LayerState> layers, const SpanGroup& group) {
  PositionRange live = layers[static_cast<std::size_t>(group.layers.front())].live();
  for (const int layer : group.layers) {
    const PositionRange own = layers[static_cast<std::size_t>(layer)].live();
    CHECK(own.end == live.end);
    live.begin = std::max(live.begin, own.begin);
  }
  return live;
}

// The pages of one group, filled from its layers. The pool has room.
std::vector<PageRef> build_pages(std::span<const LayerState> layers, PagePool& pool, int index,
                                 PositionRange live) {
  const SpanGroup& group = pool.layout().groups[static_cast<std::size_t>(index)];
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
      const LayerState& layer = layers[static_cast<std::size_t>(group.layers[i])];
      for (int head = 0; head < group.kv_heads; head++) {
        std::uint8_t* block = page->data() + group.block_offset(static_cast<int>(i), head);
        for (Position p = begin; p < end; p++) {
          write_place(group.shape, block, static_cast<int>(p - start),
                      layer.key_row(head, p).data(), layer.value_row(head, p).data());
        }
      }
    }
    page->set_written(static_cast<int>(end - start));
    pages[static_cast<std::size_t>(start / kPagePositions)] = std::move(*page);
  }
  return pages;
}

std::size_t bytes_of(const SpanGroup& group, PositionRange live) {
  if (live.is_empty()) return 0;
  const Position pages =
      (live.end + kPagePositions - 1) / kPagePositions - live.begin / kPagePositions;
  return static_cast<std::size_t>(pages) * group.page_bytes();
}

Result<SequenceCache> restore(const StateSnapshot& snapshot, const SnapshotWords& words,
                              PagePool& pool, std::optional<Position> target) {
  TRY_ASSIGN(LayerStates layers, read_layers(snapshot, words, pool.layout()));
  for (const SpanGroup& group : pool.layout().groups) {
    for (const int layer : group.layers) {
      LayerState& state = layers[static_cast<std::size_t>(layer)];
      if (target) TRY(state.truncate_to(*target));
      TRY(state.check_finite());
    }
  }
  return build_sequence(layers, words, pool);
}

}  // namespace

Status check_snapshot_mode(const KvLayout& layout, const SnapshotWords& words) {
  for (const SpanGroup& group : layout.groups) {
    const std::int32_t tag = kv_mode_tag(group.shape.type);
    if (tag == kSnapshotModeFp16) continue;
    const int layer = group.layers.front();
    return fail(Errc::unsupported,
                fmt::format("{} snapshot layer{}: {} cache mode {} (tag {}) is not supported by "
                            "model-state snapshots, expected fp16 (tag 0)",
                            words.family, layer, snapshot_word(words, group.span.kind),
                            *kv_mode_name(tag), tag),
                snapshot_prefix(words, group.span.kind, layer) + "mode");
  }
  return {};
}

bool supports_snapshot_reuse(const KvLayout& layout) {
  return check_snapshot_mode(layout, {}).has_value();
}

Status snapshot_into(const SequenceCache& cache, int layer, const SnapshotWords& words,
                     StateSnapshot& snapshot) {
  TRY(check_snapshot_mode(cache.layout(), words));
  if (cache.layout().layers[static_cast<std::size_t>(layer)].group < 0) return {};
  LayerWriter(snapshot, cache, words, layer).write();
  return {};
}

Result<LayerState> restore_from(const StateSnapshot& snapshot, int layer,
                                const SnapshotWords& words, const KvLayout& layout) {
  TRY(check_header(snapshot, words));
  TRY_ASSIGN(SnapshotIndex index, SnapshotIndex::build(snapshot));
  const int group = layout.layers[static_cast<std::size_t>(layer)].group;
  CHECK(group >= 0);  // a layer that owns nothing has no state
  TRY_ASSIGN(LayerState state,
             read_layer(index, words, layout.groups[static_cast<std::size_t>(group)], layer,
                        snapshot.token_length));
  TRY(state.check_finite());
  return state;
}

Result<SequenceCache> build_sequence(std::span<const LayerState> layers, const SnapshotWords& words,
                                     PagePool& pool) {
  const KvLayout& layout = pool.layout();
  CHECK(layers.size() == layout.layers.size() && !layout.groups.empty());
  std::vector<PositionRange> live;
  std::size_t bytes = 0;
  for (const SpanGroup& group : layout.groups) {
    live.push_back(common_live(layers, group));
    CHECK(live.back().end == live.front().end);
    bytes += bytes_of(group, live.back());
  }
  const Position length = live.front().end;
  if (bytes > pool.available_bytes()) {
    return fail(Errc::exhausted,
                fmt::format("{} restore: snapshot of {} tokens takes {} bytes of pages, {} are "
                            "available",
                            words.family, length, bytes, pool.available_bytes()));
  }
  std::vector<std::vector<PageRef>> pages;
  for (std::size_t g = 0; g < layout.groups.size(); g++)
    pages.push_back(build_pages(layers, pool, static_cast<int>(g), live[g]));
  SequenceCache cache(pool);
  cache.adopt(length, std::move(pages));
  return cache;
}

Result<StateSnapshot> snapshot_sequence(const SequenceCache& cache, const SnapshotWords& words) {
  StateSnapshot snapshot{words.family, cache.offset(), {}};
  for (std::size_t layer = 0; layer < cache.layout().layers.size(); layer++)
    TRY(snapshot_into(cache, static_cast<int>(layer), words, snapshot));
  return snapshot;
}

Result<SequenceCache> restore_sequence(const StateSnapshot& snapshot, const SnapshotWords& words,
                                       PagePool& pool) {
  return restore(snapshot, words, pool, std::nullopt);
}

Result<SequenceCache> restore_sequence_truncated(const StateSnapshot& snapshot,
                                                 const SnapshotWords& words, PagePool& pool,
                                                 Position target) {
  return restore(snapshot, words, pool, target);
}

bool snapshot_truncatable_to(const StateSnapshot& snapshot, const SnapshotWords& words,
                             const KvLayout& layout, Position target) {
  const Result<LayerStates> layers = read_layers(snapshot, words, layout);
  if (!layers) return false;
  const auto can = [&](int layer) {
    return (*layers)[static_cast<std::size_t>(layer)].snapshot_truncatable_to(target);
  };
  return std::all_of(layout.groups.begin(), layout.groups.end(), [&](const SpanGroup& group) {
    return std::all_of(group.layers.begin(), group.layers.end(), can);
  });
}

}  // namespace reprise
