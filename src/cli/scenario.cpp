// Servers, scripts and the report together.
#include "cli/scenario.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "cli/child_server.h"
#include "cli/model_headers.h"
#include "cli/progress_line.h"
#include "cli/scenario_report.h"
#include "cli/scenario_scripts.h"
#include "cli/scenario_session.h"
#include "cli/scenario_storm.h"
#include "cli/stack.h"
#include "cli/standard_output.h"

namespace reprise {
namespace {

constexpr int kColdTurns = 5;
// The storm's budgets as shares of what all its conversations take.
constexpr double kStormShares[] = {1, 0.5, 0.25};

struct ScenarioOutcome {
  JsonObject json;
  std::vector<ScenarioBar> bars;
};

bool is_quiet(const Options& options) {
  return options.log_level == "off" || options.log_level == "error";
}

const char* kv_type_name(kernels::KvType type) {
  switch (type) {
    case kernels::KvType::f32:
      return "f32";
    case kernels::KvType::bf16:
      return "bf16";
    case kernels::KvType::int8:
      return "int8";
    default:
      return "f16";
  }
}

// `serve` with what the bench was given. `budget_bytes` 0: the server's own choice.
std::vector<std::string> serve_arguments(const Options& options, std::size_t budget_bytes) {
  std::vector<std::string> arguments = {"serve",
                                        "--model",
                                        options.model,
                                        "--port",
                                        "0",
                                        "--parallel",
                                        std::to_string(kStormParallel)};
  const auto add = [&](const char* flag, std::string value) {
    arguments.emplace_back(flag);
    arguments.push_back(std::move(value));
  };
  add("--log-level", options.log_level == "info" ? "warn" : options.log_level);
  add("--kv-type", kv_type_name(options.kv_type));
  if (options.quantize == Quantization::q8_0) add("--quantize", "q8_0");
  if (options.quantize == Quantization::q4) add("--quantize", "q4");
  if (options.threads > 0) add("--threads", std::to_string(options.threads));
  if (options.context_length > 0) add("--ctx-size", std::to_string(options.context_length));
  if (!options.isa.empty()) add("--isa", options.isa);
  if (budget_bytes > 0) add("--prompt-cache-capacity", std::to_string(budget_bytes));
  return arguments;
}

// From the model's headers alone.
Result<KvCost> read_kv_cost(const Options& options) {
  if (options.model.empty()) return KvCost{};
  TRY_ASSIGN(const ModelConfig config, read_model_config(options.model));
  KvCost cost;
  for (const SpanGroup& group : config.kv_layout(options.kv_type).groups)
    cost.column_bytes += static_cast<double>(group.page_bytes());
  cost.token_bytes = cost.column_bytes / static_cast<double>(kPagePositions);
  return cost;
}

// A server to talk to: a child, or the one at --url.
struct Target {
  std::optional<ChildServer> child;
  HttpAddress address;

