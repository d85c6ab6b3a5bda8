// The attention and the KV store in plain C++: the specification that every ISA equals bit for bit.
#include "kernels/attention.h"
#include "kernels/elementary_constants.h"
#include "kernels/float8_scalar.h"

#define REPRISE_ISA scalar
#include "kernels/attention.inc"
#include "kernels/elementary.inc"
