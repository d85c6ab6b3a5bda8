// The header of a GGUF file, read part by part in file order; gguf.cpp puts the parts together.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/printable.h"
#include "model/gguf.h"

namespace reprise::gguf {

// Errors that name the key or the tensor.
std::unexpected<Error> key_error(Errc code, std::string_view key, const std::string& what);
std::unexpected<Error> tensor_error(Errc code, std::string_view name, const std::string& what);

// Reads the parts of the header in file order.
class HeaderReader {
 public:
  explicit HeaderReader(std::span<const std::byte> bytes) : reader_(bytes) {}

  std::size_t position() const { return reader_.position(); }

  Status read_preamble(int& version, std::uint64_t& tensor_count, std::uint64_t& metadata_count);
  // A key or tensor name; `what` says which, `index` counts from 0.
  Result<std::string_view> read_name(const char* what, std::uint64_t index);
  Result<GgufValue> read_value(std::string_view key);
  Result<GgufTensor> read_tensor(std::string_view name);

 private:
  template <class T>
  Result<T> read_number(std::string_view key) {
    if (const auto value = reader_.read<T>()) return *value;
    return key_error(Errc::corrupt, key, missing(sizeof(T)));
  }
  std::string missing(std::uint64_t wanted) const {
    return fmt::format("the file ends too early: {} bytes wanted, {} left", wanted,
                       reader_.remaining());
  }
  template <class T>
  Result<GgufValue> read_scalar(std::string_view key);
  Result<GgufValue> read_bool(std::string_view key);
  Result<std::string_view> read_text(std::string_view key);
  Result<GgufValue> read_array(std::string_view key);
  template <class T, class Item>
  Result<GgufValue> read_items(std::string_view key, std::uint64_t count);
  Result<GgufValue> read_texts(std::string_view key, std::uint64_t count);
  Result<GgufValue> read_bools(std::string_view key, std::uint64_t count);

  ByteReader reader_;
};

}  // namespace reprise::gguf
