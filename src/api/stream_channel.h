// One reply on its way from the threads that make it to the connection that sends it.
// Producers: a prepare thread, then the engine thread. Consumer: the I/O thread. Either side may
// end first, so the channel is shared between them (the house's only shared_ptr).
#pragma once
#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace reprise {

// First event of every reply.
struct ReplyHead {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  bool streamed = false;  // false: exactly one ReplyData follows
};
struct ReplyData {
  std::string bytes;  // a streamed reply: whole server-sent events, framing included
};
struct ReplyEnd {};  // last event of every reply
using ReplyEvent = std::variant<ReplyHead, ReplyData, ReplyEnd>;

class StreamChannel {
 public:
  // `wake` is called (on the producer's thread, without the lock) when an event arrives in an empty
  // channel; it must only post to the consumer's executor. Set once, before the first pop.
  void set_wake(std::function<void()> wake);

  void push(ReplyEvent event);
  std::optional<ReplyEvent> pop();
  std::size_t waiting_bytes() const;  // of data that nobody fetched yet

  // The consumer left: producers stop at their next look. Runs the function given by on_abandon,
  // once.
  void abandon();
  bool is_abandoned() const { return abandoned_.load(std::memory_order_acquire); }
  // Called once when the consumer leaves before the reply's end (at once if it has left already);
  // any thread. After ReplyEnd nothing is called and nothing kept: the producer may be gone.
  void on_abandon(std::function<void()> notify);

 private:
  mutable std::mutex mutex_;
  std::deque<ReplyEvent> events_;
  std::size_t waiting_bytes_ = 0;
  std::function<void()> wake_;
  std::function<void()> notify_;
  bool ended_ = false;  // ReplyEnd was pushed
  std::atomic<bool> abandoned_{false};
};

}  // namespace reprise
