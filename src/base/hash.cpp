// Hashes by xxHash and OpenSSL.
#include "base/hash.h"

#include <algorithm>

#include <fmt/core.h>
#include <openssl/sha.h>
#include <xxhash.h>

namespace reprise {

std::string content_hash(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

ChunkedHash::ChunkedHash(std::span<const std::byte> bytes)
    : bytes_(bytes), digests_((bytes.size() + kChunkBytes - 1) / kChunkBytes) {}

void ChunkedHash::hash(std::size_t chunk) {
  const std::size_t begin = chunk * kChunkBytes;
  const auto part = bytes_.subspan(begin, std::min(kChunkBytes, bytes_.size() - begin));
  const XXH128_hash_t hash = XXH3_128bits(part.data(), part.size());
  digests_[chunk] = {hash.low64, hash.high64};
}

std::string ChunkedHash::digest() const {
  return content_hash(std::as_bytes(std::span(digests_)));
}

std::string sha256_hex(std::string_view text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace reprise
