// The three attention kinds as the snapshot contract writes them. Every scalar and shape is checked
// here, before anything is built.
#include "kv/snapshot_layer.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/bytes.h"
#include "base/printable.h"

namespace reprise {
namespace {

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

}  // namespace

// Reads the fields of one layer into `state_`. `where_` names family, layer and kind in every
// message.
class LayerReader {
 public:
  LayerReader(SnapshotIndex& index, const SnapshotWords& words, const SpanGroup& group, int layer,
              Position token_length)
      : index_(index),
        group_(group),
        kind_(snapshot_word(words, group.span.kind)),
        prefix_(snapshot_prefix(words, group.span.kind, layer)),
        token_length_(token_length) {
    state_.group_ = &group;
    state_.family_ = words.family;
    state_.layer_ = fmt::format("layer{}: {}", layer, kind_);
    state_.prefix_ = prefix_;
    state_.offset_ = token_length;
    state_.held_ = {token_length, token_length};
    where_ = fmt::format("{} restore {}", words.family, state_.layer_);
  }

  Result<LayerState> read();

 private:
  template <class... Arguments>
  std::unexpected<Error> refuse(Errc code, std::string_view field,
                                fmt::format_string<Arguments...> format,
                                Arguments&&... arguments) const {
    return fail(
        code,
        fmt::format("{} {}", where_, fmt::format(format, std::forward<Arguments>(arguments)...)),
        prefix_ + std::string(field));
  }

  // A one-element i32 tensor, or `fallback` where it is absent.
  Result<std::int64_t> scalar(std::string_view field, std::int64_t fallback);
  Status check_offset();
  Status check_mode();
  Status read_buffers();
  Status check_buffer(const NamedTensor& tensor, std::string_view field, int dim) const;
  Status check_needed() const;
  Status read_standard();
  Status read_rotating();
  Status check_ring_scalars(std::int64_t max_size, std::int64_t buffer_size, std::int64_t start,
                            std::int64_t idx, std::int64_t step) const;
  Status place_ring(std::int64_t idx);
  Status place_temporal(std::int64_t start, std::int64_t idx);
  Status read_chunked();

