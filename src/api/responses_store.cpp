// What is kept, and who loses first.
#include "api/responses_store.h"

#include <algorithm>
#include <span>
#include <utility>

namespace reprise {
namespace {

constexpr std::size_t kEntryBytes = 256;  // of lists and maps, a response
constexpr std::size_t kItemBytes = 128;   // the same, an item of a reply

}  // namespace

std::size_t StoredResponse::bytes() const {
  std::size_t sum = sizeof(StoredResponse) + kEntryBytes + id.size() * 2 + body.size();
  for (const ResponseItem& each : items) sum += each.bytes();
  for (std::size_t index = input_count; index < items.size(); index++) {
    sum += kItemBytes + items[index].id.size();
  }
  return sum;
}

ResponsesStore::ResponsesStore(const Limits& limits, Clock clock)
    : limits_(limits), clock_(clock) {}

void ResponsesStore::put(std::string_view tenant_name, StoredResponse response) {
  const std::size_t bytes = response.bytes();
  if (bytes > limits_.stored_response_bytes_max || limits_.stored_responses_max == 0) return;
  const std::lock_guard lock(mutex_);
  make_room(bytes);
  Tenant& tenant = tenants_[std::string(tenant_name)];
  const std::string id = response.id;
  tenant.entries.push_back({std::move(response), clock_(), bytes});
  const auto entry = std::prev(tenant.entries.end());
  tenant.by_id.insert_or_assign(id, entry);
  const std::vector<ResponseItem>& items = entry->response.items;
  for (std::size_t index = entry->response.input_count; index < items.size(); index++) {
    tenant.by_item.insert_or_assign(items[index].id, entry);
  }
  tenant.bytes += bytes;
  bytes_ += bytes;
  count_++;
}

// What is too old goes first; then, as long as there is not room for one more, the oldest of the
// tenant that holds most: in number when these are too many, else in bytes.
void ResponsesStore::make_room(std::size_t bytes) {
  for (auto tenant = tenants_.begin(); tenant != tenants_.end();) {
    while (!tenant->second.entries.empty() && is_expired(tenant->second.entries.front())) {
      remove(tenant->second, tenant->second.entries.begin());
    }
    tenant = tenant->second.entries.empty() ? tenants_.erase(tenant) : std::next(tenant);
  }
  const auto largest = [this](auto measure) {
    return std::max_element(tenants_.begin(), tenants_.end(),
                            [&](const auto& one, const auto& other) {
                              return measure(one.second) < measure(other.second);
                            });
  };
  while (count_ + 1 > limits_.stored_responses_max) {
    Tenant& tenant = largest([](const Tenant& each) { return each.entries.size(); })->second;
    remove(tenant, tenant.entries.begin());
  }
  while (bytes_ + bytes > limits_.stored_response_bytes_max) {
    Tenant& tenant = largest([](const Tenant& each) { return each.bytes; })->second;
    remove(tenant, tenant.entries.begin());
  }
}

void ResponsesStore::remove(Tenant& tenant, Entries::iterator entry) {
  const StoredResponse& response = entry->response;
  for (std::size_t index = response.input_count; index < response.items.size(); index++) {
    tenant.by_item.erase(response.items[index].id);
  }
  tenant.by_id.erase(response.id);
  tenant.bytes -= entry->bytes;
  bytes_ -= entry->bytes;
  count_--;
  tenant.entries.erase(entry);
}

bool ResponsesStore::erase(std::string_view tenant_name, std::string_view id) {
  const std::lock_guard lock(mutex_);
  if (!find(tenant_name, id)) return false;
  Tenant& tenant = tenants_.find(tenant_name)->second;
  remove(tenant, tenant.by_id.at(std::string(id)));
  return true;
}

bool ResponsesStore::is_expired(const Entry& entry) const {
  return clock_() - entry.kept_ms >= limits_.stored_response_ms_max;
}

const ResponsesStore::Entry* ResponsesStore::find(std::string_view tenant_name,
                                                  std::string_view id) const {
  const auto tenant = tenants_.find(tenant_name);
  if (tenant == tenants_.end()) return nullptr;
  const auto entry = tenant->second.by_id.find(std::string(id));
  if (entry == tenant->second.by_id.end() || is_expired(*entry->second)) return nullptr;
  return &*entry->second;
}

std::optional<std::string> ResponsesStore::body(std::string_view tenant,
                                                std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = find(tenant, id);
  if (!entry) return std::nullopt;
  return entry->response.body;
}

std::optional<std::vector<ResponseItem>> ResponsesStore::conversation(std::string_view tenant,
                                                                      std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = find(tenant, id);
  if (!entry) return std::nullopt;
  return entry->response.items;
}

const ResponseItem* ResponsesStore::find_item(std::string_view tenant_name,
                                              std::string_view item_id) const {
  const auto tenant = tenants_.find(tenant_name);
  if (tenant == tenants_.end()) return nullptr;
  const auto entry = tenant->second.by_item.find(std::string(item_id));
  if (entry == tenant->second.by_item.end() || is_expired(*entry->second)) return nullptr;
  const StoredResponse& response = entry->second->response;
  const auto reply = std::span(response.items).subspan(response.input_count);
  const auto item = std::ranges::find(reply, item_id, &ResponseItem::id);
  return item == reply.end() ? nullptr : &*item;
}

std::optional<std::size_t> ResponsesStore::item_bytes(std::string_view tenant,
                                                      std::string_view item_id) const {
  const std::lock_guard lock(mutex_);
  const ResponseItem* item = find_item(tenant, item_id);
  if (!item) return std::nullopt;
  return item->bytes();
}

std::optional<ResponseItem> ResponsesStore::item(std::string_view tenant,
                                                 std::string_view item_id) const {
  const std::lock_guard lock(mutex_);
  const ResponseItem* item = find_item(tenant, item_id);
  if (!item) return std::nullopt;
  return *item;
}

std::optional<ResponsesStore::Page> ResponsesStore::input_page(std::string_view tenant,
                                                               std::string_view id,
                                                               const PageQuery& query) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = find(tenant, id);
  if (!entry) return std::nullopt;
  const std::size_t count = entry->response.input_count;
  const auto at = [&](std::size_t place) -> const ResponseItem& {
    return entry->response.items[query.is_ascending ? place : count - 1 - place];
  };
  Page page;
  std::size_t place = 0;
  if (!query.after.empty()) {
    while (place < count && at(place).id != query.after) place++;
    page.after_found = place < count;
    place++;
  }
  for (; place < count && page.items.size() < query.limit; place++) page.items.push_back(at(place));
  page.has_more = place < count;
  return page;
}

std::optional<ConversationClaim> ResponsesStore::claim(std::size_t bytes) {
  ConversationClaim claim(claimed_, bytes);
  if ((claimed_ += bytes) > limits_.waiting_conversation_bytes_max) return std::nullopt;
  return claim;
}

std::size_t ResponsesStore::size() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::size_t ResponsesStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace reprise
