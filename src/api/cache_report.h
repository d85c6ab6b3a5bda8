// GET /v1/cache/stats and POST /v1/cache/reset as JSON. Counts only: no text, no tokens.
#pragma once
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace reprise {

// `own`: the scope's own numbers. `all`: the sums over all scopes and the ledger that they share,
// for whom may see them; nullptr for others.
std::string format_cache_stats(const EngineOptions& options, const PromptCacheStats& own,
                               const EngineStats* all);
std::string format_cache_reset(const PromptCache::ResetOutcome& outcome);

// What the prompt cache keeps a tenant's entries under (law L8): equal for equal name of the key
// and equal salt only.
CacheScope cache_scope(std::string_view key_name, std::string_view cache_salt);

}  // namespace reprise
