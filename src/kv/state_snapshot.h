// The materialised form of a sequence's state: ordered named tensors, and the words and tags that
// they are written with (docs/snapshot_format.md). Data only; kv_snapshot.h writes and reads it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "kernels/kv_block.h"
#include "kv/layer_span.h"

namespace reprise {

enum class SnapshotDtype : std::uint8_t { f16, bf16, f32, i32 };
std::size_t snapshot_dtype_bytes(SnapshotDtype dtype);
std::string_view snapshot_dtype_name(SnapshotDtype dtype);  // "f16"
// Of rows that are snapshotted as they lie in the pages: not for int8.
SnapshotDtype snapshot_dtype(kernels::KvType type);
// The type of such rows; nullopt for integers.
std::optional<kernels::KvType> kv_type_of(SnapshotDtype dtype);

struct NamedTensor {
  std::string name;
  SnapshotDtype dtype = SnapshotDtype::i32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  // row-major, little-endian
};
std::string shape_text(const NamedTensor& tensor);  // "[1, 2, 40, 16]"

// A deep copy: shares nothing with any sequence.
struct StateSnapshot {
  std::string family;         // tag: "gemma3", "llama"
  Position token_length = 0;  // == the offset of every layer
  std::vector<NamedTensor> tensors;

  const NamedTensor* find(std::string_view name) const;  // the first of that name, or null
  std::size_t byte_size() const;
};

// What a family calls its layers in tensor names ("standard" or Muse Glimmer's "full" ...).
struct SnapshotWords {
  std::string family;
  std::string standard = "standard";
  std::string rotating = "rotating";
  std::string chunked = "chunked";
};
std::string_view snapshot_word(const SnapshotWords& words, SpanKind kind);
// "layer3.rotating.": what the names of a layer's tensors begin with.
std::string snapshot_prefix(const SnapshotWords& words, SpanKind kind, int layer);

// Storage modes of the contract by tag; only fp16 ("as the model produced it, unquantised",
// whatever the type) may be snapshotted.
inline constexpr std::int32_t kSnapshotModeFp16 = 0;
std::int32_t kv_mode_tag(kernels::KvType type);
// Only mode 0 may be snapshotted, and so kept by a prompt cache.
inline bool can_be_snapshotted(kernels::KvType type) {
  return kv_mode_tag(type) == kSnapshotModeFp16;
}
// "fp16", "int8", "turbo4" ... Errors: corrupt, naming the tag that is none of ours.
Result<std::string_view> kv_mode_name(std::int64_t tag);

}  // namespace reprise
