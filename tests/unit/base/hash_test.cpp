// Hashes of contents: known values, and the digest that many threads make together.
#include "base/hash.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/thread_pool.h"

namespace reprise {
namespace {

std::vector<std::byte> content(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

std::string digest(const std::vector<std::byte>& bytes) {
  ChunkedHash hash(bytes);
  for (std::size_t chunk = 0; chunk < hash.chunks(); chunk++) hash.hash(chunk);
  return hash.digest();
}

TEST(Hash, KnownValues) {
  EXPECT_EQ(content_hash({}), "99aa06d3014798d86001c324468d497f");  // XXH3-128 of nothing
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hash, ChunksInAnyOrderByAnyThread) {
  const auto bytes = content(20 * ChunkedHash::kChunkBytes + 77);
  const std::string expected = digest(bytes);
  ChunkedHash backwards(bytes);
  ASSERT_EQ(backwards.chunks(), 21U);
  for (std::size_t chunk = backwards.chunks(); chunk-- > 0;) backwards.hash(chunk);
  EXPECT_EQ(backwards.digest(), expected);
  ChunkedHash shared(bytes);
  ThreadPool pool(4);
  pool.parallel_for(21, [&](int chunk, int) { shared.hash(static_cast<std::size_t>(chunk)); });
  EXPECT_EQ(shared.digest(), expected);
}

TEST(Hash, EveryByteAndTheLengthCount) {
  constexpr std::size_t kChunk = ChunkedHash::kChunkBytes;
  auto bytes = content(2 * kChunk + 5);
  std::set<std::string> digests = {digest(bytes)};
  for (const std::size_t at : {std::size_t{0}, kChunk - 1, kChunk, 2 * kChunk + 4}) {
    bytes[at] ^= std::byte{1};
    digests.insert(digest(bytes));
    bytes[at] ^= std::byte{1};
  }
  bytes.pop_back();
  digests.insert(digest(bytes));
  std::rotate(bytes.begin(), bytes.begin() + kChunk, bytes.end());
  digests.insert(digest(bytes));
  digests.insert(digest({}));
  EXPECT_EQ(digests.size(), 8U);
}

}  // namespace
}  // namespace reprise