  SnapshotIndex& index_;
  const SpanGroup& group_;
  std::string_view kind_;
  std::string prefix_;
  std::string where_;
  Position token_length_;
  LayerState state_;
};

Result<std::int64_t> LayerReader::scalar(std::string_view field, std::int64_t fallback) {
  const NamedTensor* tensor = index_.find(prefix_ + std::string(field));
  if (tensor == nullptr) return fallback;
  if (tensor->dtype != SnapshotDtype::i32 || tensor->bytes.size() != sizeof(std::int32_t)) {
    return refuse(Errc::corrupt, field, "snapshot {} is {} with shape {}, expected one i32", field,
                  snapshot_dtype_name(tensor->dtype), shape_text(*tensor));
  }
  std::int32_t value = 0;
  std::memcpy(&value, tensor->bytes.data(), sizeof(value));
  return value;
}

Status LayerReader::check_offset() {
  TRY_ASSIGN(const std::int64_t offset, scalar("offset", token_length_));
  if (offset < 0) {
    return refuse(Errc::corrupt, "offset",
                  "snapshot declares a negative length: offset {}, expected {}", offset,
                  token_length_);
  }
  if (offset != token_length_) {
    return refuse(Errc::corrupt, "offset", "snapshot offset {} does not match its token length {}",
                  offset, token_length_);
  }
  return {};
}

// Chunked layers have no mode of their own; what is absent is fp16.
Status LayerReader::check_mode() {
  std::int64_t mode = kSnapshotModeFp16;
  if (group_.span.kind != SpanKind::chunked) {
    TRY_ASSIGN(mode, scalar("mode", kSnapshotModeFp16));
  }
  const Result<std::string_view> name = kv_mode_name(mode);
  if (!name) {
    return refuse(Errc::corrupt, "mode",
                  "snapshot has unknown cache mode tag {}, expected 0 (fp16)", mode);
  }
  if (mode != kSnapshotModeFp16) {
    return refuse(Errc::unsupported, "mode",
                  "snapshot mode {} (tag {}) is not supported, expected fp16 (tag 0)", *name, mode);
  }
  const std::int32_t configured = kv_mode_tag(group_.shape.type);
  if (configured == kSnapshotModeFp16) return {};
  return refuse(Errc::unsupported, "mode",
                "snapshot mode {} (tag {}) does not match configured cache mode {} (tag {})", *name,
                mode, *kv_mode_name(configured), configured);
}

Status LayerReader::check_buffer(const NamedTensor& tensor, std::string_view field, int dim) const {
  if (tensor.shape.size() != 4) {
    return refuse(Errc::corrupt, field, "snapshot: expected rank-4 {} {}, got shape {}", kind_,
                  field, shape_text(tensor));
  }
  const SnapshotDtype dtype = snapshot_dtype(group_.shape.type);
  if (tensor.dtype != dtype) {
    return refuse(Errc::invalid_argument, field, "snapshot {} are {}, expected {}", field,
                  snapshot_dtype_name(tensor.dtype), snapshot_dtype_name(dtype));
  }
  if (tensor.shape[0] != 1 || tensor.shape[1] != group_.kv_heads || tensor.shape[3] != dim) {
    return refuse(Errc::invalid_argument, field,
                  "snapshot {} have shape {}, expected [1, {}, tokens, {}]", field,
                  shape_text(tensor), group_.kv_heads, dim);
  }
  return {};
}

// Keys and values: both, or neither where nothing is needed.
Status LayerReader::read_buffers() {
  const NamedTensor* keys = index_.find(prefix_ + "keys");
  const NamedTensor* values = index_.find(prefix_ + "values");
  if ((keys == nullptr) != (values == nullptr)) {
    return refuse(Errc::corrupt, keys == nullptr ? "keys" : "values",
                  "snapshot has only one of keys/values: got {} only, expected both",
                  keys == nullptr ? "values" : "keys");
  }
  if (keys == nullptr) {
    const PositionRange needed = group_.span.needed(token_length_);
    if (needed.is_empty()) return {};
    return refuse(Errc::corrupt, "keys",
                  "snapshot is missing its keys buffer: got 0 tokens, expected [{}, {})",
                  needed.begin, needed.end);
  }
  TRY(check_buffer(*keys, "keys", group_.shape.head_dim));
  TRY(check_buffer(*values, "values", group_.shape.value_dim));
  if (keys->shape[2] != values->shape[2]) {
    return refuse(Errc::corrupt, "values",
                  "snapshot keys {} and values {} disagree on batch, heads or length",
                  shape_text(*keys), shape_text(*values));
  }
  state_.keys_ = keys;
  state_.values_ = values;
  state_.slots_ = keys->shape[2];
  return {};
}

Status LayerReader::check_needed() const {
  const PositionRange needed = group_.span.needed(token_length_);
  if (state_.held_.contains(needed)) return {};
  return refuse(Errc::corrupt, "keys", "snapshot keys hold tokens [{}, {}), expected [{}, {})",
                state_.held_.begin, state_.held_.end, needed.begin, needed.end);
}

Status LayerReader::read_standard() {
  TRY(read_buffers());
  if (state_.keys_ == nullptr) return {};
  if (state_.slots_ < token_length_) {
    return refuse(Errc::corrupt, "keys", "snapshot declares {} tokens but its keys buffer holds {}",
                  token_length_, state_.slots_);
  }
  state_.held_ = {0, token_length_};
  return {};
}

Status LayerReader::check_ring_scalars(std::int64_t max_size, std::int64_t buffer_size,
                                       std::int64_t start, std::int64_t idx,
                                       std::int64_t step) const {
  const Position window = group_.span.size;
  if (max_size <= 0) {
    return refuse(Errc::corrupt, "max_size",
                  "snapshot requires positive max_size; got {}, expected {}", max_size, window);
  }
  if (max_size != window) {
    return refuse(Errc::invalid_argument, "max_size",
                  "snapshot window {} (max_size) does not match configured window {}", max_size,
                  window);
  }
  if (buffer_size < 0) {
    return refuse(Errc::corrupt, "buffer_size",
                  "snapshot requires non-negative buffer_size; got {}", buffer_size);
  }
  if (start < 0 || idx < 0) {
    return refuse(Errc::corrupt, start < 0 ? "start_position" : "idx",
                  "snapshot requires non-negative offset/start/idx; got offset={}, "
                  "start_position={}, idx={}",
                  token_length_, start, idx);
  }
  if (step <= 0)
    return refuse(Errc::corrupt, "step", "snapshot requires positive step; got {}", step);
  return {};
}

Status LayerReader::read_rotating() {
  TRY_ASSIGN(const std::int64_t max_size, scalar("max_size", group_.span.size));
  TRY_ASSIGN(const std::int64_t buffer_size, scalar("buffer_size", 0));
  TRY_ASSIGN(const std::int64_t start, scalar("start_position", 0));
  TRY_ASSIGN(const std::int64_t idx, scalar("idx", token_length_));
  TRY_ASSIGN(const std::int64_t step, scalar("step", 256));
  TRY_ASSIGN([[maybe_unused]] const std::int64_t seed, scalar("turbo_seed", 0));
  TRY(check_ring_scalars(max_size, buffer_size, start, idx, step));
  TRY(read_buffers());
  if (state_.keys_ == nullptr) return {};
  if (idx > state_.slots_) {
    return refuse(Errc::corrupt, "idx", "snapshot idx {} exceeds physical length {}", idx,
                  state_.slots_);
  }
  return buffer_size > 0 ? place_temporal(start, idx) : place_ring(idx);
}

// Ring mode: slot `idx` is written next. Unwrapped, position p lies in slot p; else the oldest
// token lies at idx, or at 0 where idx is the end.
Status LayerReader::place_ring(std::int64_t idx) {
  const Position window = group_.span.size;
  const std::int64_t slots = state_.slots_;
  if (token_length_ <= slots) {
    if (idx != token_length_) {
      return refuse(Errc::corrupt, "idx",
                    "snapshot idx {} of an unwrapped ring, expected offset {}", idx, token_length_);
    }
    state_.held_ = {0, token_length_};
    return {};
  }
  // Only a ring of exactly the window's size goes round.
  if (idx != slots && (slots != window || idx == 0)) {
    return refuse(Errc::corrupt, "idx",
                  "snapshot idx {} of a wrapped ring with {} slots, expected {} to {} (window {})",
                  idx, slots, slots == window ? 1 : slots, slots, window);
  }
  state_.held_ = {token_length_ - slots, token_length_};
  if (slots > 0) state_.first_slot_ = idx % slots;
  return {};
}

// Temporal mode: slots [0, idx) hold positions [start, start + idx).
Status LayerReader::place_temporal(std::int64_t start, std::int64_t idx) {
  if (start + idx != token_length_) {
    return refuse(Errc::corrupt, "start_position",
                  "snapshot buffered window [{}, {}) (start_position, idx) does not end at "
                  "offset {}",
                  start, start + idx, token_length_);
  }
  state_.held_ = {start, token_length_};
  return {};
}

Status LayerReader::read_chunked() {
  const Position chunk = group_.span.size;
  TRY_ASSIGN(const std::int64_t chunk_size, scalar("chunk_size", chunk));
  TRY_ASSIGN(const std::int64_t start, scalar("start_position", 0));
  if (chunk_size != chunk) {
    return refuse(Errc::invalid_argument, "chunk_size",
                  "snapshot chunk size {} (chunk_size) does not match configured chunk size {}",
                  chunk_size, chunk);
  }
  if (start < 0 || start > token_length_) {
    return refuse(Errc::corrupt, "start_position",
                  "snapshot window [{}, {}) is not a valid range, expected start_position 0 to {}",
                  start, token_length_, token_length_);
  }
  TRY(read_buffers());
  if (state_.keys_ == nullptr) return {};
  if (state_.slots_ < token_length_ - start) {
    return refuse(Errc::corrupt, "keys",
                  "snapshot declares {} tokens but its keys buffer holds {} (start_position {})",
                  token_length_ - start, state_.slots_, start);
  }
  state_.held_ = {start, token_length_};
  return {};
}

Result<LayerState> LayerReader::read() {
  TRY(check_offset());
  TRY(check_mode());
  switch (group_.span.kind) {
    case SpanKind::standard:
      TRY(read_standard());
      break;
    case SpanKind::rotating:
      TRY(read_rotating());
      break;
    case SpanKind::chunked:
      TRY(read_chunked());
      break;
  }
  TRY(check_needed());
  return std::move(state_);
}

Result<LayerState> read_layer(SnapshotIndex& index, const SnapshotWords& words,
                              const SpanGroup& group, int layer, Position token_length) {
  return LayerReader(index, words, group, layer, token_length).read();
}

PositionRange LayerState::live() const {
  return {std::max(held_.begin, group_->span.kept(offset_).begin), offset_};
}

bool LayerState::snapshot_truncatable_to(Position target) const {
  return group_->span.can_truncate(held_, target);
}

Status LayerState::truncate_to(Position target) {
  const auto refuse = [&](Errc code, const std::string& what) {
    return fail(code, fmt::format("{} truncate {} {}", family_, layer_, what), prefix_ + "offset");
  };
  if (target < 0) {
    return refuse(Errc::invalid_argument,
                  fmt::format("target {} is negative, expected 0 to {}", target, offset_));
  }
  if (target > offset_) {
    return refuse(Errc::invalid_argument,
                  fmt::format("target {} exceeds cached offset {}", target, offset_));
  }
  if (!snapshot_truncatable_to(target)) {
    const PositionRange needed = group_->span.needed(target);
    const bool is_ring = group_->span.kind == SpanKind::rotating;
    return refuse(Errc::unsupported,
                  fmt::format("cache has {}: target {} needs tokens [{}, {}), got [{}, {})",
                              is_ring ? "wrapped and cannot be trimmed"
                                      : "trimmed its front and cannot be truncated",
                              target, needed.begin, needed.end, held_.begin, held_.end));
  }
  offset_ = target;
  held_.end = target;
  held_.begin = std::min(held_.begin, target);  // at a chunk edge nothing is needed
  return {};
}

std::span<const std::byte> LayerState::row(const NamedTensor& tensor, int head, Position position,
                                           std::size_t row_bytes) const {
  const std::int64_t slot = (first_slot_ + (position - held_.begin)) % slots_;
  const auto index = static_cast<std::size_t>(head * slots_ + slot);
  return std::span(tensor.bytes).subspan(index * row_bytes, row_bytes);
}

std::span<const std::byte> LayerState::key_row(int head, Position position) const {
  return row(*keys_, head, position, group_->shape.key_row_bytes());
}

std::span<const std::byte> LayerState::value_row(int head, Position position) const {
  return row(*values_, head, position, group_->shape.value_row_bytes());
}

Status LayerState::check_finite() const {
  const PositionRange places = live();
  for (int head = 0; head < group_->kv_heads; head++) {
    for (Position p = places.begin; p < places.end; p++) {
      const bool keys_are = is_finite(key_row(head, p), group_->shape.type);
      if (keys_are && is_finite(value_row(head, p), group_->shape.type)) continue;
      const std::string_view field = keys_are ? "values" : "keys";
      return fail(Errc::corrupt,
                  fmt::format("{} restore {} snapshot {} have a number that is not finite at head "
                              "{}, position {}, expected finite numbers",
                              family_, layer_, field, head, p),
                  prefix_ + std::string(field));
    }
  }
  return {};
}

Result<SnapshotIndex> SnapshotIndex::build(const StateSnapshot& snapshot) {
  SnapshotIndex index;
  for (const NamedTensor& tensor : snapshot.tensors) {
    if (!index.tensors_.emplace(tensor.name, &tensor).second) {
      return fail(Errc::corrupt,
                  fmt::format("{} restore: got tensor {} twice, expected it once",
                              printable(snapshot.family), printable(tensor.name)),
                  tensor.name);
    }
    std::optional<std::uint64_t> bytes = snapshot_dtype_bytes(tensor.dtype);
    for (const std::int64_t extent : tensor.shape) {
      if (extent < 0) bytes.reset();
      if (bytes) bytes = checked_multiply(*bytes, static_cast<std::uint64_t>(extent));
    }
    if (!bytes || *bytes != tensor.bytes.size()) {
      return fail(
          Errc::corrupt,
          fmt::format("{} restore: tensor {} has {} bytes, expected {} for {} shape {}",
                      printable(snapshot.family), printable(tensor.name), tensor.bytes.size(),
                      bytes ? std::to_string(*bytes) : "a possible size",
                      snapshot_dtype_name(tensor.dtype), shape_text(tensor)),
          tensor.name);
    }
  }
  return index;
}

const NamedTensor* SnapshotIndex::find(const std::string& name) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return nullptr;
  used_.insert(found->first);
  return found->second;
}

Status SnapshotIndex::check_all_used(const SnapshotWords& words, std::size_t layers) const {
  if (used_.size() == tensors_.size()) return {};
  const auto is_left_over = [&](const auto& entry) { return !used_.contains(entry.first); };
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), is_left_over);
  return fail(Errc::corrupt,
              fmt::format("{} restore: got tensor {}, expected only tensors of this model's {} "
                          "layers and their kinds",
                          words.family, printable(found->first), layers),
              std::string(found->first));
}

}  // namespace reprise
