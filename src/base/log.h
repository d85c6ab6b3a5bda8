// One log: lines on stderr with time and level. Never prompt text, tokens or keys: counts and
// hashes.
#pragma once
#include <string_view>

#include <spdlog/spdlog.h>

#include "base/error.h"

namespace reprise {

// Log functions are spdlog's own: spdlog::info("loaded {} tensors", count).
// Sets the pattern and the level ("debug", "info", "warn", "error"). Errors: invalid_argument.
Status configure_log(std::string_view level);

}  // namespace reprise
