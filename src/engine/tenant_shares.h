// How much each tenant was served: whoever got least goes next (virtual token counters, Sheng et
// al. 2024, "Fairness in Serving Large Language Models").
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace reprise {

class TenantShares {
 public:
  // A request of the tenant was accepted. A tenant that had none goes on from what it was served
  // before, at least from the least served active one's count: nobody saves up a claim by staying
  // away, nor loses a debt.
  void enter(const std::string& tenant);
  // A request of the tenant ended.
  void leave(const std::string& tenant);
  // So many rows were forwarded for a tenant. This and what follows: of one that has requests.
  void serve(const std::string& tenant, std::uint64_t rows);

  std::uint64_t served(const std::string& tenant) const;
  int number(const std::string& tenant) const;  // stays while it has requests
  std::size_t active() const { return active_; }
  // Active ones, and those that left with a debt that the others have not caught up with.
  std::size_t known() const { return tenants_.size(); }

 private:
  struct Tenant {
    std::uint64_t served = 0;
    std::uint64_t requests = 0;  // accepted and not ended
    int number = 0;
  };
  std::uint64_t least_served() const;

  std::map<std::string, Tenant> tenants_;
  std::size_t active_ = 0;  // tenants with requests
  int last_number_ = 0;
  std::uint64_t newest_least_ = 0;  // what the least served one had when the last left
};

}  // namespace reprise
