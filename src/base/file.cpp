// Files on POSIX: mmap, read, write-sync-rename.
#include "base/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/core.h>

namespace reprise {
namespace {

std::unexpected<Error> system_error(std::string_view action, const std::filesystem::path& path) {
  const int reason = errno;
  return fail(reason == ENOENT ? Errc::not_found : Errc::io,
              fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(reason)));
}

// Closes a file descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

Result<struct stat> regular_file_status(int descriptor, const std::filesystem::path& path) {
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) return system_error("examine", path);
  if (!S_ISREG(status.st_mode)) {
    return fail(Errc::invalid_argument, fmt::format("{} is not a regular file", path.string()));
  }
  return status;
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a named pipe without a writer is refused, not waited for.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return system_error("open", path);
  TRY_ASSIGN(const struct stat status, regular_file_status(file.get(), path));
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return fail(Errc::unsupported, fmt::format("{} is empty", path.string()));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return system_error("map", path);
  const Identity identity{.device = status.st_dev, .number = status.st_ino};
  return MappedFile(path, identity, static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      identity_(other.identity_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(identity_, other.identity_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::prefetch(std::size_t offset, std::size_t size) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = offset / page * page;
  const std::size_t end = std::min(offset + size, size_);
  if (begin >= end) return;
  std::byte* const data = const_cast<std::byte*>(data_) + begin;
  ::madvise(data, end - begin, MADV_WILLNEED);  // what is on disk only: read in one go
#ifdef MADV_POPULATE_READ
  ::madvise(data, end - begin, MADV_POPULATE_READ);  // older systems refuse: pages fault as used
#endif
}

void MappedFile::release(std::size_t offset, std::size_t size) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = (offset + page - 1) / page * page;  // whole pages inside the range only
  const std::size_t end = (offset + size) / page * page;
  if (begin < end && end <= size_) {
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
  }
}

Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t size_max) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_error("open", path);
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("read", path);
    if (count == 0) return content;
    content.append(buffer, static_cast<std::size_t>(count));
    if (content.size() > size_max) {
      return fail(Errc::exhausted,
                  fmt::format("{} has more than {} bytes", path.string(), size_max));
    }
  }
}

Status write_file_atomic(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path temporary = path.string() + fmt::format(".{}.tmp", ::getpid());
  {
    const Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0) return system_error("create", temporary);
    while (!content.empty()) {
      const ssize_t count = ::write(file.get(), content.data(), content.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return system_error("write", temporary);
      content.remove_prefix(static_cast<std::size_t>(count));
    }
    if (::fsync(file.get()) != 0) return system_error("sync", temporary);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return system_error("rename to", path);
  return {};
}

}  // namespace reprise
