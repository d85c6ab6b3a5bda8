// The machine's own limits, measured beside the model's figures: reading its files, reading memory.
#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"

namespace reprise {

struct PlainRead {
  std::size_t bytes = 0;
  double seconds = 0;
};
// Reads whole files with read() into fresh memory, all threads of the pool taking parts. nullopt
// when a file cannot be read, or when there is no memory for them.
std::optional<PlainRead> read_plainly(const std::vector<std::filesystem::path>& paths,
                                      ThreadPool& pool);

// Memory that is too large for any cache, and how fast all threads of a pool read it together.
class BandwidthProbe {
 public:
  BandwidthProbe();
  double gigabytes_per_second(ThreadPool& pool) const;

 private:
  MemoryBlock memory_;
};

}  // namespace reprise
