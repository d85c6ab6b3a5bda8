// Files: mapped for reading, read whole, or written atomically.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace reprise {

// A file mapped read-only. Move-only; unmaps at the end.
class MappedFile {
 public:
  // Errors: not_found, io (names the path and the system's reason); unsupported for an empty file.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  // Whether both map one file of the system, with the same size when they were opened.
  bool is_same_file(const MappedFile& other) const {
    return identity_ == other.identity_ && size_ == other.size_;
  }

  // Brings [offset, offset + size) into memory: one call instead of a page fault every few pages.
  void prefetch(std::size_t offset, std::size_t size) const;

  // Tells the system that [offset, offset + size) is no longer needed in memory (it stays
  // readable).
  void release(std::size_t offset, std::size_t size) const;

 private:
  struct Identity {
    std::uint64_t device = 0, number = 0;  // st_dev, st_ino
    bool operator==(const Identity&) const = default;
  };
  MappedFile(std::filesystem::path path, Identity identity, const std::byte* data, std::size_t size)
      : path_(std::move(path)), identity_(identity), data_(data), size_(size) {}

  std::filesystem::path path_;
  Identity identity_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// The whole file as text. Errors: not_found, io; exhausted when it is larger than `size_max` bytes.
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t size_max);

// Writes a temporary file beside `path`, syncs it, renames it: readers see the old or the new one.
Status write_file_atomic(const std::filesystem::path& path, std::string_view content);

}  // namespace reprise
