// The HTTP/1.1 server: sockets, limits and timeouts in front of a Service. One I/O thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/service.h"
#include "base/error.h"

namespace reprise {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;                // 0: the system chooses
  std::int64_t header_timeout_ms = 10'000;  // from the first byte of a request to its last header
  std::int64_t body_timeout_ms = 30'000;    // from there to the end of the body
  std::int64_t idle_timeout_ms = 60'000;    // between requests of one connection
  std::int64_t write_timeout_ms = 30'000;   // for one piece of a reply to be taken
  std::int64_t keep_alive_ms = 15'000;      // a silent event stream gets a comment this often
  // Beyond it, whoever keeps the server waiting longest gives way (not those whose reply is being
  // made: then the new one gets 503).
  std::size_t connections_max = 1024;
  std::size_t header_bytes_max = 64 << 10;
  // While more than so much of a stream waits to be fetched, it must not grow from one grace to the
  // next, or the client is cut off (http/fetch_watch.h).
  std::size_t stream_bytes_max = 8 << 20;
  std::int64_t stream_grace_ms = 5000;
  std::size_t unfinished_bodies_max = 4;  // so many of the largest size, in bytes together
  // What SIGHUP asks for; on the I/O thread, so it must be short. Null: SIGHUP is ignored.
  std::function<void()> on_hangup = {};
};

class Server {
  struct State;

 public:
  // Listens. Errors: io, naming host and port.
  static Result<std::unique_ptr<Server>> listen(Service& service, ServerOptions options);
  // Whether listen() would get the address now: takes it and gives it back. Errors: as listen().
  static Status check_address(const std::string& host, std::uint16_t port);
  explicit Server(std::unique_ptr<State> state);  // for listen()
  ~Server();

  std::uint16_t port() const;  // the one that is listened on

  // Serves until it has been stopped; once. With `handle_signals`, SIGINT and SIGTERM are stop(),
  // and SIGHUP calls on_hangup; after run() they do nothing, as long as the process lives.
  void run(bool handle_signals);
  // Any thread. The first call begins a drain: no new connections, idle ones are closed, running
  // replies finish, requests on their way get the service's 503; run() returns when all have ended,
  // or a moment after the service's drain timeout. The second call ends everything at once.
  void stop();

 private:
  std::unique_ptr<State> state_;
};

}  // namespace reprise
