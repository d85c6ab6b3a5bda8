// Small helpers of vector code must be part of their caller: a call would go through memory.
#pragma once

#define REPRISE_INLINE inline __attribute__((always_inline))
