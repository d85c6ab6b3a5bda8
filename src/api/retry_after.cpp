// An estimate from the published counters.
#include "api/retry_after.h"

#include <algorithm>
#include <cmath>

namespace reprise {

int retry_after_seconds(const EngineStats& stats) {
  constexpr double kLeast = 1, kMost = 60;
  if (stats.requests <= stats.waiting || !(stats.prefill_rows_per_second > 0)) return 1;
  const double ran = static_cast<double>(stats.requests - stats.waiting);
  const double rows = static_cast<double>(stats.forwarded_rows) / ran;
  const double seconds = static_cast<double>(stats.waiting) * rows / stats.prefill_rows_per_second;
  return static_cast<int>(std::ceil(std::clamp(seconds, kLeast, kMost)));
}

}  // namespace reprise
