// Our own client against our own server, and against listeners that misbehave.
#include "http/client.h"

#include <algorithm>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "running_server.h"

namespace reprise {
namespace {

using test_support::eventually;
using test_support::FakeDesk;
using test_support::milliseconds;
using test_support::RunningServer;

HttpAddress local(std::uint16_t port) {
  return {"127.0.0.1", port, ""};
}

// Accepts one connection, reads the request's head, sends `reply` and closes; with `hold`, keeps
// the connection open until its own end.
class RawListener {
 public:
  explicit RawListener(std::string reply, bool hold = false) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this, reply = std::move(reply), hold](std::stop_token stop) {
      const int peer = ::accept(listener_, nullptr, nullptr);
      std::string head;
      char byte = 0;
      while (!head.ends_with("\r\n\r\n") && ::recv(peer, &byte, 1, 0) == 1) head += byte;
      ::send(peer, reply.data(), reply.size(), MSG_NOSIGNAL);
      while (hold && !stop.stop_requested()) std::this_thread::sleep_for(milliseconds(5));
      ::close(peer);
    });
  }
  ~RawListener() {
    thread_.request_stop();
    ::shutdown(listener_, SHUT_RDWR);  // wakes an accept that nobody came to
    thread_.join();
    ::close(listener_);
  }
  std::uint16_t port() const { return port_; }

 private:
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::jthread thread_;
};

TEST(HttpAddress, TakesHostPortAndPrefix) {
  const auto plain = HttpAddress::parse("http://localhost:8080");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "localhost");
  EXPECT_EQ(plain->port, 8080);
  EXPECT_EQ(plain->prefix, "");
  EXPECT_EQ(plain->authority(), "localhost:8080");
  const auto v6 = HttpAddress::parse("HTTP://[::1]:9/base/");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->port, 9);
  EXPECT_EQ(v6->prefix, "/base");
  EXPECT_EQ(v6->authority(), "[::1]:9");
  const auto bare = HttpAddress::parse("http://example/");
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->port, 80);
  EXPECT_EQ(bare->prefix, "");
}

TEST(HttpAddress, RefusesWhatIsNoUrlAndHttpsByName) {
  const auto tls = HttpAddress::parse("https://localhost:8080");
  ASSERT_FALSE(tls);
  EXPECT_EQ(tls.error().code, Errc::unsupported);
  EXPECT_NE(tls.error().message.find("https"), std::string::npos);
  for (const char* url : {"", "localhost:8080", "http://", "http://:80", "http://h:0",
                          "http://h:", "http://h:65536", "http://h:8x", "http://[::1",
                          "http://[::1]8", "http://h:80/a b", "http://h:80/?q", "ftp://h:80"}) {
    const auto address = HttpAddress::parse(url);
    ASSERT_FALSE(address) << url;
    EXPECT_EQ(address.error().code, Errc::invalid_argument) << url;
    EXPECT_NE(address.error().message.find(url), std::string::npos);
  }
  for (const char* url : {"http://u:PASS@h:80", "https://u:PASS@h", "u:PASS@h:80"}) {
    const auto address = HttpAddress::parse(url);
    ASSERT_FALSE(address) << url;
    EXPECT_NE(address.error().message.find("@h"), std::string::npos);
    EXPECT_EQ(address.error().message.find("PASS"), std::string::npos);
  }
}

TEST(HttpClient, SendsAllPartsAndReadsTheWholeReply) {
  FakeDesk desk;
  ServiceRequest seen;
  const std::string large(3 << 20, 'x');
  desk.answer = [&](ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
    seen = std::move(request);
    ReplyHead head;
    head.status = 418;
    head.headers.emplace_back("X-Reprise-Cache", "hit; matched=7");
    channel->push(std::move(head));
    channel->push(ReplyData{large});
    channel->push(ReplyEnd{});
  };
  RunningServer server(desk);
  HttpAddress address = local(server.port());
  address.prefix = "/under";
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/x?y=1";
  request.json = R"({"a":1})";
  request.bearer_key = "secret";
  const auto reply = send_request(address, request);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 418);
  EXPECT_FALSE(reply->is_success());
  EXPECT_EQ(reply->body, large);
  EXPECT_EQ(reply->header("x-reprise-cache"), "hit; matched=7");
  EXPECT_EQ(reply->header("x-none"), "");
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.target, "/under/v1/x?y=1");
  EXPECT_EQ(seen.body, R"({"a":1})");
  const std::pair<std::string, std::string> key("authorization", "Bearer secret");
  EXPECT_NE(std::ranges::find(seen.headers, key), seen.headers.end());
}

