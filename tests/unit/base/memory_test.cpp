// Blocks of memory, and files mapped into it.
#include "base/memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/machine.h"
#include "support/limited_memory.h"

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

TEST(MemoryBlock, WhatTheSystemRefusesIsAnErrorThatNamesTheBytes) {
  for (const std::size_t size : {std::size_t{1} << 60, SIZE_MAX - kHugePage, SIZE_MAX}) {
    const Result<MemoryBlock> block = MemoryBlock::take(size);
    ASSERT_FALSE(block.has_value());
    EXPECT_EQ(block.error().code, Errc::exhausted);
    EXPECT_TRUE(block.error().message.contains(std::to_string(size))) << block.error().message;
  }
  EXPECT_EQ(MemoryBlock::take(0)->data(), nullptr);
  EXPECT_EQ(MemoryBlock::take(5000)->size(), 5000U);
}

TEST(MemoryBlockDeathTest, AMemberEndsTheProcessInOneLine) {
  EXPECT_EXIT(MemoryBlock(std::size_t{1} << 60), ::testing::ExitedWithCode(1),
              "^reprise: the system refused 1152921504606846976 bytes of memory[^\n]*\n$");
}

#if REPRISE_CAN_LIMIT_MEMORY
[[noreturn]] void take_beyond_the_limit() {
  testing::limit_memory(32 << 20);
  const Result<MemoryBlock> block = MemoryBlock::take(64 << 20);
  const bool told = !block && block.error().message.contains("67108864 bytes") &&
                    block.error().message.contains(address_space_note()) &&
                    address_space_note().contains("ulimit -v");
  std::_Exit(told && MemoryBlock::take(8 << 20) ? 0 : 1);
}

TEST(MemoryBlockDeathTest, TheProcessesLimitIsNamed) {
  EXPECT_EQ(address_space_note(), "");
  EXPECT_EXIT(take_beyond_the_limit(), ::testing::ExitedWithCode(0), "");
}
#endif

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
