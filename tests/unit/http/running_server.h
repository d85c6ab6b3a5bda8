// A server on a port of the system's choice, on a thread of its own, in front of a FakeDesk.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "fake_service.h"
#include "http/server.h"
#include "support/http_client.h"

namespace reprise::test_support {

using std::chrono::milliseconds;

class RunningServer {
 public:
  explicit RunningServer(FakeDesk& desk, ServerOptions options = {}, ServiceOptions service = {})
      : service_(make_fake_service(desk, std::move(service))) {
    options.port = 0;
    auto server = Server::listen(*service_, options);
    if (!server) ADD_FAILURE() << server.error().message;
    server_ = std::move(server).value();
    thread_ = std::jthread([this] {
      server_->run(false);
      returned_ = true;
    });
  }
  // Ends like a second signal, so that no test waits for a drain it does not look at.
  ~RunningServer() {
    server_->stop();
    server_->stop();
  }

  std::uint16_t port() const { return server_->port(); }
  void stop() { server_->stop(); }
  bool returned() const { return returned_; }

 private:
  std::unique_ptr<Service> service_;
  std::unique_ptr<Server> server_;
  std::atomic<bool> returned_ = false;
  std::jthread thread_;
};

// Polls until `condition` or `limit`; its last value.
inline bool eventually(const std::function<bool()>& condition,
                       milliseconds limit = milliseconds(5000)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

inline std::string get_request(std::string_view target) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: x\r\n\r\n";
}

inline std::string post_request(std::string_view target, std::string_view body) {
  return "POST " + std::string(target) +
         " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         std::string(body);
}

}  // namespace reprise::test_support
