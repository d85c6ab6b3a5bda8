// safetensors container: named tensors of untrusted files, every size checked; and its writer.
// Immutable after opening: any thread may read. Source: the safetensors format description.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace reprise {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                 // as the file spells it: "F32", "BF16", "U32"
  std::vector<std::int64_t> shape;   // row-major, outermost first; empty for a scalar
  std::span<const std::byte> bytes;  // not aligned; for a known dtype exactly the shape's size
  std::size_t offset = 0;            // of bytes in the file
};

// Bits of one element; nullopt for a dtype that the format does not define.
std::optional<int> safetensors_element_bits(std::string_view dtype);

class SafetensorsFile {
 public:
  // Maps the file. Errors: not_found, io; corrupt in one line that names the file and the tensor.
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  // The same over bytes that outlive the object.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes);

  // In the header's order. Pointers to entries, and views of their names, survive moves.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const SafetensorsEntry* find(std::string_view name) const;
  // The header's __metadata__.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Null when the bytes came from elsewhere.
  const MappedFile* file() const { return file_ ? &*file_ : nullptr; }

 private:
  SafetensorsFile() = default;
  Status read(std::span<const std::byte> bytes);

  std::optional<MappedFile> file_;
  std::vector<SafetensorsEntry> entries_;
  std::unordered_map<std::string_view, std::size_t> index_;  // views of the entries' names
  std::map<std::string, std::string> metadata_;
};

struct SafetensorsTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// The bytes of a file: the header padded with spaces to 8 bytes, tensors back to back in the given
// order. Names are unique UTF-8 and none is "__metadata__"; bytes have their shape's size.
std::string write_safetensors(std::span<const SafetensorsTensor> tensors,
                              const std::map<std::string, std::string>& metadata);

}  // namespace reprise
