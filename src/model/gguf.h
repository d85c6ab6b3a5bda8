// GGUF container, versions 2 and 3: metadata and tensors of untrusted files, every size checked.
// Immutable after opening: any thread may read. Source: ggml's docs/gguf.md.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "kernels/weight_type.h"

namespace reprise {

struct GgufTensor {
  std::string_view name;
  std::uint32_t type_id = 0;  // ggml's number; type is absent when we do not support it
  std::optional<kernels::WeightType> type;
  std::vector<std::int64_t> dims;    // the contiguous axis first: a matrix [out, in] is {in, out}
  std::span<const std::byte> bytes;  // empty when the type is not supported
  std::size_t offset = 0;            // of bytes in the file

  std::int64_t elements() const;
};

// ggml's name of a type id ("IQ4_XS"), or its number as text.
std::string ggml_type_name(std::uint32_t type_id);

// An array of numbers or strings; views point into the file.
struct GgufArray {
  std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::string_view>> items;
};
// uint64_t only for values that int64_t cannot hold.
using GgufValue =
    std::variant<std::int64_t, std::uint64_t, double, bool, std::string_view, GgufArray>;

class GgufFile {
 public:
  // Errors: not_found, io; corrupt and unsupported in one line that names the tensor, key or type.
  static Result<GgufFile> open(const std::filesystem::path& path);
  // The same over bytes that outlive the object (tests, fuzzers).
  static Result<GgufFile> parse(std::span<const std::byte> bytes);

  int version() const { return version_; }
  // In file order.
  const std::vector<std::pair<std::string_view, GgufValue>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  const GgufValue* find(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;

  // Typed getters: nullopt (or an empty vector) when the key is absent; writers differ in integer
  // types, so any is read.
  // Errors: corrupt, naming the key, when it is there with another kind of value.
  Result<std::optional<std::int64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string_view>> text(std::string_view key) const;
  // A key that may hold one integer (or bool) or an array of them.
  Result<std::vector<std::int64_t>> integers(std::string_view key) const;
  Result<std::vector<double>> numbers(std::string_view key) const;
  Result<std::vector<std::string_view>> texts(std::string_view key) const;

  // Null when the bytes came from elsewhere.
  const MappedFile* file() const { return file_ ? &*file_ : nullptr; }

 private:
  GgufFile() = default;
  Status read(std::span<const std::byte> bytes);

  std::optional<MappedFile> file_;
  int version_ = 0;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> metadata_index_, tensor_index_;
};

}  // namespace reprise
