// The three attention kinds as the snapshot contract writes them. Every scalar and shape is checked
// here, before anything is built.
#include "kv/snapshot_layer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/bytes.h"

namespace reprise {
namespace {

constexpr std::array<std::string_view, 6> kModeNames = {
    "fp16", "int8", "fp16+turbo4", "fp16+turbo3", "turbo4", "turbo4-delegated"};

std::string shape_text(const NamedTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ", "));
}

// Reads the fields of one layer. `where` names family, layer and kind in every message.
class LayerReader {
 public:
  LayerReader(SnapshotIndex& index, const SnapshotWords& words, const SpanGroup& group, int layer,
              Position token_length)
      : index_(index),
        group_(group),
        kind_(snapshot_word(words, group.span.kind)),
        prefix_(snapshot_prefix(words, group.span.kind, layer)),
        where_(fmt::format("{} restore layer{}: {}", words.family, layer, kind_)),
        token_length_(token_length) {}

  Result<LayerSource> read();

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
  Status read_buffers(LayerSource& source);
  Status check_buffer(const NamedTensor& tensor, std::string_view field, int dim) const;
  Status check_needed(const LayerSource& source) const;
  Status read_standard(LayerSource& source);
  Status read_rotating(LayerSource& source);
  Status place_ring(LayerSource& source, std::int64_t idx) const;
  Status place_temporal(LayerSource& source, std::int64_t start, std::int64_t idx) const;
  Status read_chunked(LayerSource& source);

  SnapshotIndex& index_;
  const SpanGroup& group_;
  std::string_view kind_;
  std::string prefix_;
  std::string where_;
  Position token_length_;
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
  if (offset < 0)
    return refuse(Errc::corrupt, "offset", "snapshot declares a negative length: offset {}",
                  offset);
  if (offset != token_length_) {
    return refuse(Errc::corrupt, "offset", "snapshot offset {} does not match its token length {}",
                  offset, token_length_);
  }
  return {};
}

