// The calendar clock, for what people and other programs read; never for measuring.
#pragma once
#include <chrono>
#include <cstdint>

namespace reprise {

// Milliseconds since 1970, UTC.
inline std::int64_t unix_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace reprise
