// Checks for bugs, never for input: a CHECK that can be reached from outside is a defect.
// CHECK is always on; DCHECK is on in builds with REPRISE_CHECKS (tests, sanitizers).
#pragma once

namespace reprise {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}

#define CHECK(condition)                                       \
  do {                                                         \
    if (!(condition)) [[unlikely]]                             \
      ::reprise::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)

#ifdef REPRISE_CHECKS
#define DCHECK(condition) CHECK(condition)
#else
#define DCHECK(condition) static_cast<void>(sizeof(!(condition)))
#endif
