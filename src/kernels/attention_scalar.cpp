// The attention and the KV store in plain C++: the specification that every ISA equals bit for bit.
#include "kernels/attention.h"
#include "kernels/elementary_constants.h"
#include "kernels/float8_scalar.h"

namespace reprise::kernels::scalar {
inline constexpr int kQueryRows = 2;  // six take over a minute to compile
inline constexpr int kTileSums = 2;
}  // namespace reprise::kernels::scalar

#define REPRISE_ISA scalar
// clang-format off: each file builds on the ones before it
#include "kernels/elementary.inc"
#include "kernels/f32x16_pair.inc"
#include "kernels/attention.inc"
// clang-format on
