// Sums, quantiles and bars.
#include "cli/scenario_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

namespace reprise {
namespace {

constexpr int kPrefillSlack = 64;
constexpr double kMemorySlack = 1.15;

double bytes_of(const JsonObject& stats) {
  const JsonValue* bytes = stats.if_contains("bytes");
  return bytes != nullptr && bytes->is_number() ? bytes->to_number<double>() : 0;
}

double bound_bytes(const TokenTree& tree, const KvCost& cost) {
  return kMemorySlack * static_cast<double>(tree.unique_tokens()) * cost.token_bytes +
         static_cast<double>(tree.leaves()) * cost.column_bytes;
}

JsonObject spread_json(const std::vector<double>& values) {
  return {{"p50", quantile(values, 0.5)},
          {"p95", quantile(values, 0.95)},
          {"max", quantile(values, 1)},
          {"count", values.size()}};
}

}  // namespace

double ScenarioBar::strain() const {
  const double high = is_least ? limit : value;
  const double low = is_least ? value : limit;
  return low > 0 ? high / low : (high > 0 ? 1e9 : 0);
}

std::string ScenarioBar::text() const {
  constexpr double kMebibyte = 1 << 20;
  const auto number = [&](double amount) {
    return is_bytes ? fmt::format("{:.1f} MiB", amount / kMebibyte) : fmt::format("{:.6g}", amount);
  };
  return fmt::format("{}: {} of {} {}{}", name, number(value), is_least ? "at least" : "at most",
                     number(limit), holds() ? "" : " (missed)");
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double rank = std::ceil(q * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

std::vector<ScenarioBar> prefill_bars(const ScenarioSession& session) {
  if (!session.has_exact_ids() || session.turns().empty()) return {};
  const auto excess = [](const ScenarioTurn& turn) {
    return turn.prefilled_tokens() - turn.appended_tokens();
  };
  const auto worst = std::ranges::max_element(session.turns(), {}, excess);
  return {{fmt::format("tokens prefilled beyond the appended ones, worst in \"{}\"", worst->name),
           static_cast<double>(std::max(excess(*worst), 0)), kPrefillSlack, false}};
}

std::optional<ScenarioBar> memory_bar(const ScenarioSession& session, const JsonObject& stats,
                                      const KvCost& cost) {
  if (stats.empty() || cost.token_bytes <= 0 || !session.has_exact_ids()) return std::nullopt;
  return ScenarioBar{fmt::format("cache bytes for {} tokens and {} leaves",
                                 session.tree().unique_tokens(), session.tree().leaves()),
                     bytes_of(stats), bound_bytes(session.tree(), cost), false, true};
}

JsonArray turns_json(const std::vector<ScenarioTurn>& turns) {
  JsonArray list;
  for (const ScenarioTurn& turn : turns) {
    JsonObject item = {{"name", turn.name},
                       {"prompt_tokens", turn.prompt_tokens},
                       {"completion_tokens", turn.completion_tokens},
                       {"cached_tokens", turn.cached_tokens},
                       {"prefilled_tokens", turn.prefilled_tokens()},
                       {"appended_tokens", turn.appended_tokens()},
                       {"first_token_ms", turn.first_token_ms},
                       {"total_ms", turn.total_ms},
                       {"inter_token_ms", spread_json(turn.gaps_ms)}};
    if (turn.cold_first_token_ms > 0) {
      item["cold_first_token_ms"] = turn.cold_first_token_ms;
      item["first_token_to_cold"] = turn.first_token_ms / turn.cold_first_token_ms;
    }
    list.push_back(std::move(item));
  }
  return list;
}

JsonObject totals_json(const std::vector<ScenarioTurn>& turns) {
  std::int64_t prompt = 0, completion = 0, cached = 0, reusable = 0;
  std::vector<double> firsts, gaps, ratios;
  double total_ms = 0;
  for (const ScenarioTurn& turn : turns) {
    prompt += turn.prompt_tokens;
    completion += turn.completion_tokens;
    cached += turn.cached_tokens;
    reusable += std::min(turn.reusable_tokens, turn.prompt_tokens - 1);
    total_ms += turn.total_ms;
    firsts.push_back(turn.first_token_ms);
    gaps.insert(gaps.end(), turn.gaps_ms.begin(), turn.gaps_ms.end());
    if (turn.cold_first_token_ms > 0)
      ratios.push_back(turn.first_token_ms / turn.cold_first_token_ms);
  }
  return {{"turns", turns.size()},
          {"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"cached_tokens", cached},
          {"prefilled_tokens", prompt - cached},
          {"reusable_tokens", reusable},
          {"reuse", reusable > 0 ? static_cast<double>(cached) / static_cast<double>(reusable) : 0},
          {"turns_ms", total_ms},
          {"first_token_ms", spread_json(firsts)},
          {"inter_token_ms", spread_json(gaps)},
          {"first_token_to_cold", spread_json(ratios)}};
}

ScenarioBar gap_bar(const ScenarioSession& session, int decode_ms) {
  std::vector<double> gaps;
  for (const ScenarioTurn& turn : session.turns())
    gaps.insert(gaps.end(), turn.gaps_ms.begin(), turn.gaps_ms.end());
  return {"milliseconds between tokens, 95 of 100", quantile(gaps, 0.95), 2.0 * decode_ms, false};
}

JsonObject memory_json(const ScenarioSession& session, const JsonObject& stats, const KvCost& cost,
                       int conversations, std::size_t resident_bytes) {
  const TokenTree& tree = session.tree();
  JsonObject memory = {{"conversations", conversations}};
  if (session.has_exact_ids()) {
    memory["unique_tokens"] = tree.unique_tokens();
    memory["leaves"] = tree.leaves();
  }
  if (!stats.empty()) {
    memory["cache_bytes"] = bytes_of(stats);
    memory["bytes_per_conversation"] = bytes_of(stats) / std::max(conversations, 1);
  }
  if (cost.token_bytes > 0 && session.has_exact_ids()) {
    memory["bytes_per_token"] = cost.token_bytes;
    memory["bound_bytes"] = bound_bytes(tree, cost);
  }
  if (resident_bytes > 0) memory["resident_bytes"] = resident_bytes;
  return memory;
}

JsonArray bars_json(const std::vector<ScenarioBar>& bars) {
  JsonArray list;
  for (const ScenarioBar& bar : bars) {
    list.push_back(JsonObject{{"name", bar.name},
                              {"value", bar.value},
                              {bar.is_least ? "at_least" : "at_most", bar.limit},
                              {"holds", bar.holds()}});
  }
  return list;
}

}  // namespace reprise
