// A plain HTTP client over a POSIX socket, for tests: it can be as rude, slow or split as it likes.
// Every wait has an end.
#pragma once
#include <arpa/inet.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace reprise::test_support {

struct HttpReply {
  int status = 0;
  std::string head;                            // status line and headers, as sent
  std::map<std::string, std::string> headers;  // names in lower case
  std::string framed_body;                     // as sent: chunk framing included
  std::string body;
};

class HttpClient {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // `receive_buffer_bytes`: a small one makes a client that fetches nothing stall the sender soon.
  explicit HttpClient(std::uint16_t port, int receive_buffer_bytes = 0) {
    descriptor_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer_bytes > 0) {
      ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                   sizeof receive_buffer_bytes);
    }
    const int on = 1;
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  HttpClient(HttpClient&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        connected_(other.connected_),
        ended_(other.ended_),
        received_(std::move(other.received_)) {}
  HttpClient& operator=(HttpClient&&) = delete;
  ~HttpClient() { close(); }

  bool connected() const { return connected_; }
  bool ended() const { return ended_; }                      // the server closed or reset
  const std::string& received() const { return received_; }  // not taken by read_reply yet

  // False when the server does not take it all.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  // Reads what comes until `enough()`, the end, or `limit`; the last value of enough().
  template <class Enough>
  bool read_while_not(Enough enough, Milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!enough()) {
      const auto left =
          std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
      if (ended_ || left.count() <= 0) return false;
      pollfd entry = {descriptor_, POLLIN, 0};
      if (::poll(&entry, 1, static_cast<int>(left.count())) <= 0) continue;
      char bytes[65536];
      const ssize_t count = ::recv(descriptor_, bytes, sizeof bytes, 0);
      if (count <= 0) ended_ = true;
      if (count > 0) received_.append(bytes, static_cast<std::size_t>(count));
    }
    return true;
  }
  bool read_until(std::string_view text, Milliseconds limit = Milliseconds(5000)) {
    return read_while_not([&] { return received_.find(text) != std::string::npos; }, limit);
  }
  bool read_to_end(Milliseconds limit = Milliseconds(5000)) {
    return read_while_not([&] { return ended_; }, limit);
  }

  // Takes the next reply. With `head_only` (an answer to HEAD) no body is expected.
  std::optional<HttpReply> read_reply(bool head_only = false,
                                      Milliseconds limit = Milliseconds(5000)) {
    if (!read_until("\r\n\r\n", limit)) return std::nullopt;
    HttpReply reply;
    reply.head = received_.substr(0, received_.find("\r\n\r\n") + 4);
    received_.erase(0, reply.head.size());
    parse_head(reply);
    const bool bodiless = head_only || reply.status == 204 || reply.status / 100 == 1;
    if (bodiless) return reply;
    if (reply.headers.contains("transfer-encoding")) {
      if (!read_chunks(reply, limit)) return std::nullopt;
    } else if (reply.headers.contains("content-length")) {
      const std::size_t size = std::stoul(reply.headers["content-length"]);
      if (!read_while_not([&] { return received_.size() >= size; }, limit)) return std::nullopt;
      reply.body = reply.framed_body = received_.substr(0, size);
      received_.erase(0, size);
    } else {
      if (!read_to_end(limit)) return std::nullopt;
      reply.body = reply.framed_body = std::exchange(received_, {});
    }
    return reply;
  }

  void finish_sending() { ::shutdown(descriptor_, SHUT_WR); }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }
  // Ends with RST instead of FIN.
  void reset() {
    const linger at_once = {1, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

 private:
  static void parse_head(HttpReply& reply) {
    std::string_view rest = reply.head;
    rest = rest.substr(0, rest.size() - 2);
    reply.status = std::stoi(std::string(rest.substr(rest.find(' ') + 1, 3)));
    rest.remove_prefix(rest.find("\r\n") + 2);
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find("\r\n"));
      std::string name(line.substr(0, line.find(": ")));
      for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
      reply.headers[name] = line.substr(line.find(": ") + 2);
      rest.remove_prefix(line.size() + 2);
    }
  }

  bool read_chunks(HttpReply& reply, Milliseconds limit) {
    for (;;) {
      if (!read_until("\r\n", limit)) return false;
      const std::size_t line = received_.find("\r\n") + 2;
      const std::size_t size = std::stoul(received_, nullptr, 16);
      if (!read_while_not([&] { return received_.size() >= line + size + 2; }, limit)) return false;
      reply.framed_body += received_.substr(0, line + size + 2);
      reply.body += received_.substr(line, size);
      received_.erase(0, line + size + 2);
      if (size == 0) return true;
    }
  }

  int descriptor_ = -1;
  bool connected_ = false;
  bool ended_ = false;
  std::string received_;
};

}  // namespace reprise::test_support
