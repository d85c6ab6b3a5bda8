// What a scenario found, as JSON and as bars that hold or do not.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/scenario_session.h"

namespace reprise {

// Keys and values of one model: what the memory bar is made of.
struct KvCost {
  double token_bytes = 0;   // of all layers
  double column_bytes = 0;  // of one page of every span group: 64 tokens
};

struct ScenarioBar {
  std::string name;  // what was measured, and where the worst of it was
  double value = 0;
  double limit = 0;
  bool is_least = false;  // the value must reach the limit; else it must not exceed it
  bool is_bytes = false;  // people read MiB

  bool holds() const { return is_least ? value >= limit : value <= limit; }
  double strain() const;  // above 1: missed
  std::string text() const;
};

// The q-quantile (nearest rank) of values in any order; 0 of none.
double quantile(std::vector<double> values, double q);

// The worst turn's tokens prefilled beyond appended ones, against 64. Empty for estimates.
std::vector<ScenarioBar> prefill_bars(const ScenarioSession& session);

// Bytes of the server's cache against 1.15 of what the tokens take, and a column for each leaf.
std::optional<ScenarioBar> memory_bar(const ScenarioSession& session, const JsonObject& stats,
                                      const KvCost& cost);

// 95 of 100 gaps between tokens of one reply, whatever prefills beside it, against twice the length
// that a step with running streams may take (--decode-ms).
ScenarioBar gap_bar(const ScenarioSession& session, int decode_ms);

JsonArray turns_json(const std::vector<ScenarioTurn>& turns);
JsonObject totals_json(const std::vector<ScenarioTurn>& turns);
JsonObject memory_json(const ScenarioSession& session, const JsonObject& stats, const KvCost& cost,
                       int conversations, std::size_t resident_bytes);
JsonArray bars_json(const std::vector<ScenarioBar>& bars);

}  // namespace reprise
