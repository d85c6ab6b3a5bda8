// The generation requests that the engine has of this service: it owns what their choices share,
// knows how to cancel them, and lets the service outlive them.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"

namespace reprise {

class ReplyGroup;

class LiveRequests {
 public:
  explicit LiveRequests(Engine& engine);  // must outlive this
  LiveRequests(const LiveRequests&) = delete;
  LiveRequests& operator=(const LiveRequests&) = delete;
  ~LiveRequests();

  // Held by the sink of each choice, as the last of its members to go: when the last one of a
  // request leaves, its group is freed, and nothing of the service is used any more.
  class Ticket {
   public:
    Ticket(Ticket&& other) noexcept : requests_(other.requests_), number_(other.number_) {
      other.requests_ = nullptr;
    }
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (requests_) requests_->leave(number_);
    }

   private:
    friend class LiveRequests;
    Ticket(LiveRequests& requests, std::uint64_t number) : requests_(&requests), number_(number) {}
    LiveRequests* requests_;
    std::uint64_t number_;
  };

  // A request of so many choices: its number, and a ticket for each.
  struct Entered {
    std::uint64_t number = 0;
    std::vector<Ticket> tickets;
  };
  Entered enter(std::size_t choices);
  // What the choices of a request share. Before the first of its sinks can be called.
  ReplyGroup& keep(std::uint64_t number, std::unique_ptr<ReplyGroup> group);
  // The engine accepted the request (whose choices may have ended already). Cancels them when that
  // was asked for before.
  void set_ids(std::uint64_t number, std::vector<RequestId> ids);
  // Every choice of a request ends as cancelled at the next step; unknown numbers are ignored.
  void cancel(std::uint64_t number);
  // Cancels all and waits until their sinks are gone. No request may enter from now on.
  void cancel_and_wait();

 private:
  struct Request {
    std::size_t tickets = 0;
    std::unique_ptr<ReplyGroup> group;
    std::vector<RequestId> ids;
    bool is_cancelled = false;
  };
  void leave(std::uint64_t number);

  Engine* engine_;
  std::mutex mutex_;
  std::condition_variable left_;
  std::uint64_t last_number_ = 0;
  std::unordered_map<std::uint64_t, Request> live_;
};

}  // namespace reprise
