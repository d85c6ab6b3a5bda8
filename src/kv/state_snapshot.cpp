// Names, tags and sizes of a snapshot's tensors.
#include "kv/state_snapshot.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/check.h"

namespace reprise {

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

SnapshotDtype snapshot_dtype(kernels::KvType type) {
  switch (type) {
    case kernels::KvType::f16:
      return SnapshotDtype::f16;
    case kernels::KvType::bf16:
      return SnapshotDtype::bf16;
    case kernels::KvType::f32:
      return SnapshotDtype::f32;
    case kernels::KvType::int8:
      break;
  }
  CHECK(false);  // no snapshot has rows of int8
}

std::optional<kernels::KvType> kv_type_of(SnapshotDtype dtype) {
  switch (dtype) {
    case SnapshotDtype::f16:
      return kernels::KvType::f16;
    case SnapshotDtype::bf16:
      return kernels::KvType::bf16;
    case SnapshotDtype::f32:
      return kernels::KvType::f32;
    case SnapshotDtype::i32:
      break;
  }
  return std::nullopt;
}

std::string shape_text(const NamedTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ", "));
}

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

std::string snapshot_prefix(const SnapshotWords& words, SpanKind kind, int layer) {
  return fmt::format("layer{}.{}.", layer, snapshot_word(words, kind));
}

std::int32_t kv_mode_tag(kernels::KvType type) {
  return type == kernels::KvType::int8 ? 1 : kSnapshotModeFp16;
}

Result<std::string_view> kv_mode_name(std::int64_t tag) {
  constexpr std::array<std::string_view, 6> kNames = {"fp16",        "int8",   "fp16+turbo4",
                                                      "fp16+turbo3", "turbo4", "turbo4-delegated"};
  if (tag < 0 || tag >= static_cast<std::int64_t>(kNames.size())) {
    return fail(Errc::corrupt,
                fmt::format("unknown cache mode tag {}, expected 0 to {}", tag, kNames.size() - 1),
                "mode");
  }
  return kNames[static_cast<std::size_t>(tag)];
}

}  // namespace reprise
