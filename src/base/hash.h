// Hashes: a fast one for content identity, a cryptographic one for tenant salts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace reprise {

// 128-bit XXH3 of the bytes, as 32 hexadecimal digits. Not safe against an adversary.
std::string content_hash(std::span<const std::byte> bytes);

// SHA-256 as 64 hexadecimal digits.
std::string sha256_hex(std::string_view text);

}  // namespace reprise
