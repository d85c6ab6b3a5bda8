// Plain loops, so that what limits them is the machine.
#include "cli/bench_probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/machine.h"

namespace reprise {
namespace {

constexpr std::size_t kPartBytes = std::size_t{2} << 20;
constexpr std::size_t kProbeBytes = std::size_t{256} << 20;
constexpr int kProbePasses = 2;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Part of a file, and where it goes.
struct Part {
  std::size_t file = 0;
  std::size_t offset = 0, size = 0, target = 0;
};

bool read_part(int descriptor, std::size_t offset, std::size_t size, std::uint8_t* to) {
  while (size > 0) {
    const ssize_t count = ::pread(descriptor, to, size, static_cast<off_t>(offset));
    if (count <= 0) return false;
    const auto got = static_cast<std::size_t>(count);
    to += got;
    offset += got;
    size -= got;
  }
  return true;
}

std::uint64_t sum_words(const std::uint8_t* at, std::size_t size) {
  constexpr std::size_t kLanes = 16;
  std::uint64_t sums[kLanes] = {};
  std::uint64_t words[kLanes];
  for (std::size_t i = 0; i < size; i += sizeof words) {
    std::memcpy(words, at + i, sizeof words);
    for (std::size_t lane = 0; lane < kLanes; lane++) sums[lane] += words[lane];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t lane : sums) sum += lane;
  return sum;
}

}  // namespace

std::optional<PlainRead> read_plainly(const std::vector<std::filesystem::path>& paths,
                                      ThreadPool& pool) {
  std::vector<int> files;
  std::vector<Part> parts;
  PlainRead read;
  bool good = true;
  const auto begin = Clock::now();
  for (const std::filesystem::path& path : paths) {
    files.push_back(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status = {};
    if (files.back() < 0 || ::fstat(files.back(), &status) != 0) {
      good = false;
      break;
    }
    const auto size = static_cast<std::size_t>(status.st_size);
    for (std::size_t offset = 0; offset < size; offset += kPartBytes) {
      const std::size_t part = std::min(kPartBytes, size - offset);
      parts.push_back({files.size() - 1, offset, part, read.bytes});
      read.bytes += part;
    }
  }
  const Result<MemoryBlock> memory =
      MemoryBlock::take(read.bytes < memory_available_bytes() / 2 ? read.bytes : 0);
  if (good && memory && memory->size() == read.bytes) {
    std::atomic<bool> all{true};
    pool.parallel_for(static_cast<int>(parts.size()), [&](int task, int) {
      const Part& part = parts[static_cast<std::size_t>(task)];
      if (!read_part(files[part.file], part.offset, part.size, memory->data() + part.target)) {
        all.store(false, std::memory_order_relaxed);
      }
    });
    read.seconds = seconds_since(begin);
    good = all.load(std::memory_order_relaxed);
  } else {
    good = false;
  }
  for (const int file : files) {
    if (file >= 0) ::close(file);
  }
  return good ? std::optional(read) : std::nullopt;
}

BandwidthProbe::BandwidthProbe() : memory_(kProbeBytes) {
  std::memset(memory_.data(), 1, memory_.size());  // untouched pages would all be the same one
}

double BandwidthProbe::gigabytes_per_second(ThreadPool& pool) const {
  constexpr int kParts = static_cast<int>(kProbeBytes / kPartBytes);
  std::atomic<std::uint64_t> sum{0};
  double best = 0;
  for (int pass = 0; pass < kProbePasses; pass++) {
    const auto begin = Clock::now();
    pool.parallel_for(kParts, [&](int part, int) {
      const auto at = static_cast<std::size_t>(part) * kPartBytes;
      sum.fetch_add(sum_words(memory_.data() + at, kPartBytes), std::memory_order_relaxed);
    });
    best = std::max(best, static_cast<double>(kProbeBytes) / seconds_since(begin) / 1e9);
  }
  return sum.load() == 0 ? 0 : best;
}

}  // namespace reprise
