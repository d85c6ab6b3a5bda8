// Requests over real sockets: persistence, limits and timeouts.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "running_server.h"

namespace reprise {
namespace {

using test_support::FakeDesk;
using test_support::get_request;
using test_support::HttpClient;
using test_support::milliseconds;
using test_support::post_request;
using test_support::RunningServer;

// Answers with what it was asked.
class EchoDesk : public FakeDesk {
 public:
  EchoDesk() {
    answer = [this](ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
      ++requests;
      push_reply(*channel, 200, request.method + " " + request.target + " " + request.body);
    };
  }
  std::atomic<int> requests = 0;
};

ServerOptions quick_timeouts() {
  ServerOptions options;
  options.header_timeout_ms = 200;
  options.body_timeout_ms = 200;
  options.idle_timeout_ms = 200;
  return options;
}

TEST(Request, AReplyHasExactlyTheseBytes) {
  EchoDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send(post_request("/a", "hello"));
  ASSERT_TRUE(client.read_until("hello"));
  EXPECT_EQ(client.received(),
            "HTTP/1.1 200 OK\r\nServer: reprise\r\nContent-Type: application/json\r\n"
            "Content-Length: 13\r\n\r\nPOST /a hello");
}

TEST(Request, OneConnectionServesManyInTurn) {
  EchoDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  for (int i = 0; i < 20; ++i) {
    client.send(post_request("/turn", std::to_string(i)));
    const auto reply = client.read_reply();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->body, "POST /turn " + std::to_string(i));
  }
}

TEST(Request, PipelinedRequestsAreAnsweredInOrder) {
  EchoDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  std::string all;
  for (int i = 0; i < 50; ++i) all += post_request("/" + std::to_string(i), std::string(1000, 'a'));
  ASSERT_TRUE(client.send(all));
  for (int i = 0; i < 50; ++i) {
    const auto reply = client.read_reply();
    ASSERT_TRUE(reply) << i;
    EXPECT_EQ(reply->body, "POST /" + std::to_string(i) + " " + std::string(1000, 'a'));
  }
}

TEST(Request, MayComeByteByByte) {
  EchoDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  const std::string chunked =
      "POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
  for (const char c : post_request("/a", "hello") + chunked) {
    ASSERT_TRUE(client.send(std::string_view(&c, 1)));
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(client.read_reply().value().body, "POST /a hello");
  EXPECT_EQ(client.read_reply().value().body, "POST /b hi");
}

TEST(Request, ABodyOfMegabytesArrivesWhole) {
  EchoDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  std::string body(10 << 20, 'a');
  for (std::size_t i = 0; i < body.size(); i += 1000) body[i] = static_cast<char>('a' + i % 26);
  ASSERT_TRUE(client.send(post_request("/a", body)));
  const auto reply = client.read_reply();
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->body == "POST /a " + body);
}

TEST(Request, ASlowHeaderIs408) {
  EchoDesk desk;
  RunningServer server(desk, quick_timeouts());
  HttpClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHo");
  EXPECT_EQ(client.read_reply().value().status, 408);
  EXPECT_TRUE(client.read_to_end());
  EXPECT_EQ(desk.requests, 0);
}

TEST(Request, ATricklingHeaderIs408Too) {
  EchoDesk desk;
  RunningServer server(desk, quick_timeouts());
  HttpClient client(server.port());
  const auto begin = std::chrono::steady_clock::now();
  client.send("GET / HTTP/1.1\r\nThing: ");
  while (!client.read_until("408", milliseconds(40))) {
    client.send("a");
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  }
}

TEST(Request, ASlowBodyIs408) {
  EchoDesk desk;
  RunningServer server(desk, quick_timeouts());
  HttpClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
  const auto reply = client.read_reply();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 408);
  EXPECT_NE(reply->body.find("body"), std::string::npos);
}

TEST(Request, AnIdleConnectionIsClosedWithoutAWord) {
  EchoDesk desk;
  RunningServer server(desk, quick_timeouts());
  HttpClient fresh(server.port());
  HttpClient used(server.port());
  used.send(get_request("/"));
  ASSERT_TRUE(used.read_reply());
  EXPECT_TRUE(fresh.read_to_end());
  EXPECT_TRUE(used.read_to_end());
  EXPECT_EQ(fresh.received() + used.received(), "");
}

