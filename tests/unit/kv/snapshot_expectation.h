// What a snapshot means, written from docs/snapshot_format.md without the reader's code: slot by
// slot a position. And the judge that compares it with what the reader made of the snapshot.
#pragma once
#include <map>
#include <set>

#include <fmt/core.h>

#include "unit/kv/snapshot_support.h"

namespace reprise::test {

// One layer: in which slot each position lies.
struct ExpectedLayer {
  const NamedTensor* keys = nullptr;
  const NamedTensor* values = nullptr;
  std::map<Position, std::int64_t> slot_of;
};

// Finds the state that a snapshot describes; nothing where it describes none.
class Expectation {
 public:
  Expectation(const StateSnapshot& snapshot, const SnapshotWords& words, const KvLayout& layout)
      : snapshot_(snapshot), words_(words), layout_(layout), layers_(layout.layers.size()) {
    is_valid_ = read();
  }

  bool is_valid() const { return is_valid_; }

  // The positions of a group that a cache at `target` keeps and all layers have; nullopt where some
  // layer lacks one that row `target` sees.
  std::optional<PositionRange> live(const SpanGroup& group, Position target) const {
    const Position size = group.span.size;
    Position needed = 0, kept = 0;
    if (group.span.kind == SpanKind::rotating)
      needed = std::max<Position>(0, target + 1 - size),
      kept = std::max<Position>(0, target - size);
    if (group.span.kind == SpanKind::chunked)
      needed = target - target % size, kept = std::max<Position>(0, target - size);
    const auto is_there = [&](Position p) {
      return std::all_of(group.layers.begin(), group.layers.end(), [&](int layer) {
        return layers_[static_cast<std::size_t>(layer)].slot_of.contains(p);
      });
    };
    Position begin = target;
    while (begin > kept && is_there(begin - 1)) begin--;
    if (begin > needed) return std::nullopt;
    return PositionRange{begin, target};
  }

  bool can_truncate(Position target) const {
    if (!is_valid_ || target < 0 || target > snapshot_.token_length) return false;
    return std::all_of(layout_.groups.begin(), layout_.groups.end(),
                       [&](const SpanGroup& group) { return live(group, target).has_value(); });
  }

  // The first thing that a cache at `target` has wrong; empty where all is right.
  std::string difference(const SequenceCache& cache, Position target) const {
    if (cache.offset() != target)
      return fmt::format("offset {}, expected {}", cache.offset(), target);
    for (std::size_t g = 0; g < layout_.groups.size(); g++) {
      const SpanGroup& group = layout_.groups[g];
      const PositionRange held = cache.held(static_cast<int>(g));
      const PositionRange expected = *live(group, target);
      if (held != expected) {
        return fmt::format("group {} holds [{}, {}), expected [{}, {})", g, held.begin, held.end,
                           expected.begin, expected.end);
      }
      for (Position p = held.begin; p < held.end; p++) {
        if (!has_rows_of(cache, static_cast<int>(g), p))
          return fmt::format("group {} has other rows at position {}", g, p);
      }
    }
    return {};
  }

 private:
  // The bytes of a scalar, or the fallback; is_valid_ falls where it is not one i32.
  std::int64_t value_of(const std::string& name, std::int64_t fallback) {
    const NamedTensor* tensor = snapshot_.find(name);
    if (tensor == nullptr) return fallback;
    known_.insert(name);
    std::int32_t value = 0;
    is_valid_ = is_valid_ && tensor->dtype == SnapshotDtype::i32 && tensor->bytes.size() == 4;
    if (is_valid_) std::memcpy(&value, tensor->bytes.data(), 4);
    return value;
  }

  bool read() {
    if (snapshot_.family != words_.family || snapshot_.token_length < 0) return false;
    if (snapshot_.token_length > 0x7fffffff) return false;
    for (std::size_t layer = 0; layer < layers_.size() && is_valid_; layer++) {
      if (layout_.layers[layer].group < 0) continue;
      const SpanGroup& group =
          layout_.groups[static_cast<std::size_t>(layout_.layers[layer].group)];
      const bool is_read = read_layer(group, static_cast<int>(layer));
      if (!is_read || !is_valid_) return false;
    }
    std::set<std::string> names;
    for (const NamedTensor& tensor : snapshot_.tensors) {
      if (!known_.contains(tensor.name) || !names.insert(tensor.name).second) return false;
      std::int64_t bytes = tensor.dtype == SnapshotDtype::f16    ? 2
                           : tensor.dtype == SnapshotDtype::bf16 ? 2
                                                                 : 4;
      for (const std::int64_t extent : tensor.shape) {
        if (extent < 0) return false;
        bytes *= extent;
      }
      if (bytes != static_cast<std::int64_t>(tensor.bytes.size())) return false;
    }
    return can_all_resume() && are_finite();
  }

