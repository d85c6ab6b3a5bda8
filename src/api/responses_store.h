// The responses that are kept for their clients, in memory and bounded. Any thread.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/limits.h"
#include "api/responses_items.h"
#include "base/clock.h"

namespace reprise {

struct StoredResponse {
  std::string id;
  std::string body;                 // the response object, as JSON
  std::vector<ResponseItem> items;  // the conversation with the reply, without log probabilities
  std::size_t input_count = 0;      // of the items; the rest are the reply

  std::size_t bytes() const;  // of memory, roughly
};

// So many bytes of conversations wait for their replies; given back at its end.
class ConversationClaim {
 public:
  ConversationClaim() = default;
  ConversationClaim(std::atomic<std::size_t>& sum, std::size_t bytes) : sum_(&sum), bytes_(bytes) {}
  ConversationClaim(ConversationClaim&& other) noexcept
      : sum_(std::exchange(other.sum_, nullptr)), bytes_(other.bytes_) {}
  ConversationClaim& operator=(ConversationClaim&& other) noexcept {
    std::swap(sum_, other.sum_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ConversationClaim() {
    if (sum_) *sum_ -= bytes_;
  }

 private:
  std::atomic<std::size_t>* sum_ = nullptr;
  std::size_t bytes_ = 0;
};

// Every key (tenant) sees its own responses only. When the store is full, the oldest response of
// the key goes that holds the most: whoever keeps little loses nothing to one who keeps much.
class ResponsesStore {
 public:
  using Clock = std::int64_t (*)();  // milliseconds since 1970
  explicit ResponsesStore(const Limits& limits = {}, Clock clock = unix_milliseconds);

  // The most that the conversation before a reply may have, in bytes(): it can be kept then, and no
  // small request stands for a large one.
  std::size_t conversation_bytes_max() const { return limits_.stored_response_bytes_max / 4; }

  // For the conversation of a request on its way: requests of a few bytes may go on with megabytes.
  // nullopt: with it there would be more than may wait. The store must outlive the claim.
  std::optional<ConversationClaim> claim(std::size_t bytes);
  std::size_t claimed_bytes() const { return claimed_; }
  std::size_t waiting_bytes_max() const { return limits_.waiting_conversation_bytes_max; }

  // One that is larger than the whole store is not kept.
  void put(std::string_view tenant, StoredResponse response);
  bool erase(std::string_view tenant, std::string_view id);

  std::optional<std::string> body(std::string_view tenant, std::string_view id) const;
  std::optional<std::vector<ResponseItem>> conversation(std::string_view tenant,
                                                        std::string_view id) const;
  // An item of a reply, and its bytes(): to be asked before it is copied.
  std::optional<std::size_t> item_bytes(std::string_view tenant, std::string_view item_id) const;
  std::optional<ResponseItem> item(std::string_view tenant, std::string_view item_id) const;

  struct PageQuery {
    bool is_ascending = false;
    std::string after;  // an item's id; empty: from the list's beginning
    std::size_t limit = 20;
  };
  struct Page {
    std::vector<ResponseItem> items;
    bool has_more = false;
    bool after_found = true;
  };
  // Of the items before the reply.
  std::optional<Page> input_page(std::string_view tenant, std::string_view id,
                                 const PageQuery& query) const;

  std::size_t size() const;
  std::size_t bytes() const;

 private:
  struct Entry {
    StoredResponse response;
    std::int64_t kept_ms = 0;
    std::size_t bytes = 0;
  };
  using Entries = std::list<Entry>;  // oldest first
  struct Tenant {
    Entries entries;
    std::unordered_map<std::string, Entries::iterator> by_id;
    std::unordered_map<std::string, Entries::iterator> by_item;  // items of replies
    std::size_t bytes = 0;
  };

  const Entry* find(std::string_view tenant, std::string_view id) const;
  const ResponseItem* find_item(std::string_view tenant, std::string_view item_id) const;
  bool is_expired(const Entry& entry) const;
  void remove(Tenant& tenant, Entries::iterator entry);
  void make_room(std::size_t bytes);

  const Limits limits_;
  const Clock clock_;
  mutable std::mutex mutex_;
  std::map<std::string, Tenant, std::less<>> tenants_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  std::atomic<std::size_t> claimed_{0};
};

}  // namespace reprise
