// When a client that found the queue full should come again.
#pragma once
#include "engine/engine.h"

namespace reprise {

// Seconds, 1 to 60: the work that waits, at the measured speed. A waiting request counts as many
// rows as those that ran so far had on average; before anything was measured it is 1.
int retry_after_seconds(const EngineStats& stats);

}  // namespace reprise
