// Counters of service by tenant.
#include "engine/tenant_shares.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace reprise {

// Of the active ones.
std::uint64_t TenantShares::least_served() const {
  if (active_ == 0) return newest_least_;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.requests > 0) least = std::min(least, tenant.served);
  }
  return least;
}

void TenantShares::enter(const std::string& tenant) {
  const std::uint64_t least = least_served();
  std::erase_if(tenants_, [&](const auto& entry) {
    return entry.second.requests == 0 && entry.second.served <= least;
  });
  const auto [entry, is_new] = tenants_.try_emplace(tenant);
  Tenant& entered = entry->second;
  if (is_new) entered = {.served = least, .requests = 0, .number = ++last_number_};
  if (entered.requests++ == 0) active_++;
}

void TenantShares::leave(const std::string& tenant) {
  const auto entry = tenants_.find(tenant);
  CHECK(entry != tenants_.end() && entry->second.requests > 0);
  if (--entry->second.requests > 0) return;
  newest_least_ = entry->second.served;
  active_--;
}

void TenantShares::serve(const std::string& tenant, std::uint64_t rows) {
  const auto entry = tenants_.find(tenant);
  CHECK(entry != tenants_.end());
  entry->second.served += rows;
}

std::uint64_t TenantShares::served(const std::string& tenant) const {
  return tenants_.at(tenant).served;
}

int TenantShares::number(const std::string& tenant) const {
  return tenants_.at(tenant).number;
}

}  // namespace reprise
