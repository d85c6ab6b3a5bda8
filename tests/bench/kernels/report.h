// The table of figures, and whether the bars hold.
#pragma once
#include <span>

#include "bench/kernels/bench.h"

namespace reprise::bench {

// Prints every figure, then every bar that a figure was held against, then the worst of all on the
// last line. Returns whether each bar held: false also when cases that have one lacked the peer,
// and when nothing was held to a bar.
bool print_report(const Bench& bench);

}  // namespace reprise::bench
