// A running server's prompt cache as text for people: one line of numbers, then the tree.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"

namespace reprise {

// From the replies of GET /v1/cache/stats and GET /v1/cache/tree: the numbers, then a line for each
// run of blocks, indented under the run that it continues. Errors: corrupt, naming the member that
// is missing or of another type.
Result<std::string> cache_text(std::string_view stats_json, std::string_view tree_json);

// From the reply of POST /v1/cache/reset. Errors: the same.
Result<std::string> reset_text(std::string_view outcome_json);

// "17 B", "1.5 KiB", "2.0 GiB".
std::string bytes_text(double bytes);
// "5 s", "3 min", "2 h", "4 d": whole units, rounded down.
std::string duration_text(double seconds);

}  // namespace reprise