  static Result<Target> open(const Options& options, std::size_t budget_bytes) {
    Target target;
    if (!options.url.empty()) {
      Result<HttpAddress> address = HttpAddress::parse(options.url);
      if (!address) return fail(address.error().code, address.error().message, "--url");
      target.address = std::move(*address);
      return target;
    }
    TRY_ASSIGN(ChildServer child, ChildServer::start(serve_arguments(options, budget_bytes)));
    target.address = child.address();
    target.child.emplace(std::move(child));
    return target;
  }
  std::size_t resident_bytes() const { return child ? child->resident_bytes() : 0; }
};

Result<int> run_script(const std::string& scenario, ScenarioSession& session) {
  if (scenario == "chat") return run_chat_script(session);
  if (scenario == "agent") return run_agent_script(session);
  return run_branch_script(session);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Result<ScenarioOutcome> run_turns(const Options& options, const KvCost& cost) {
  TRY_ASSIGN(const Target target, Target::open(options, 0));
  TRY_ASSIGN(ScenarioSession session, ScenarioSession::open(target.address, is_quiet(options)));
  const auto begin = std::chrono::steady_clock::now();
  TRY_ASSIGN(const int conversations, run_script(options.scenario, session));
  const double seconds = seconds_since(begin);
  const JsonObject stats = session.cache_stats();
  const std::size_t resident = target.resident_bytes();
  TRY(session.measure_cold(kColdTurns));
  ScenarioOutcome outcome;
  outcome.bars = prefill_bars(session);
  if (const auto bar = memory_bar(session, stats, cost)) outcome.bars.push_back(*bar);
  outcome.json["exact_ids"] = session.has_exact_ids();
  outcome.json["seconds"] = seconds;
  outcome.json["totals"] = totals_json(session.turns());
  outcome.json["memory"] = memory_json(session, stats, cost, conversations, resident);
  outcome.json["turns"] = turns_json(session.turns());
  return outcome;
}

// One storm at one budget; the bytes it needed in `used_bytes`.
Result<JsonObject> run_one_storm(const Options& options, const KvCost& cost, std::size_t budget,
                                 StormOutcome& storm, double& used_bytes,
                                 std::vector<ScenarioBar>& bars) {
  TRY_ASSIGN(const Target target, Target::open(options, budget));
  TRY_ASSIGN(ScenarioSession session, ScenarioSession::open(target.address, is_quiet(options)));
  const auto begin = std::chrono::steady_clock::now();
  TRY_ASSIGN(storm, run_storm(session));
  const double seconds = seconds_since(begin);
  const JsonObject stats = session.cache_stats();
  JsonObject json = {
      {"reuse", storm.reuse},
      {"own_reuse", storm.own_reuse},
      {"seconds", seconds},
      {"totals", totals_json(session.turns())},
      {"memory", memory_json(session, stats, cost, kStormConversations, target.resident_bytes())}};
  if (budget > 0) json["budget_bytes"] = budget;
  if (budget == 0) {
    if (const auto bar = memory_bar(session, stats, cost)) bars.push_back(*bar);
    bars.push_back(gap_bar(session, options.decode_ms));
    const JsonValue* used = stats.if_contains("used_bytes");
    used_bytes = used != nullptr ? used->to_number<double>() : 0;
    json["turns"] = turns_json(session.turns());
  }
  write_stderr(fmt::format("storm, budget {}: reuse {:.3f}, without the shared prefix {:.3f}\n",
                           budget > 0 ? fmt::format("{} MiB", budget >> 20) : "of the server",
                           storm.reuse, storm.own_reuse));
  return json;
}

// First with the server's own budget, then with shares of what that took.
Result<ScenarioOutcome> run_storms(const Options& options, const KvCost& cost) {
  constexpr double kFullReuse = 0.97;
  constexpr double kNoise = 0.05;
  ScenarioOutcome outcome;
  StormOutcome full;
  double used = 0;
  TRY_ASSIGN(JsonObject first, run_one_storm(options, cost, 0, full, used, outcome.bars));
  outcome.json = std::move(first);
  outcome.bars.push_back({"storm: reuse with room in the budget", full.reuse, kFullReuse, true});
  if (!options.url.empty() || used <= 0) return outcome;
  JsonArray curve;
  double above = full.reuse;
  for (const double share : kStormShares) {
    // Room for what the running ones compute, whatever the share: they are not idle.
    const double budget = share * used + kStormParallel * cost.column_bytes;
    StormOutcome storm;
    TRY_ASSIGN(JsonObject json, run_one_storm(options, cost, static_cast<std::size_t>(budget),
                                              storm, used, outcome.bars));
    json["share"] = share;
    curve.push_back(std::move(json));
    outcome.bars.push_back({fmt::format("storm: reuse with {} of the budget", share), storm.reuse,
                            share * full.reuse * (1 - kNoise), true});
    outcome.bars.push_back({fmt::format("storm: rise of reuse when the budget falls to {}", share),
                            std::max(storm.reuse - above, 0.0), kNoise, false});
    above = storm.reuse;
  }
  outcome.json["curve"] = std::move(curve);
  return outcome;
}

}  // namespace

int run_scenario(const Options& options) {
  if (options.url.empty() && options.model.empty()) {
    return report({Errc::invalid_argument,
                   "no model given: -m FILE.gguf or -m FOLDER, or a server with --url", "--model"});
  }
  const Result<KvCost> cost = read_kv_cost(options);
  if (!cost) return report(cost.error());
  Result<ScenarioOutcome> outcome =
      options.scenario == "storm" ? run_storms(options, *cost) : run_turns(options, *cost);
  if (!outcome) return report(outcome.error());
  JsonObject json = {{"scenario", options.scenario},
                     {"server", options.url.empty() ? std::string("reprise serve") : options.url}};
  for (auto& [key, value] : outcome->json) json[key] = std::move(value);
  json["bars"] = bars_json(outcome->bars);
  fmt::print("{}\n", to_json(json));
  write_output({});
  if (outcome->bars.empty()) {
    write_stderr("no bar could be checked: the server tells no token ids\n");
    return options.check ? 1 : 0;
  }
  const auto holds = std::ranges::all_of(outcome->bars, &ScenarioBar::holds);
  std::ranges::sort(outcome->bars, {}, &ScenarioBar::strain);
  for (const ScenarioBar& bar : outcome->bars) write_stderr(fmt::format("{}\n", bar.text()));
  return options.check && !holds ? 1 : 0;
}

}  // namespace reprise
