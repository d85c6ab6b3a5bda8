// Is this thread's floating point what the numeric contract needs? Engine and workers DCHECK it.
#pragma once
#include <xmmintrin.h>

namespace reprise::kernels {

// True when MXCSR rounds to nearest even and neither flushes nor reads denormals as zero. A library
// built with -ffast-math can change that for the whole thread.
inline bool float_environment_is_default() {
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040, kRounding = 0x6000;
  return (_mm_getcsr() & (kFlushToZero | kDenormalsAreZero | kRounding)) == 0;
}

}  // namespace reprise::kernels
