// The order of requests: tenants by service, then rank, then arrival.
#include "engine/turns.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace reprise {

int rank(const Turn& turn, std::int64_t ageing_ms) {
  const std::int64_t aged = ageing_ms > 0 ? turn.waited_ms / ageing_ms : 0;
  const auto highest = static_cast<std::int64_t>(Priority::high);
  return static_cast<int>(std::min(static_cast<std::int64_t>(turn.priority) + aged, highest));
}

bool goes_before(const Turn& a, const Turn& b, std::int64_t ageing_ms) {
  const int rank_a = rank(a, ageing_ms);
  const int rank_b = rank(b, ageing_ms);
  return rank_a != rank_b ? rank_a > rank_b : a.arrival < b.arrival;
}

// Turns of one tenant have the same count.
bool is_sooner(const Turn& a, const Turn& b, std::int64_t ageing_ms) {
  return a.served != b.served ? a.served < b.served : goes_before(a, b, ageing_ms);
}

std::optional<std::size_t> next_turn(std::span<const Turn> waiting, std::int64_t ageing_ms) {
  if (waiting.empty()) return std::nullopt;
  const auto soonest = std::ranges::min_element(
      waiting, [&](const Turn& a, const Turn& b) { return is_sooner(a, b, ageing_ms); });
  return static_cast<std::size_t>(soonest - waiting.begin());
}

std::size_t last_turn(std::span<const Turn> running, std::int64_t ageing_ms) {
  CHECK(!running.empty());
  const auto last = std::ranges::max_element(
      running, [&](const Turn& a, const Turn& b) { return goes_before(a, b, ageing_ms); });
  return static_cast<std::size_t>(last - running.begin());
}

namespace {

// The last one of a tenant; nullopt when it runs none.
std::optional<std::size_t> last_of(std::span<const Turn> running, int tenant,
                                   std::int64_t ageing_ms) {
  std::optional<std::size_t> last;
  for (std::size_t index = 0; index < running.size(); index++) {
    if (running[index].tenant != tenant) continue;
    if (!last || goes_before(running[*last], running[index], ageing_ms)) last = index;
  }
  return last;
}

}  // namespace

std::optional<std::size_t> place_to_take(std::span<const Turn> running, const Turn& candidate,
                                         std::size_t places, std::size_t tenants,
                                         std::int64_t ageing_ms) {
  std::map<int, std::size_t> counts;
  for (const Turn& turn : running) counts[turn.tenant]++;
  if (counts.empty()) return std::nullopt;
  const std::size_t share = std::max<std::size_t>(1, places / std::max<std::size_t>(tenants, 1));
  const auto most = std::ranges::max_element(counts, {}, [](const auto& e) { return e.second; });
  const auto own = counts.find(candidate.tenant);
  const std::size_t own_count = own == counts.end() ? 0 : own->second;
  if (own_count < share && most->second > share) return last_of(running, most->first, ageing_ms);
  const std::optional<std::size_t> last = last_of(running, candidate.tenant, ageing_ms);
  if (last && rank(candidate, ageing_ms) > rank(running[*last], ageing_ms)) return last;
  return std::nullopt;
}

}  // namespace reprise
