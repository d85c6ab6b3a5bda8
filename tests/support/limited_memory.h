// What the system refuses, on demand: a limit of this process's address space. For child processes
// (death tests); not under sanitizers, whose own memory counts.
#pragma once
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REPRISE_CAN_LIMIT_MEMORY 0
#elif defined(__has_feature)  // clang
#define REPRISE_CAN_LIMIT_MEMORY \
  (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define REPRISE_CAN_LIMIT_MEMORY 1
#endif

namespace reprise::testing {

// Leaves room for so much more memory than there is. -1: takes the limit away.
inline void limit_memory(long more_bytes) {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = limit.rlim_max;
  if (more_bytes >= 0)
    limit.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + more_bytes);
  setrlimit(RLIMIT_AS, &limit);
}

}  // namespace reprise::testing
