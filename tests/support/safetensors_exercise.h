// Touches everything that a safetensors file gave out, so that sanitizers see each view. Shared by
// the unit test and the fuzzer.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/safetensors.h"

namespace reprise::testing {

// One printable line, not endless.
inline void check_line(const std::string& line) {
  CHECK(!line.empty() && line.size() < 1000);
  for (const char c : line) CHECK(c >= 0x20 && c < 0x7F);
}

// An error is one printable line; a file keeps its promises: every view inside `bytes`, sizes as
// the shapes say, no byte in two tensors. Violations are CHECK failures. True when it was accepted.
inline bool exercise_safetensors(std::span<const std::byte> bytes) {
  const auto file = SafetensorsFile::parse(bytes);
  if (!file) {
    check_line(file.error().message);
    return false;
  }
  std::uint64_t sum = 0;
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (const SafetensorsEntry& entry : file->entries()) {
    CHECK(file->find(entry.name) == &entry);
    CHECK(entry.offset <= bytes.size() && entry.bytes.size() <= bytes.size() - entry.offset);
    CHECK(entry.bytes.data() == bytes.data() + entry.offset);
    std::uint64_t elements = 1;
    for (const std::int64_t dimension : entry.shape) {
      CHECK(dimension >= 0);
      elements *= static_cast<std::uint64_t>(dimension);
    }
    if (const std::optional<int> bits = safetensors_element_bits(entry.dtype)) {
      CHECK(elements * static_cast<std::uint64_t>(*bits) == std::uint64_t{8} * entry.bytes.size());
    }
    for (const std::byte byte : entry.bytes) sum += static_cast<std::uint64_t>(byte);
    if (!entry.bytes.empty()) {
      ranges.emplace_back(entry.offset, entry.offset + entry.bytes.size());
    }
    if (file->file() != nullptr) file->file()->release(entry.offset, entry.bytes.size());
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); i++) CHECK(ranges[i - 1].second <= ranges[i].first);
  for (const auto& [key, text] : file->metadata()) sum += key.size() + text.size();
  CHECK(sum != UINT64_MAX);  // keeps the reads alive
  return true;
}

}  // namespace reprise::testing
