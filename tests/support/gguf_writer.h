// Builds small GGUF files in memory for tests: version 3 (or another on request), alignment 32.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::testing {

class GgufWriter {
 public:
  static constexpr std::size_t kAlignment = 32;

  void add_text(std::string_view key, std::string_view value) {
    begin_value(key, kText);
    put_text(metadata_, value);
  }
  void add_integer(std::string_view key, std::uint32_t value) {
    begin_value(key, kU32);
    put(metadata_, value);
  }
  void add_number(std::string_view key, float value) {
    begin_value(key, kF32);
    put(metadata_, value);
  }
  void add_bool(std::string_view key, bool value) {
    begin_value(key, kBool);
    put(metadata_, static_cast<std::uint8_t>(value ? 1 : 0));
  }
  void add_texts(std::string_view key, const std::vector<std::string>& values) {
    begin_array(key, kText, values.size());
    for (const std::string& value : values) put_text(metadata_, value);
  }
  void add_numbers(std::string_view key, const std::vector<float>& values) {
    begin_array(key, kF32, values.size());
    for (const float value : values) put(metadata_, value);
  }
  void add_integers(std::string_view key, const std::vector<std::int32_t>& values) {
    begin_array(key, kI32, values.size());
    for (const std::int32_t value : values) put(metadata_, value);
  }
  void add_bools(std::string_view key, const std::vector<bool>& values) {
    begin_array(key, kBool, values.size());
    for (const bool value : values) put(metadata_, static_cast<std::uint8_t>(value ? 1 : 0));
  }
  // A value of any type id whose bytes the caller wrote, right or wrong.
  void add_raw(std::string_view key, std::uint32_t type_id, std::span<const std::byte> bytes) {
    begin_value(key, type_id);
    metadata_.insert(metadata_.end(), bytes.begin(), bytes.end());
  }

  // dims: the contiguous axis first; bytes: as the file stores the type.
  void add_tensor(std::string_view name, const std::vector<std::int64_t>& dims,
                  std::uint32_t type_id, std::span<const std::byte> bytes) {
    add_tensor_at(name, dims, type_id, data_.size());
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    pad(data_);
  }
  // One tensor of floats (type id 0).
  void add_tensor(std::string_view name, const std::vector<std::int64_t>& dims,
                  std::span<const float> values) {
    add_tensor(name, dims, 0, std::as_bytes(values));
  }
  // An entry without bytes of its own, at any offset of the data.
  void add_tensor_at(std::string_view name, const std::vector<std::int64_t>& dims,
                     std::uint32_t type_id, std::uint64_t offset) {
    put_text(tensors_, name);
    put(tensors_, static_cast<std::uint32_t>(dims.size()));
    for (const std::int64_t dim : dims) put(tensors_, dim);
    put(tensors_, type_id);
    put(tensors_, offset);
    tensor_count_++;
  }

  // The whole file. `version` and the counts are written as told, so that tests can lie.
  std::vector<std::byte> finish(std::uint32_t version = 3) const {
    return finish(version, tensor_count_, metadata_count_);
  }
  std::vector<std::byte> finish(std::uint32_t version, std::uint64_t tensor_count,
                                std::uint64_t metadata_count) const {
    std::vector<std::byte> file;
    for (const char c : std::string_view("GGUF")) put(file, c);
    put(file, version);
    put(file, tensor_count);
    put(file, metadata_count);
    file.insert(file.end(), metadata_.begin(), metadata_.end());
    file.insert(file.end(), tensors_.begin(), tensors_.end());
    pad(file);
    file.insert(file.end(), data_.begin(), data_.end());
    return file;
  }
  // Bytes before the padding that precedes the data.
  std::size_t header_bytes() const { return 24 + metadata_.size() + tensors_.size(); }

 private:
  static constexpr std::uint32_t kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kText = 8, kArray = 9;

  template <class T>
  static void put(std::vector<std::byte>& out, T value) {
    const auto at = out.size();
    out.resize(at + sizeof(T));
    std::memcpy(out.data() + at, &value, sizeof(T));
  }
  static void put_text(std::vector<std::byte>& out, std::string_view text) {
    put(out, static_cast<std::uint64_t>(text.size()));
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  static void pad(std::vector<std::byte>& out) {
    out.resize((out.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  void begin_value(std::string_view key, std::uint32_t type_id) {
    put_text(metadata_, key);
    put(metadata_, type_id);
    metadata_count_++;
  }
  void begin_array(std::string_view key, std::uint32_t item_type_id, std::size_t count) {
    begin_value(key, kArray);
    put(metadata_, item_type_id);
    put(metadata_, static_cast<std::uint64_t>(count));
  }

  std::vector<std::byte> metadata_, tensors_, data_;
  std::uint64_t metadata_count_ = 0, tensor_count_ = 0;
};

}  // namespace reprise::testing
