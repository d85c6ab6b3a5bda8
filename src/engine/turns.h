// Whose turn it is: pure policy over plain data. Tenants share evenly; inside a tenant priority
// decides, then arrival. Waiting raises a request's priority, so nobody waits for ever.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/request.h"

namespace reprise {

// A request as the policy sees it.
struct Turn {
  int tenant = 0;            // equal numbers: one tenant
  std::uint64_t served = 0;  // of its tenant
  Priority priority = Priority::normal;
  std::int64_t waited_ms = 0;  // for a place, all in all; running ones do not wait
  std::uint64_t arrival = 0;   // order of acceptance, all different
};

// Its priority, raised by one for every `ageing_ms` that it waited, at most to high.
int rank(const Turn& turn, std::int64_t ageing_ms);

// Whether `a` goes before `b` where both are of one tenant: higher rank, then earlier arrival.
bool goes_before(const Turn& a, const Turn& b, std::int64_t ageing_ms);

// Whether `a` goes before `b` whatever their tenants: the less served tenant first.
bool is_sooner(const Turn& a, const Turn& b, std::int64_t ageing_ms);

// Which waiting request is admitted next: of the least served tenant the one that goes first.
// nullopt: none waits.
std::optional<std::size_t> next_turn(std::span<const Turn> waiting, std::int64_t ageing_ms);

// Which running request gives up pages when there are none left: the lowest rank, then the latest
// arrival, whatever its tenant. `running` is not empty.
std::size_t last_turn(std::span<const Turn> running, std::int64_t ageing_ms);

// Which running request gives its place to `candidate` while all `places` are taken, if one should:
// the last of the tenant that runs most, where that one is above its even share of the places and
// the candidate's below; else the last of the candidate's own tenant, where the candidate ranks
// higher. `tenants`: how many have requests.
std::optional<std::size_t> place_to_take(std::span<const Turn> running, const Turn& candidate,
                                         std::size_t places, std::size_t tenants,
                                         std::int64_t ageing_ms);

}  // namespace reprise
