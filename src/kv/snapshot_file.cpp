// The file form of snapshots: safetensors with a checksum, since in some fields a wrong value looks
// like a right one.
#include "kv/snapshot_file.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include <fmt/core.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/safetensors.h"

namespace reprise {
namespace {

constexpr std::string_view kFormat = "reprise-snapshot";
constexpr std::string_view kVersion = "1";

struct DtypeWord {
  SnapshotDtype dtype;
  std::string_view word;
};
constexpr DtypeWord kDtypeWords[] = {{SnapshotDtype::f16, "F16"},
                                     {SnapshotDtype::bf16, "BF16"},
                                     {SnapshotDtype::f32, "F32"},
                                     {SnapshotDtype::i32, "I32"}};

std::string_view word_of(SnapshotDtype dtype) {
  for (const DtypeWord& it : kDtypeWords)
    if (it.dtype == dtype) return it.word;
  CHECK(false);
}

std::optional<SnapshotDtype> dtype_of(std::string_view word) {
  for (const DtypeWord& it : kDtypeWords)
    if (it.word == word) return it.dtype;
  return std::nullopt;
}

std::unexpected<Error> refuse(Errc code, std::string_view field, const std::string& what) {
  return fail(code, fmt::format("snapshot file: {}", what), std::string(field));
}

using Metadata = std::map<std::string, std::string>;

Result<std::string> metadata_value(const Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  if (found != metadata.end()) return found->second;
  return refuse(Errc::corrupt, key,
                fmt::format("__metadata__ has no {}, expected format, version, family, "
                            "token_length and checksum",
                            key));
}

Status check_format(const Metadata& metadata) {
  TRY_ASSIGN(const std::string format, metadata_value(metadata, "format"));
  if (format != kFormat) {
    return refuse(Errc::corrupt, "format",
                  fmt::format("format is {}, expected {}", printable(format), kFormat));
  }
  TRY_ASSIGN(const std::string version, metadata_value(metadata, "version"));
  if (version == kVersion) return {};
  return refuse(Errc::unsupported, "version",
                fmt::format("version is {}, expected {}", printable(version), kVersion));
}

Result<Position> read_token_length(const Metadata& metadata) {
  TRY_ASSIGN(const std::string text, metadata_value(metadata, "token_length"));
  constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();
  std::int32_t length = -1;
  const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (trouble == std::errc() && end == text.data() + text.size() && length >= 0) return length;
  return refuse(
      Errc::corrupt, "token_length",
      fmt::format("token_length is {}, expected a number from 0 to {}", printable(text), kMax));
}

}  // namespace

std::string snapshot_checksum(const StateSnapshot& snapshot) {
  // Names come with their lengths, so that no two snapshots give the same text.
  std::string text =
      fmt::format("{} {} {}\n", snapshot.family.size(), snapshot.family, snapshot.token_length);
  for (const NamedTensor& tensor : snapshot.tensors) {
    text += fmt::format("{} {} {} {} {}\n", tensor.name.size(), tensor.name,
                        snapshot_dtype_name(tensor.dtype), shape_text(tensor),
                        content_hash(tensor.bytes));
  }
  return content_hash(std::as_bytes(std::span(text)));
}

std::string write_snapshot(const StateSnapshot& snapshot) {
  std::vector<SafetensorsTensor> tensors;
  tensors.reserve(snapshot.tensors.size());
  for (const NamedTensor& tensor : snapshot.tensors) {
    tensors.push_back(
        {tensor.name, std::string(word_of(tensor.dtype)), tensor.shape, tensor.bytes});
  }
  return write_safetensors(tensors, {{"format", std::string(kFormat)},
                                     {"version", std::string(kVersion)},
                                     {"family", snapshot.family},
                                     {"token_length", std::to_string(snapshot.token_length)},
                                     {"checksum", snapshot_checksum(snapshot)}});
}

Result<StateSnapshot> read_snapshot(std::span<const std::byte> bytes) {
  TRY_ASSIGN(const SafetensorsFile file, SafetensorsFile::parse(bytes));
  TRY(check_format(file.metadata()));
  StateSnapshot snapshot;
  TRY_ASSIGN(snapshot.family, metadata_value(file.metadata(), "family"));
  TRY_ASSIGN(snapshot.token_length, read_token_length(file.metadata()));
  TRY_ASSIGN(const std::string checksum, metadata_value(file.metadata(), "checksum"));
  for (const SafetensorsEntry& entry : file.entries()) {
    const std::optional<SnapshotDtype> dtype = dtype_of(entry.dtype);
    if (!dtype) {
      return refuse(Errc::unsupported, entry.name,
                    fmt::format("tensor {} has type {}, expected F16, BF16, F32 or I32",
                                printable(entry.name), printable(entry.dtype)));
    }
    snapshot.tensors.push_back({entry.name, *dtype, entry.shape,
                                std::vector<std::byte>(entry.bytes.begin(), entry.bytes.end())});
  }
  const std::string computed = snapshot_checksum(snapshot);
  if (computed == checksum) return snapshot;
  return refuse(
      Errc::corrupt, "checksum",
      fmt::format("checksum is {}, expected {} from the content", printable(checksum), computed));
}

namespace {

// "layer3.rotating.keys" as its parts; nullopt for any other name.
struct TensorName {
  std::string_view layer, kind, field;
};
std::optional<TensorName> split_name(std::string_view name) {
  const std::size_t first = name.find('.');
  if (!name.starts_with("layer") || first == std::string_view::npos) return std::nullopt;
  const std::size_t second = name.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  return TensorName{name.substr(0, first), name.substr(first + 1, second - first - 1),
                    name.substr(second + 1)};
}

std::string describe_tensor(const NamedTensor& tensor, std::string_view field) {
  if (tensor.dtype != SnapshotDtype::i32 || tensor.bytes.size() != sizeof(std::int32_t)) {
    return fmt::format("{} {} {}", printable(field), shape_text(tensor),
                       snapshot_dtype_name(tensor.dtype));
  }
  std::int32_t value = 0;
  std::memcpy(&value, tensor.bytes.data(), sizeof(value));
  if (field != "mode") return fmt::format("{} {}", printable(field), value);
  const Result<std::string_view> mode = kv_mode_name(value);
  return fmt::format("mode {} ({})", value, mode ? *mode : "unknown");
}

}  // namespace

std::vector<std::string> describe_snapshot(const StateSnapshot& snapshot) {
  std::vector<std::string> lines;
  std::string_view layer, kind;  // of the line that is being written
  std::size_t layers = 0;
  for (const NamedTensor& tensor : snapshot.tensors) {
    const std::optional<TensorName> name = split_name(tensor.name);
    if (!name) {
      lines.push_back(describe_tensor(tensor, tensor.name));
      layer = kind = {};
      continue;
    }
    if (name->layer != layer || name->kind != kind) {
      layers++;
      layer = name->layer;
      kind = name->kind;
      const NamedTensor* keys = snapshot.find(fmt::format("{}.{}.keys", layer, kind));
      const bool has_tokens = keys != nullptr && keys->shape.size() == 4;
      lines.push_back(fmt::format("{} {}: {} tokens", printable(layer), printable(kind),
                                  has_tokens ? keys->shape[2] : 0));
    }
    lines.back() += ", " + describe_tensor(tensor, name->field);
  }
  lines.insert(lines.begin(), fmt::format("snapshot of family {}: {} tokens, {} layers, {} bytes",
                                          printable(snapshot.family), snapshot.token_length, layers,
                                          snapshot.byte_size()));
  return lines;
}

}  // namespace reprise
