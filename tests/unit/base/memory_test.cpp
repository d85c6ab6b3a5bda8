// Blocks of memory, and files mapped into it.
#include "base/memory.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/machine.h"

namespace reprise {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

TEST(MemoryBlock, IsZeroedAndLargeOnesBeginAtAHugePage) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, kHugePage - 1, kHugePage,
                                 kHugePage + 1, 3 * kHugePage + 12345}) {
    const MemoryBlock block(size);
    ASSERT_NE(block.data(), nullptr);
    EXPECT_EQ(block.size(), size);
    if (size >= kHugePage) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % kHugePage, 0U) << size;
    }
    EXPECT_EQ(std::count(block.data(), block.data() + size, 0), static_cast<std::ptrdiff_t>(size));
    std::fill_n(block.data(), size, std::uint8_t{7});  // all of it can be written
  }
  EXPECT_EQ(MemoryBlock(0).data(), nullptr);
}

TEST(MemoryBlock, GivesItsMemoryBack) {
  const std::size_t before = memory_resident_bytes();
  for (int i = 0; i < 20; i++) {
    MemoryBlock block(16 * kHugePage);
    std::fill_n(block.data(), block.size(), std::uint8_t{1});
    MemoryBlock moved = std::move(block);
    EXPECT_EQ(moved.size(), 16 * kHugePage);
  }
  EXPECT_LT(memory_resident_bytes(), before + 8 * kHugePage);
}

TEST(MappedFile, PrefetchedAndReleasedBytesStayReadable) {
  const auto path =
      std::filesystem::path(::testing::TempDir()) / ("memory_test_" + std::to_string(::getpid()));
  std::string content;
  for (int i = 0; i < 100'000; i++) content += static_cast<char>('a' + i % 26);
  ASSERT_TRUE(write_file_atomic(path, content).has_value());
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const auto text = [&] {
    return std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  };
  file->prefetch(0, content.size());
  file->prefetch(5000, 100);
  file->prefetch(99'999, 1);
  file->prefetch(99'000, 1'000'000);  // what lies behind the end is left out
  file->prefetch(2'000'000, 10);
  EXPECT_EQ(text(), content);
  file->release(1, 90'000);
  EXPECT_EQ(text(), content);
  std::filesystem::remove(path);
}

TEST(MappedFile, KnowsWhetherAnotherIsTheSameFile) {
  const auto path =
      std::filesystem::path(::testing::TempDir()) / ("same_test_" + std::to_string(::getpid()));
  ASSERT_TRUE(write_file_atomic(path, "content").has_value());
  const auto first = MappedFile::open(path);
  auto again = MappedFile::open(path.parent_path() / "." / path.filename());
  ASSERT_TRUE(first.has_value() && again.has_value());
  EXPECT_TRUE(first->is_same_file(*again));
  const MappedFile moved = std::move(*again);
  EXPECT_TRUE(moved.is_same_file(*first));
  ASSERT_TRUE(write_file_atomic(path, "content").has_value());  // equal, but put in its place
  const auto replaced = MappedFile::open(path);
  ASSERT_TRUE(replaced.has_value());
  EXPECT_FALSE(first->is_same_file(*replaced));
  std::filesystem::resize_file(path, 3);
  const auto shorter = MappedFile::open(path);
  ASSERT_TRUE(shorter.has_value());
  EXPECT_FALSE(replaced->is_same_file(*shorter));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace reprise
