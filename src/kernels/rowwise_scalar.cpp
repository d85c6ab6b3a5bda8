// The row by row kernels in plain C++: the specification that every ISA equals bit for bit.
#include "kernels/elementary_constants.h"
#include "kernels/float8_scalar.h"
#include "kernels/rowwise.h"

#define REPRISE_ISA scalar
// clang-format off: each file builds on the ones before it
#include "kernels/elementary.inc"
#include "kernels/f32x16_pair.inc"
#include "kernels/rowwise.inc"
// clang-format on
