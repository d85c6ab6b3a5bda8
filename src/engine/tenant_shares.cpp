// Counters of service by tenant.
#include "engine/tenant_shares.h"

#include <algorithm>

#include "base/check.h"

namespace reprise {

void TenantShares::enter(const std::string& tenant) {
  std::uint64_t least = newest_least_;
  if (!tenants_.empty()) {
    least = std::ranges::min_element(tenants_, {}, [](const auto& entry) {
              return entry.second.served;
            })->second.served;
  }
  const auto [entry, is_new] = tenants_.try_emplace(tenant);
  if (is_new) entry->second = {.served = least, .requests = 0, .number = ++last_number_};
  entry->second.requests++;
}

void TenantShares::leave(const std::string& tenant) {
  const auto entry = tenants_.find(tenant);
  CHECK(entry != tenants_.end());
  if (--entry->second.requests > 0) return;
  newest_least_ = entry->second.served;
  tenants_.erase(entry);
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
