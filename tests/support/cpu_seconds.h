// How much work something is: processor time of the whole process, which other programs on the
// machine do not change.
#pragma once
#include <ctime>

namespace reprise {

inline double cpu_seconds() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

}  // namespace reprise
