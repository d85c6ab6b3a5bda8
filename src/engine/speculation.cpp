// Records of guesses and costs, and the best number of rows by both.
#include "engine/speculation.h"

#include <algorithm>
#include <limits>

namespace reprise {
namespace {

// Before anything is known of a sequence: short matches are chance, long ones are repetitions.
constexpr std::array kFirstChances = {0.15, 0.3, 0.5, 0.7, 0.8};
constexpr double kFirstWeight = 4;  // observations that they weigh
constexpr double kMemory = 0.95;    // of a guess, at each later one

// Rows beyond the first are cheap while the weights' bytes bound a step.
constexpr double kRowCost = 0.08;             // of a step without drafts, before it was measured
constexpr double kLeastRowCost = 0.01;        // of a step, whatever was measured: nothing is free
constexpr std::size_t kStepsRemembered = 64;  // without a measurement
constexpr double kLeastGain = 1.02;           // less is not worth a risk
// Of a step without drafts: where several sequences decode, one's drafts must not hold up the rest.
constexpr double kLongestStep = 1.25;

}  // namespace

GuessRecord::GuessRecord() {
  for (std::size_t i = 0; i < kClasses; i++) {
    classes_[i] = {.right = kFirstChances[i] * kFirstWeight, .all = kFirstWeight};
  }
}

std::size_t GuessRecord::class_of(int matched) {
  if (matched <= 2) return 0;
  if (matched == 3) return 1;
  if (matched <= 5) return 2;
  return matched <= 9 ? 3 : 4;
}

void GuessRecord::observe(int matched, bool is_right) {
  Class& own = classes_[class_of(matched)];
  own.right = own.right * kMemory + (is_right ? 1 : 0);
  own.all = own.all * kMemory + 1;
}

double GuessRecord::chance(int matched) const {
  const Class& own = classes_[class_of(matched)];
  return own.right / own.all;
}

bool StepCosts::is_known(const Measured& measured, int drafted) const {
  const Cell& cell = measured.cells[static_cast<std::size_t>(drafted)];
  return cell.ms > 0 && measured.steps - cell.at <= kStepsRemembered;
}

// Machines have bad moments: a step that took much longer than its like says little.
void StepCosts::observe(int sequences, int drafted, double elapsed_ms) {
  if (sequences < 1 || sequences > kDraftSequencesMax || drafted > kDraftRowsMax) return;
  if (!(elapsed_ms > 0)) return;
  Measured& measured = by_sequences_[static_cast<std::size_t>(sequences)];
  Cell& cell = measured.cells[static_cast<std::size_t>(drafted)];
  if (is_known(measured, drafted)) {
    const double weight = elapsed_ms < cell.ms ? 0.5 : 0.2;
    cell.ms += weight * (std::min(elapsed_ms, 2 * cell.ms) - cell.ms);
  } else {
    cell.ms = elapsed_ms;
  }
  cell.at = ++measured.steps;
}

std::array<double, kDraftRowsMax + 1> StepCosts::costs(int sequences) const {
  const Measured& measured = by_sequences_[static_cast<std::size_t>(sequences)];
  std::array<double, kDraftRowsMax + 1> costs = {};
  int below = -1;  // the nearest that is known
  for (int drafted = 0; drafted <= kDraftRowsMax; drafted++) {
    if (!is_known(measured, drafted)) continue;
    const double ms = measured.cells[static_cast<std::size_t>(drafted)].ms;
    for (int between = below + 1; between < drafted; between++) {
      double& cost = costs[static_cast<std::size_t>(between)];
      if (below < 0) {
        cost = ms * (1 + kRowCost * between) / (1 + kRowCost * drafted);
      } else {
        const double from = costs[static_cast<std::size_t>(below)];
        cost = from + (ms - from) * (between - below) / (drafted - below);
      }
    }
    costs[static_cast<std::size_t>(drafted)] = ms;
    below = drafted;
  }
  // Beyond, in proportion; and at most twice as many at a time: a guess may be far off.
  const double from = below < 0 ? 1 : costs[static_cast<std::size_t>(below)];
  const int known = std::max(below, 0);
  for (int beyond = below + 1; beyond <= kDraftRowsMax; beyond++) {
    costs[static_cast<std::size_t>(beyond)] =
        beyond <= 2 * known + 1 ? from * (1 + kRowCost * beyond) / (1 + kRowCost * known)
                                : std::numeric_limits<double>::infinity();
  }
  const double least = kLeastRowCost * costs[0];
  for (std::size_t i = 1; i < costs.size(); i++) {
    costs[i] = std::max(costs[i], costs[i - 1] + least);
  }
  return costs;
}

std::vector<int> plan_drafts(std::span<const std::vector<double>> chances, const StepCosts& costs) {
  std::vector<int> drafted(chances.size(), 0);
  if (chances.size() > static_cast<std::size_t>(kDraftSequencesMax)) return drafted;
  struct Row {
    double chance = 0;  // that it counts: its token and all before it come true
    std::size_t sequence = 0;
  };
  std::vector<Row> rows;
  for (std::size_t sequence = 0; sequence < chances.size(); sequence++) {
    double chance = 1;
    for (const double next : chances[sequence]) rows.push_back({chance *= next, sequence});
  }
  if (rows.empty()) return drafted;
  // A row's chance is never above that of the one before it, so each draft is cut at its end only.
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) { return a.chance > b.chance; });
  rows.resize(std::min(rows.size(), static_cast<std::size_t>(kDraftRowsMax)));
  const auto cost = costs.costs(static_cast<int>(chances.size()));
  double tokens = static_cast<double>(chances.size());
  double best = tokens / cost[0] * kLeastGain;
  const double longest = chances.size() > 1 ? cost[0] * kLongestStep : cost.back();
  std::size_t count = 0;
  for (std::size_t i = 0; i < rows.size(); i++) {
    if (cost[i + 1] > longest) break;
    tokens += rows[i].chance;
    if (tokens / cost[i + 1] <= best) continue;
    best = tokens / cost[i + 1];
    count = i + 1;
  }
  for (std::size_t i = 0; i < count; i++) drafted[rows[i].sequence]++;
  return drafted;
}

}  // namespace reprise
