// Keys are compared by digest, all of them, every digit.
#include "api/api_keys.h"

#include <utility>

#include "base/hash.h"

namespace reprise {
namespace {

// Takes the same time whichever digit differs, so that a key cannot be guessed byte by byte.
bool equal_digests(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t at = 0; at < a.size(); at++) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[at]) ^
                                        static_cast<unsigned char>(b[at]));
  }
  return difference == 0;
}

// What follows the scheme, whose letters' case does not matter; empty for another scheme.
std::string_view bearer_token(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size()) return {};
  for (std::size_t at = 0; at < kScheme.size(); at++) {
    const char letter = header[at];
    const char lower = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
    if (lower != kScheme[at]) return {};
  }
  header.remove_prefix(kScheme.size());
  while (header.starts_with(' ')) header.remove_prefix(1);
  while (header.ends_with(' ')) header.remove_suffix(1);
  return header;
}

}  // namespace

ApiKeys::ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {
  for (const std::string& key : keys_) digests_.push_back(sha256_hex(key));
}

ApiResult<std::string> ApiKeys::admit(std::string_view authorization) const {
  if (keys_.empty()) return std::string();
  const std::string_view token = bearer_token(authorization);
  if (token.empty()) {
    return refuse(401, "invalid_api_key",
                  "no API key: expected the header \"Authorization: Bearer KEY\"");
  }
  const std::string digest = sha256_hex(token);
  const std::string* found = nullptr;
  for (std::size_t index = 0; index < digests_.size(); index++) {
    if (equal_digests(digest, digests_[index])) found = &keys_[index];
  }
  if (!found) return refuse(401, "invalid_api_key", "the API key is not one of this server's");
  return *found;
}

}  // namespace reprise
