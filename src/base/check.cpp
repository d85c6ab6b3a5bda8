// The end of a process that found a bug in itself.
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace reprise {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "reprise: internal error: %s:%d: CHECK(%s) failed\n", file, line, condition);
  std::abort();
}

}  // namespace reprise
