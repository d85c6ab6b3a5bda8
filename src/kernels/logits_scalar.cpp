// The kernels over logits in plain C++: the specification that every ISA equals bit for bit.
#include "kernels/float8_scalar.h"
#include "kernels/logits.h"

#define REPRISE_ISA scalar
// clang-format off: each file builds on the ones before it
#include "kernels/logits.inc"
// clang-format on
