// `reprise bench --scenario`: conversations as clients have them, against a server.
#pragma once
#include "cli/options.h"

namespace reprise {

// Runs options.scenario against options.url, or against a server of its own for options.model.
// A table goes to stderr, one JSON object to stdout. Returns the process's exit code: with
// options.check 1 when a bar is missed.
int run_scenario(const Options& options);

}  // namespace reprise