  bool can_all_resume() const {
    return std::all_of(layout_.groups.begin(), layout_.groups.end(), [&](const SpanGroup& group) {
      return live(group, snapshot_.token_length).has_value();
    });
  }

  bool read_layer(const SpanGroup& group, int layer) {
    const std::string prefix =
        fmt::format("layer{}.{}.", layer, snapshot_word(words_, group.span.kind));
    const Position offset = snapshot_.token_length;
    if (value_of(prefix + "offset", offset) != offset) return false;
    ExpectedLayer& expected = layers_[static_cast<std::size_t>(layer)];
    expected.keys = buffer(prefix + "keys", group, group.shape.head_dim);
    expected.values = buffer(prefix + "values", group, group.shape.value_dim);
    if ((expected.keys == nullptr) != (expected.values == nullptr) || !is_valid_) return false;
    const bool is_absent = expected.keys == nullptr;
    const std::int64_t slots = is_absent ? 0 : expected.keys->shape[2];
    if (!is_absent && expected.values->shape[2] != slots) return false;
    switch (group.span.kind) {
      case SpanKind::standard:
        if (value_of(prefix + "mode", 0) != 0) return false;
        if (is_absent) return true;
        return fill(expected, 0, offset, slots);
      case SpanKind::rotating:
        return read_ring(expected, prefix, group.span.size, slots, is_absent);
      case SpanKind::chunked: {
        const std::int64_t start = value_of(prefix + "start_position", 0);
        if (value_of(prefix + "chunk_size", group.span.size) != group.span.size) return false;
        if (start < 0 || start > offset) return false;
        return is_absent || fill(expected, start, offset - start, slots);
      }
    }
    return false;
  }

  bool read_ring(ExpectedLayer& expected, const std::string& prefix, Position window,
                 std::int64_t slots, bool is_absent) {
    const Position offset = snapshot_.token_length;
    const std::int64_t buffer_size = value_of(prefix + "buffer_size", 0);
    const std::int64_t start = value_of(prefix + "start_position", 0);
    const std::int64_t idx = value_of(prefix + "idx", offset);
    value_of(prefix + "turbo_seed", 0);
    if (value_of(prefix + "mode", 0) != 0 || value_of(prefix + "step", 1) <= 0) return false;
    if (value_of(prefix + "max_size", window) != window) return false;
    if (buffer_size < 0 || start < 0 || idx < 0) return false;
    if (is_absent) return true;
    if (buffer_size > 0) return start + idx == offset && fill(expected, start, idx, slots);
    if (slots >= offset) return idx == offset && fill(expected, 0, offset, slots);
    if (slots != window || idx == slots)
      return idx == slots && fill(expected, offset - slots, slots, slots);
    if (idx == 0 || idx > slots) return false;
    // A ring: the newest lies before idx, and so on backwards, round the end.
    std::int64_t slot = idx;
    for (Position p = offset - 1; p >= offset - slots; p--) {
      slot = slot == 0 ? slots - 1 : slot - 1;
      expected.slot_of[p] = slot;
    }
    return true;
  }

  static bool fill(ExpectedLayer& expected, Position first, std::int64_t count,
                   std::int64_t slots) {
    if (count > slots) return false;
    for (std::int64_t slot = 0; slot < count; slot++) expected.slot_of[first + slot] = slot;
    return true;
  }

  const NamedTensor* buffer(const std::string& name, const SpanGroup& group, int dim) {
    const NamedTensor* tensor = snapshot_.find(name);
    if (tensor == nullptr) return nullptr;
    known_.insert(name);
    const std::vector<std::int64_t>& shape = tensor->shape;
    is_valid_ = is_valid_ && shape.size() == 4 && shape[0] == 1 && shape[1] == group.kv_heads &&
                shape[2] >= 0 && shape[3] == dim && tensor->dtype == SnapshotDtype::f16 &&
                tensor->bytes.size() == static_cast<std::size_t>(shape[1] * shape[2] * dim * 2);
    return tensor;
  }

