// How long the long random tests run: whole, or a part of it where a sanitizer makes them slow.
#pragma once
#include <algorithm>
#include <cstdlib>

namespace reprise {

// `all` rounds, or REPRISE_TEST_PERCENT percent of them and at least one.
inline int rounds(int all) {
  const char* percent = std::getenv("REPRISE_TEST_PERCENT");
  if (percent == nullptr) return all;
  const long long part = std::clamp(std::strtoll(percent, nullptr, 10), 1LL, 100LL);
  return std::max(1, static_cast<int>(all * part / 100));
}

}  // namespace reprise
