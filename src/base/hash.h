// Hashes: a fast one for content identity, a cryptographic one for tenant salts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

// 128-bit XXH3 of the bytes, as 32 hexadecimal digits. Not safe against an adversary.
std::string content_hash(std::span<const std::byte> bytes);

// The same for contents that many threads hash together: XXH3 over the XXH3 of each chunk. The
// digest depends on the bytes only, not on who hashed which chunk, or when.
class ChunkedHash {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{64} << 10;

  // The bytes must outlive the object.
  explicit ChunkedHash(std::span<const std::byte> bytes);

  std::size_t chunks() const { return digests_.size(); }
  // Hashes one chunk in [0, chunks()). Different chunks may be hashed at once.
  void hash(std::size_t chunk);
  // As 32 hexadecimal digits; every chunk was hashed before.
  std::string digest() const;

 private:
  struct Digest {
    std::uint64_t low = 0, high = 0;
  };
  std::span<const std::byte> bytes_;
  std::vector<Digest> digests_;  // one a chunk
};

// SHA-256 as 64 hexadecimal digits.
std::string sha256_hex(std::string_view text);

}  // namespace reprise
