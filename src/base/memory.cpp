// Anonymous mappings; blocks of 2 MiB and more ask for huge pages.
#include "base/memory.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/core.h>

#include "base/machine.h"

namespace reprise {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// A mapping of `size` bytes at a multiple of kHugePage: mapped with room to spare, the rest given
// back. The system would put it anywhere, and the pages at both ends would stay small ones.
void* map_aligned(std::size_t size) {
  if (size > SIZE_MAX - kHugePage) return MAP_FAILED;
  void* memory =
      ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return memory;
  auto* const begin = static_cast<std::uint8_t*>(memory);
  const std::size_t before =
      (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t used = (size + page - 1) / page * page;
  if (before > 0) ::munmap(begin, before);
  if (before + used < size + kHugePage) {
    ::munmap(begin + before + used, size + kHugePage - before - used);
  }
  ::madvise(begin + before, size, MADV_HUGEPAGE);
  return begin + before;
}

}  // namespace

Result<MemoryBlock> MemoryBlock::take(std::size_t size) {
  MemoryBlock block;
  if (size == 0) return block;
  void* memory = size >= kHugePage ? map_aligned(size)
                                   : ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(Errc::exhausted,
                fmt::format("the system refused {} bytes of memory{}", size, address_space_note()));
  }
  block.data_ = static_cast<std::uint8_t*>(memory);
  block.size_ = size;
  return block;
}

MemoryBlock::MemoryBlock(std::size_t size) {
  Result<MemoryBlock> taken = take(size);
  if (!taken) {
    std::fprintf(stderr, "reprise: %s\n", taken.error().message.c_str());
    std::_Exit(1);  // other threads may run: nothing is torn down under them
  }
  *this = std::move(*taken);
}

MemoryBlock::~MemoryBlock() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace reprise
