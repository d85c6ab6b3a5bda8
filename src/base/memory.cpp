// Anonymous mappings; blocks of 2 MiB and more ask for huge pages.
#include "base/memory.h"

#include <sys/mman.h>

#include "base/check.h"

namespace reprise {
namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;
}

MemoryBlock::MemoryBlock(std::size_t size) : size_(size) {
  if (size == 0) return;
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  if (size >= kHugePage) ::madvise(memory, size, MADV_HUGEPAGE);
  data_ = static_cast<std::uint8_t*>(memory);
}

MemoryBlock::~MemoryBlock() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace reprise