Status LayerReader::check_mode() {
  TRY_ASSIGN(const std::int64_t mode, scalar("mode", kSnapshotModeFp16));
  if (mode == kSnapshotModeFp16) return {};
  if (mode < 0 || mode >= static_cast<std::int64_t>(kModeNames.size())) {
    return refuse(Errc::corrupt, "mode",
                  "snapshot has unknown cache mode tag {}, expected 0 (fp16)", mode);
  }
  return refuse(Errc::unsupported, "mode",
                "snapshot mode {} (tag {}) is not supported, expected fp16 (tag 0)",
                kModeNames[static_cast<std::size_t>(mode)], mode);
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
Status LayerReader::read_buffers(LayerSource& source) {
  source.keys = index_.find(prefix_ + "keys");
  source.values = index_.find(prefix_ + "values");
  if ((source.keys == nullptr) != (source.values == nullptr)) {
    return refuse(Errc::corrupt, source.keys == nullptr ? "keys" : "values",
                  "snapshot has only one of keys/values: {} only",
                  source.keys == nullptr ? "values" : "keys");
  }
  if (source.keys == nullptr) {
    const PositionRange needed = group_.span.needed(token_length_);
    if (needed.is_empty()) return {};
    return refuse(Errc::corrupt, "keys",
                  "snapshot is missing its keys buffer: got 0 tokens, expected [{}, {})",
                  needed.begin, needed.end);
  }
  TRY(check_buffer(*source.keys, "keys", group_.shape.head_dim));
  TRY(check_buffer(*source.values, "values", group_.shape.value_dim));
  if (source.keys->shape[2] != source.values->shape[2]) {
    return refuse(Errc::corrupt, "values",
                  "snapshot keys {} and values {} disagree on batch, heads or length",
                  shape_text(*source.keys), shape_text(*source.values));
  }
  source.slots = source.keys->shape[2];
  return {};
}

Status LayerReader::check_needed(const LayerSource& source) const {
  const PositionRange needed = group_.span.needed(token_length_);
  if (source.live.contains(needed)) return {};
  return refuse(Errc::corrupt, "keys", "snapshot keeps tokens [{}, {}), expected [{}, {})",
                source.live.begin, source.live.end, needed.begin, needed.end);
}

Status LayerReader::read_standard(LayerSource& source) {
  TRY(check_mode());
  TRY(read_buffers(source));
  if (source.keys == nullptr) return {};
  if (source.slots < token_length_) {
    return refuse(Errc::corrupt, "keys", "snapshot declares {} tokens but its buffer holds {}",
                  token_length_, source.slots);
  }
  source.live = {0, token_length_};
  return {};
}

Status LayerReader::read_rotating(LayerSource& source) {
  const Position window = group_.span.size;
  TRY(check_mode());
  TRY_ASSIGN(const std::int64_t max_size, scalar("max_size", window));
  TRY_ASSIGN(const std::int64_t buffer_size, scalar("buffer_size", 0));
  TRY_ASSIGN(const std::int64_t start, scalar("start_position", 0));
  TRY_ASSIGN(const std::int64_t idx, scalar("idx", token_length_));
  TRY_ASSIGN(const std::int64_t step, scalar("step", 256));
  TRY_ASSIGN([[maybe_unused]] const std::int64_t seed, scalar("turbo_seed", 0));
  if (max_size <= 0)
    return refuse(Errc::corrupt, "max_size", "snapshot requires positive max_size; got {}",
                  max_size);
  if (max_size != window) {
    return refuse(Errc::invalid_argument, "max_size",
                  "snapshot window {} does not match configured window {}", max_size, window);
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
  TRY(read_buffers(source));
  if (source.keys == nullptr) return {};
  if (idx > source.slots) {
    return refuse(Errc::corrupt, "idx", "snapshot idx {} exceeds physical length {}", idx,
                  source.slots);
  }
  if (buffer_size > 0) return place_temporal(source, start, idx);
  return place_ring(source, idx);
}

// Ring mode: slot `idx` is written next. Unwrapped, position p lies in slot p; else the oldest
// token lies at idx, or at 0 where idx is the end.
Status LayerReader::place_ring(LayerSource& source, std::int64_t idx) const {
  const Position window = group_.span.size;
  if (token_length_ <= source.slots) {
    if (idx != token_length_) {
      return refuse(Errc::corrupt, "idx",
                    "snapshot idx {} of an unwrapped ring, expected offset {}", idx, token_length_);
    }
    source.live = {std::max<Position>(0, token_length_ - window), token_length_};
    source.first_slot = source.live.begin;
    return {};
  }
  // Only a ring of exactly the window's size goes round.
  if (idx != source.slots && (source.slots != window || idx == 0)) {
    return refuse(Errc::corrupt, "idx",
                  "snapshot idx {} of a wrapped ring with {} slots, expected {} (window {})", idx,
                  source.slots, source.slots, window);
  }
  const Position count = std::min<Position>(source.slots, window);
  source.live = {token_length_ - count, token_length_};
  // The newest token lies at idx - 1.
  if (source.slots > 0) source.first_slot = (idx - count + source.slots) % source.slots;
  return {};
}

// Temporal mode: slots [0, idx) hold positions [start, start + idx).
Status LayerReader::place_temporal(LayerSource& source, std::int64_t start,
                                   std::int64_t idx) const {
  if (start + idx != token_length_) {
    return refuse(Errc::corrupt, "start_position",
                  "snapshot buffered window [{}, {}) does not end at offset {}", start, start + idx,
                  token_length_);
  }
  source.live = {std::max<Position>(start, token_length_ - group_.span.size), token_length_};
  source.first_slot = source.live.begin - start;
  return {};
}

Status LayerReader::read_chunked(LayerSource& source) {
  const Position chunk = group_.span.size;
  TRY_ASSIGN(const std::int64_t chunk_size, scalar("chunk_size", chunk));
  TRY_ASSIGN(const std::int64_t start, scalar("start_position", 0));
  if (chunk_size != chunk) {
    return refuse(Errc::invalid_argument, "chunk_size",
                  "snapshot chunk size {} does not match configured chunk size {}", chunk_size,
                  chunk);
  }
  if (start < 0 || start > token_length_) {
    return refuse(Errc::corrupt, "start_position", "snapshot window [{}, {}) is not a valid range",
                  start, token_length_);
  }
  TRY(read_buffers(source));
  if (source.keys == nullptr) return {};
  if (source.slots < token_length_ - start) {
    return refuse(Errc::corrupt, "keys", "snapshot declares {} tokens but its buffer holds {}",
                  token_length_ - start, source.slots);
  }
  source.live = {std::max<Position>(start, token_length_ - chunk), token_length_};
  source.first_slot = source.live.begin - start;
  return {};
}

Result<LayerSource> LayerReader::read() {
  LayerSource source;
  source.live = {token_length_, token_length_};
  TRY(check_offset());
  switch (group_.span.kind) {
    case SpanKind::standard:
      TRY(read_standard(source));
      break;
    case SpanKind::rotating:
      TRY(read_rotating(source));
      break;
    case SpanKind::chunked:
      TRY(read_chunked(source));
      break;
  }
  TRY(check_needed(source));
  return source;
}

}  // namespace

std::string_view snapshot_word(const SnapshotWords& words, SpanKind kind) {
  switch (kind) {
    case SpanKind::standard:
      return words.standard;
    case SpanKind::rotating:
      return words.rotating;
    case SpanKind::chunked:
      return words.chunked;
  }
  return words.standard;
}

SnapshotDtype snapshot_dtype(kernels::KvType type) {
  switch (type) {
    case kernels::KvType::f16:
      return SnapshotDtype::f16;
    case kernels::KvType::bf16:
      return SnapshotDtype::bf16;
    case kernels::KvType::f32:
      return SnapshotDtype::f32;
  }
  return SnapshotDtype::f16;
}

std::size_t snapshot_dtype_bytes(SnapshotDtype dtype) {
  return dtype == SnapshotDtype::f16 || dtype == SnapshotDtype::bf16 ? 2 : 4;
}

std::string_view snapshot_dtype_name(SnapshotDtype dtype) {
  switch (dtype) {
    case SnapshotDtype::f16:
      return "f16";
    case SnapshotDtype::bf16:
      return "bf16";
    case SnapshotDtype::f32:
      return "f32";
    case SnapshotDtype::i32:
      return "i32";
  }
  return "unknown";
}

std::string snapshot_prefix(const SnapshotWords& words, SpanKind kind, int layer) {
  return fmt::format("layer{}.{}.", layer, snapshot_word(words, kind));
}

Result<SnapshotIndex> SnapshotIndex::build(const StateSnapshot& snapshot) {
  SnapshotIndex index;
  for (const NamedTensor& tensor : snapshot.tensors) {
    if (!index.tensors_.emplace(tensor.name, &tensor).second) {
      return fail(Errc::corrupt,
                  fmt::format("{} restore: got tensor {} twice, expected it once", snapshot.family,
                              tensor.name),
                  tensor.name);
    }
    std::optional<std::uint64_t> bytes = snapshot_dtype_bytes(tensor.dtype);
    for (const std::int64_t extent : tensor.shape) {
      if (extent < 0) bytes.reset();
      if (bytes) bytes = checked_multiply(*bytes, static_cast<std::uint64_t>(extent));
    }
    if (!bytes || *bytes != tensor.bytes.size()) {
      return fail(Errc::corrupt,
                  fmt::format("{} restore: tensor {} has {} bytes, expected what {} shape {} takes",
                              snapshot.family, tensor.name, tensor.bytes.size(),
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

Status SnapshotIndex::check_all_used(const SnapshotWords& words) const {
  for (const auto& [name, tensor] : tensors_) {
    if (used_.contains(name)) continue;
    return fail(
        Errc::corrupt,
        fmt::format("{} restore: got tensor {}, expected only tensors of this model's layers",
                    words.family, name),
        std::string(name));
  }
  return {};
}

Result<LayerSource> read_layer(SnapshotIndex& index, const SnapshotWords& words,
                               const SpanGroup& group, int layer, Position token_length) {
  return LayerReader(index, words, group, layer, token_length).read();
}

}  // namespace reprise
