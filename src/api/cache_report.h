// GET /v1/cache/stats and POST /v1/cache/reset as JSON. Counts only: no text, no tokens.
#pragma once
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace reprise {

// `own`: the salt's own numbers; `engine`: the ledger that all salts share.
std::string format_cache_stats(const EngineOptions& options, const PromptCacheStats& own,
                               const EngineStats& engine);
std::string format_cache_reset(const PromptCache::ResetOutcome& outcome);

// What the prompt cache keeps a tenant's entries under (law L8): equal for equal key and salt only.
std::string tenant_salt(std::string_view api_key, std::string_view cache_salt);

}  // namespace reprise
