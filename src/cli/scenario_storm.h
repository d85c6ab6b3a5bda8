// storm: 64 idle conversations that come back at random, eight at a time.
#pragma once
#include "base/error.h"
#include "cli/scenario_session.h"

namespace reprise {

inline constexpr int kStormConversations = 64;
inline constexpr int kStormParallel = 8;

struct StormOutcome {
  double reuse = 0;      // cached tokens of the returns / tokens that a boundless cache would have
  double own_reuse = 0;  // the same without the prefix that all conversations share
};

// Begins all conversations, then lets 96 returns to conversations drawn at random follow: so a
// cache that holds a share of them and forgets the least recently used can give that share. Errors:
// as ScenarioSession's.
Result<StormOutcome> run_storm(ScenarioSession& session);

}  // namespace reprise
