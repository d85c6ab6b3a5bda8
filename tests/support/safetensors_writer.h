// Builds small safetensors files in memory for tests, right ones and ones with any header; and
// temporary folders for checkpoints.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/safetensors.h"

namespace reprise::testing {

// Collects tensors, copies of their bytes included.
class SafetensorsWriter {
 public:
  void add(std::string name, std::string dtype, std::vector<std::int64_t> shape,
           std::span<const std::byte> bytes) {
    tensors_.push_back(
        {std::move(name), std::move(dtype), std::move(shape), {bytes.begin(), bytes.end()}});
  }
  void add_f32(std::string name, std::vector<std::int64_t> shape, std::span<const float> values) {
    add(std::move(name), "F32", std::move(shape), std::as_bytes(values));
  }
  // Rounds to nearest even; values are finite.
  void add_bf16(std::string name, std::vector<std::int64_t> shape, std::span<const float> values) {
    std::vector<std::uint16_t> rounded;
    for (const float value : values) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      rounded.push_back(static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16));
    }
    add(std::move(name), "BF16", std::move(shape), std::as_bytes(std::span(rounded)));
  }
  void add_u32(std::string name, std::vector<std::int64_t> shape,
               std::span<const std::uint32_t> values) {
    add(std::move(name), "U32", std::move(shape), std::as_bytes(values));
  }
  void add_metadata(std::string key, std::string text) {
    metadata_[std::move(key)] = std::move(text);
  }

  std::string finish() const {
    std::vector<SafetensorsTensor> views;
    for (const Tensor& tensor : tensors_) {
      views.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
    }
    return write_safetensors(views, metadata_);
  }

 private:
  struct Tensor {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
  };
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// A file with any header, right or wrong, followed by `data_bytes` bytes 0, 1, 2, ...
inline std::string raw_safetensors(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t size = header.size();
  std::string file(sizeof size, '\0');
  std::memcpy(file.data(), &size, sizeof size);
  file += header;
  for (std::size_t i = 0; i < data_bytes; i++) file += static_cast<char>(i);
  return file;
}

// A temporary folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "reprise_test_XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

  // Writes a file of the folder and returns its path.
  std::filesystem::path write(std::string_view name, std::string_view content) const {
    const std::filesystem::path path = path_ / name;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    file.close();
    CHECK(file.good());
    return path;
  }
  std::filesystem::path write(std::string_view name, std::span<const std::byte> content) const {
    return write(name,
                 std::string_view(reinterpret_cast<const char*>(content.data()), content.size()));
  }
  void remove(std::string_view name) const { CHECK(std::filesystem::remove(path_ / name)); }

 private:
  std::filesystem::path path_;
};

// A folder with config.json and one model.safetensors: what most small checkpoints look like.
class CheckpointFolder : public TemporaryFolder {
 public:
  CheckpointFolder(std::string_view config_json, const SafetensorsWriter& tensors) {
    write("config.json", config_json);
    write("model.safetensors", tensors.finish());
  }
};

}  // namespace reprise::testing