// One event every 30 ms: each must arrive on its own, not with the last.
TEST(HttpClient, CallsBackForEachEventAsItArrives) {
  FakeDesk desk;
  desk.answer = [&](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    desk.produce([channel] {
      channel->push(FakeDesk::stream_head());
      for (int i = 0; i < 4; ++i) {
        channel->push(ReplyData{"data: " + std::to_string(i) + "\n\n"});
        std::this_thread::sleep_for(milliseconds(30));
      }
      channel->push(ReplyData{"data: [DONE]\n\n"});
      channel->push(ReplyEnd{});
    });
  };
  RunningServer server(desk);
  std::vector<ServerSentEvent> events;
  const auto reply = stream_request(local(server.port()), {}, [&](const ServerSentEvent& event) {
    events.push_back(event);
    return true;
  });
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_TRUE(reply->saw_done);
  EXPECT_EQ(reply->body, "");
  ASSERT_EQ(events.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(events[i].data, std::to_string(i));
  EXPECT_GE(events.back().arrival - events.front().arrival, milliseconds(60));
}

TEST(HttpClient, LeavesWhenTheCallbackWantsNoMore) {
  FakeDesk desk;
  std::atomic<bool> abandoned = false;
  desk.answer = [&](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    channel->on_abandon([&] { abandoned = true; });
    channel->push(FakeDesk::stream_head());
    channel->push(ReplyData{"data: first\n\n"});
  };
  RunningServer server(desk);
  const auto reply =
      stream_request(local(server.port()), {}, [](const ServerSentEvent&) { return false; });
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_FALSE(reply->saw_done);
  EXPECT_TRUE(eventually([&] { return abandoned.load(); }));
}

TEST(HttpClient, AnErrorInsteadOfAStreamComesBackWhole) {
  FakeDesk desk;
  desk.answer = [](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    FakeDesk::push_reply(*channel, 400, R"({"error":{}})");
  };
  RunningServer server(desk);
  int events = 0;
  const auto reply = stream_request(local(server.port()), {}, [&](const ServerSentEvent&) {
    ++events;
    return true;
  });
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 400);
  EXPECT_EQ(reply->body, R"({"error":{}})");
  EXPECT_EQ(events, 0);
}

void expect_trouble(const Result<HttpReply>& reply, Errc code, std::uint16_t port,
                    std::string_view what) {
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, code) << reply.error().message;
  const std::string place = "127.0.0.1 port " + std::to_string(port);
  EXPECT_NE(reply.error().message.find(place), std::string::npos) << reply.error().message;
  EXPECT_NE(reply.error().message.find(what), std::string::npos) << reply.error().message;
}

TEST(HttpClient, NamesHostPortAndWhatFailed) {
  std::uint16_t free_port = 0;
  {
    free_port = RawListener("").port();
  }
  expect_trouble(send_request(local(free_port), {}), Errc::io, free_port, "cannot connect");

  RawListener leaves("");
  expect_trouble(send_request(local(leaves.port()), {}), Errc::io, leaves.port(), "closed");

  RawListener cut("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  expect_trouble(send_request(local(cut.port()), {}), Errc::io, cut.port(), "broke off");

  RawListener babble("SSH-2.0-OpenSSH_9.2\r\n\r\n");
  expect_trouble(send_request(local(babble.port()), {}), Errc::corrupt, babble.port(), "no reply");
}

TEST(HttpClient, ASilentServerIsLeftAfterTheTimeout) {
  HttpRequest request;
  request.timeout = milliseconds(100);
  RawListener silent("", true);
  expect_trouble(send_request(local(silent.port()), request), Errc::io, silent.port(), "100 ms");
  RawListener stuck("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n", true);
  int events = 0;
  const auto reply = stream_request(local(stuck.port()), request, [&](const ServerSentEvent&) {
    ++events;
    return true;
  });
  expect_trouble(reply, Errc::io, stuck.port(), "100 ms");
  EXPECT_EQ(events, 1);
}

TEST(HttpClient, ABodyWithoutLengthEndsWithTheConnection) {
  RawListener old("HTTP/1.0 200 OK\r\n\r\nall of it");
  const auto reply = send_request(local(old.port()), {});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->body, "all of it");
}

}  // namespace
}  // namespace reprise
