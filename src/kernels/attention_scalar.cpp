// The attention and the KV store in plain C++: the specification that every ISA equals bit for bit.
#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/elementary_constants.h"
#include "kernels/float8_scalar.h"

#define REPRISE_ISA scalar
// clang-format off: each file builds on the ones before it
#include "kernels/elementary.inc"
#include "kernels/attention.inc"
// clang-format on