  std::span<const std::byte> row(const NamedTensor& tensor, std::int64_t slot, int head) const {
    const auto bytes = static_cast<std::size_t>(tensor.shape[3]) * 2;
    const auto index = static_cast<std::size_t>(head * tensor.shape[2] + slot);
    return std::span(tensor.bytes).subspan(index * bytes, bytes);
  }

  bool has_rows_of(const SequenceCache& cache, int g, Position p) const {
    const SpanGroup& group = layout_.groups[static_cast<std::size_t>(g)];
    for (std::size_t i = 0; i < group.layers.size(); i++) {
      const ExpectedLayer& layer = layers_[static_cast<std::size_t>(group.layers[i])];
      for (int head = 0; head < group.kv_heads; head++) {
        std::vector<std::byte> key(group.shape.key_row_bytes());
        std::vector<std::byte> value(group.shape.value_row_bytes());
        read_place(group.shape, cache.page_at(g, p) + group.block_offset(static_cast<int>(i), head),
                   static_cast<int>(p % kPagePositions), key.data(), value.data());
        const std::int64_t slot = layer.slot_of.at(p);
        if (!std::ranges::equal(key, row(*layer.keys, slot, head)) ||
            !std::ranges::equal(value, row(*layer.values, slot, head)))
          return false;
      }
    }
    return true;
  }

  // In the places that a layer would bring along.
  bool are_finite() const {
    for (const SpanGroup& group : layout_.groups) {
      const Position offset = snapshot_.token_length;
      const Position kept = group.span.kind == SpanKind::standard ? 0 : offset - group.span.size;
      for (const int index : group.layers) {
        const ExpectedLayer& layer = layers_[static_cast<std::size_t>(index)];
        for (const auto& [position, slot] : layer.slot_of) {
          for (int head = 0; head < group.kv_heads && position >= kept; head++) {
            if (!is_finite(row(*layer.keys, slot, head))) return false;
            if (!is_finite(row(*layer.values, slot, head))) return false;
          }
        }
      }
    }
    return true;
  }
  static bool is_finite(std::span<const std::byte> halves) {
    for (std::size_t i = 1; i < halves.size(); i += 2)
      if ((std::to_integer<int>(halves[i]) & 0x7c) == 0x7c) return false;
    return true;
  }

  const StateSnapshot& snapshot_;
  const SnapshotWords& words_;
  const KvLayout& layout_;
  std::vector<ExpectedLayer> layers_;
  std::set<std::string> known_;
  bool is_valid_ = true;
};

struct Verdict {
  bool is_restored = false;
  std::string complaint;  // empty: the reader did right
};

// Restores the snapshot, whole and cut to `target`: an error exactly where it describes no state
// (or has non-finite rows only in what the cut leaves out), else exactly that state. The pool is
// f16.
inline Verdict judge(const StateSnapshot& snapshot, const SnapshotWords& words, PagePool& pool,
                     Position target) {
  const std::size_t used = pool.used_bytes();
  const Expectation expected(snapshot, words, pool.layout());
  Verdict verdict;
  {
    const Result<SequenceCache> restored = restore_sequence(snapshot, words, pool);
    verdict.is_restored = restored.has_value();
    if (restored.has_value() != expected.is_valid()) {
      verdict.complaint = restored ? "restored what is no snapshot"
                                   : "refused a valid snapshot: " + restored.error().message;
      return verdict;
    }
    if (restored) verdict.complaint = expected.difference(*restored, snapshot.token_length);
    if (!restored && restored.error().message.find('\n') != std::string::npos)
      verdict.complaint = "an error of more than one line";
  }
  if (!verdict.complaint.empty() || !expected.is_valid()) return verdict;
  const bool can = expected.can_truncate(target);
  if (snapshot_truncatable_to(snapshot, words, pool.layout(), target) != can) {
    verdict.complaint = fmt::format("truncatable to {}: expected {}", target, can);
    return verdict;
  }
  {
    const auto truncated = restore_sequence_truncated(snapshot, words, pool, target);
    // A shorter cache keeps earlier places, in which a number may not be finite.
    const bool is_poisoned = !truncated && truncated.error().code == Errc::corrupt;
    if (truncated.has_value() != can && !is_poisoned)
      verdict.complaint = fmt::format("cut to {}: expected {}", target, can);
    if (truncated) verdict.complaint = expected.difference(*truncated, target);
  }
  if (pool.used_bytes() != used) verdict.complaint = "pages were left behind";
  return verdict;
}

}  // namespace reprise::test
