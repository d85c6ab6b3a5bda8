// A small blocking HTTP/1.1 client for our own commands: one connection a request, no TLS.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace reprise {

// Where a server listens: "http://127.0.0.1:8080" or "http://[::1]:8080", with or without a path
// that all requests' paths follow ("http://host/prefix").
struct HttpAddress {
  std::string host;  // without brackets
  std::uint16_t port = 80;
  std::string prefix;  // "" or "/prefix", no slash at its end

  // Errors: unsupported for https, invalid_argument for what is no such URL; both name it.
  static Result<HttpAddress> parse(std::string_view url);
  std::string authority() const;  // "host:port" or "[v6]:port", as the Host header has it
};

struct HttpRequest {
  std::string method = "GET";
  std::string path = "/";
  std::string json;        // the body; empty: none
  std::string bearer_key;  // empty: no Authorization header
  // The longest wait for the next byte, connecting and sending included.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

struct HttpReply {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;       // of an event stream: empty, the events went to the callback
  bool saw_done = false;  // an event stream that ended with "data: [DONE]"

  std::string_view header(std::string_view name) const;  // `name` in lower case; "" without it
  bool is_success() const { return status / 100 == 2; }
};

struct ServerSentEvent {
  std::string name;  // of its `event:` line, mostly empty
  std::string data;
  std::chrono::steady_clock::time_point arrival;  // when its last byte was read
};

// Sends the request and waits for the whole reply, whatever its status.
// Errors: io, naming host, port and what failed (a timeout too); corrupt for a reply that is no
// HTTP/1.1.
Result<HttpReply> send_request(const HttpAddress& address, const HttpRequest& request);

// The same, but each event of a reply of type text/event-stream goes to `on_event` as it arrives
// ("[DONE]" does not: reply.saw_done). When `on_event` returns false the connection is closed, and
// the reply is what had come. Replies of other types (errors) come back whole.
Result<HttpReply> stream_request(const HttpAddress& address, const HttpRequest& request,
                                 const std::function<bool(const ServerSentEvent&)>& on_event);

}  // namespace reprise
