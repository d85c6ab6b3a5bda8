// One connection: a coroutine that reads requests, hands them to the Service and sends the replies.
// I/O thread only.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "api/service.h"
#include "http/request_reader.h"
#include "http/server.h"

namespace reprise {

// What all connections share; outlives them.
struct ConnectionContext {
  boost::asio::io_context& io;
  Service& service;
  const ServerOptions& options;
  bool draining = false;
  std::size_t body_bytes = 0;                 // of bodies that are not whole yet
  std::function<void()> on_bodies_full = {};  // body_bytes is beyond what the server allows
};

// One read is pending nearly always, also while a reply is made or sent: that is how a client's
// leaving is noticed during a long prefill. What comes early is kept for the next request. A client
// that closes only its sending side looks the same as one that left, and counts as gone: its reply
// is given up. (A reply that is ready at once still reaches it.)
//
// Where a connection keeps the server waiting, it may have to give way: the longest waiting one to
// a new connection when there are too many, the largest unfinished body when all of them are too
// much.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(ConnectionContext& context, boost::asio::ip::tcp::socket socket);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Until the client leaves, something is refused, or the server drains.
  boost::asio::awaitable<void> serve();
  // Instead of serve(), when there are too many connections: 503.
  boost::asio::awaitable<void> refuse();
  // Must be awaited before the end: closes, and waits for the pending read to notice.
  boost::asio::awaitable<void> finish();

  void tick(Clock::time_point now);  // several times a second: deadlines
  void close_if_idle();              // a drain begins
  void drop();                       // at once: the reply is abandoned, the socket closed

  // Since when the server has waited for the client: for a request, for the rest of one, or, after
  // some time that anybody may take, for a reply that is made to be fetched. max(): it does not,
  // the reply is being made.
  Clock::time_point waiting_since() const;
  std::size_t body_bytes() const { return body_bytes_; }  // of a body that is not whole yet
  void refuse_body();                                     // with 503

 private:
  enum class Phase { idle, header, body, reply, closing };
  struct Reply;  // what is known of the reply on its way

  boost::asio::awaitable<bool> read_request(RequestReader& reader);
  boost::asio::awaitable<bool> send_reply(RequestReader& reader);
  boost::asio::awaitable<void> give_up(RequestReader& reader, RequestTrouble trouble);
  boost::asio::awaitable<void> send_trouble(RequestTrouble trouble);
  boost::asio::awaitable<void> write(std::string bytes);
  boost::asio::awaitable<void> linger();
  boost::asio::awaitable<bool> wait_until(Clock::time_point limit);

  void enter(Phase phase, std::int64_t timeout_ms);  // 0: no limit
  void start_read();
  void on_read(std::size_t bytes);
  void count_body(std::size_t bytes);
  void end_body();
  void on_events();
  void watch_fetching(Clock::time_point now);
  void extend_write_deadline(Clock::time_point now);
  bool client_closed_unseen();

  ConnectionContext& context_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer signal_;  // wakes the coroutine; it looks at everything again
  Phase phase_ = Phase::idle;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point waiting_since_ = Clock::now();
  bool timed_out_ = false;
  bool gone_ = false;     // the client left, or we gave it up
  bool reading_ = false;  // a read into incoming_ is pending
  bool writing_ = false;
  std::array<char, 16384> incoming_;
  std::string unread_;                  // came in, not consumed yet
  std::size_t body_bytes_ = 0;          // come so far, while it is not whole
  std::size_t refused_body_bytes_ = 0;  // not 0: this body gives way
  std::size_t unsent_bytes_ = 0;        // of the write that is pending
  std::size_t least_queued_bytes_ = 0;  // in the kernel since that write began
  Reply* reply_ = nullptr;              // lives in send_reply's frame
};

}  // namespace reprise
