// The generation requests that the engine has of this service, so that the service can outlive
// them.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "engine/engine.h"

namespace reprise {

class LiveRequests {
 public:
  // Held by a request's sink: its destruction says that nothing of the service is used any more.
  class Ticket {
   public:
    Ticket(LiveRequests& requests, std::uint64_t number) : requests_(&requests), number_(number) {}
    Ticket(Ticket&& other) noexcept : requests_(other.requests_), number_(other.number_) {
      other.requests_ = nullptr;
    }
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (requests_) requests_->leave(number_);
    }
    std::uint64_t number() const { return number_; }

   private:
    LiveRequests* requests_;
    std::uint64_t number_;
  };

  Ticket enter();
  // The engine accepted the request (which may have ended already).
  void set_id(std::uint64_t number, RequestId id);
  // Cancels all and waits until their sinks are gone. No request may enter from now on.
  void cancel_and_wait(Engine& engine);

 private:
  void leave(std::uint64_t number);

  std::mutex mutex_;
  std::condition_variable left_;
  std::uint64_t last_number_ = 0;
  std::unordered_map<std::uint64_t, std::optional<RequestId>> live_;
};

}  // namespace reprise