TEST(Request, AnOversizeHeaderIs431) {
  EchoDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\nThing: " + std::string(100'000, 'a'));
  EXPECT_EQ(client.read_reply().value().status, 431);
  EXPECT_TRUE(client.read_to_end());
}

TEST(Request, AnOversizeBodyIs413AndTheClientSeesItWhileItStillSends) {
  EchoDesk desk;
  ServiceOptions limits;
  limits.body_bytes_max = 1000;
  limits.allowed_origin = "https://a.example";
  const std::string body(8 << 20, 'a');
  const std::string heads[] = {
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n800000\r\n"};
  for (const std::string& head : heads) {
    RunningServer server(desk, {}, limits);
    HttpClient client(server.port());
    EXPECT_TRUE(client.send(head + body));
    const auto reply = client.read_reply();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 413);
    EXPECT_EQ(reply->headers.at("connection"), "close");
    // Else a browser's script could not read why.
    EXPECT_EQ(reply->headers.at("access-control-allow-origin"), "https://a.example");
  }
  EXPECT_EQ(desk.requests, 0);
}

TEST(Request, ABadChunkIs400AndTheServerLivesOn) {
  EchoDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n");
  EXPECT_EQ(client.read_reply().value().status, 400);
  HttpClient next(server.port());
  next.send(get_request("/"));
  EXPECT_EQ(next.read_reply().value().status, 200);
}

TEST(Request, AClientThatAsksMaySendItsBodyAfter100) {
  EchoDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send("POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  ASSERT_TRUE(client.read_until("\r\n\r\n"));
  EXPECT_EQ(client.received(), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(client.read_reply().value().status, 100);
  client.send("hi");
  EXPECT_EQ(client.read_reply().value().body, "POST /a hi");
}

TEST(Request, AClientThatAsksForTooMuchGetsNo100) {
  EchoDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send(
      "POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n");
  EXPECT_EQ(client.read_reply().value().status, 413);
}

TEST(Request, UnknownMethodsReachTheService) {
  FakeDesk desk;
  desk.answer = [](ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
    FakeDesk::push_reply(*channel, request.method == "GET" ? 200 : 405, "{}");
  };
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send("BREW / HTTP/1.1\r\nHost: x\r\n\r\n" + get_request("/"));
  const auto reply = client.read_reply();
  ASSERT_TRUE(reply);
  EXPECT_NE(reply->head.find("HTTP/1.1 405 Method Not Allowed\r\n"), std::string::npos);
  EXPECT_EQ(client.read_reply().value().status, 200);
}

TEST(Request, HeadHasTheLengthOfGetAndNoBody) {
  EchoDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send("HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" + get_request("/v1/models"));
  const auto head = client.read_reply(true);
  const auto get = client.read_reply();
  ASSERT_TRUE(head && get);
  EXPECT_EQ(head->head, get->head);
  EXPECT_EQ(get->body, "GET /v1/models ");
}

TEST(Request, Http10ClosesUnlessItAsksToStay) {
  EchoDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto kept = client.read_reply();
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->headers.at("connection"), "keep-alive");
  client.send("GET / HTTP/1.0\r\n\r\n");
  const auto last = client.read_reply();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->headers.at("connection"), "close");
  EXPECT_TRUE(client.read_to_end(milliseconds(1000)));
}

TEST(Request, ConnectionCloseIsObeyed) {
  EchoDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + get_request("/"));
  EXPECT_EQ(client.read_reply().value().headers.at("connection"), "close");
  EXPECT_TRUE(client.read_to_end(milliseconds(1000)));
  EXPECT_EQ(client.received(), "");
  EXPECT_EQ(desk.requests, 1);
}

TEST(Request, AReplyWithoutBodySaysNoLength) {
  FakeDesk desk;
  desk.answer = [](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    ReplyHead head;
    head.status = 204;
    head.headers = {{"Access-Control-Allow-Origin", "*"}};
    channel->push(std::move(head));
    channel->push(ReplyData{});
    channel->push(ReplyEnd{});
  };
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send("OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto reply = client.read_reply();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->head,
            "HTTP/1.1 204 No Content\r\nServer: reprise\r\nAccess-Control-Allow-Origin: *\r\n\r\n");
}

}  // namespace
}  // namespace reprise
