// The server as a whole: many connections, too many, and its ends.
#include "http/server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "running_server.h"

namespace reprise {
namespace {

using test_support::eventually;
using test_support::FakeDesk;
using test_support::get_request;
using test_support::HttpClient;
using test_support::make_fake_service;
using test_support::milliseconds;
using test_support::RunningServer;

// Streams "data: <n>" every `pause` until `count` events, or it is abandoned.
class StreamDesk : public FakeDesk {
 public:
  StreamDesk(int count, milliseconds pause) {
    answer = [this, count, pause](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
      channel->on_abandon([this] { ++abandoned; });
      ++begun;
      produce([channel, count, pause] {
        channel->push(stream_head());
        for (int i = 0; i < count && !channel->is_abandoned(); ++i) {
          channel->push(ReplyData{"data: " + std::to_string(i) + "\n\n"});
          std::this_thread::sleep_for(pause);
        }
        channel->push(ReplyEnd{});
      });
    };
  }
  std::atomic<int> begun = 0;
  std::atomic<int> abandoned = 0;
};

TEST(Server, TwoHundredStreamsAtOnceEachGetTheirOwn) {
  StreamDesk desk(20, milliseconds(10));
  RunningServer server(desk);
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += "data: " + std::to_string(i) + "\n\n";
  std::deque<HttpClient> clients;
  for (int i = 0; i < 200; ++i) {
    clients.emplace_back(server.port());
    ASSERT_TRUE(clients.back().send(get_request("/")));
  }
  for (HttpClient& client : clients) {
    const auto reply = client.read_reply(false, milliseconds(20'000));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->body, expected);
  }
  EXPECT_EQ(desk.begun, 200);
  EXPECT_EQ(desk.abandoned, 0);
}

TEST(Server, OneConnectionTooManyIsTold503AndAFreedPlaceIsUsed) {
  StreamDesk desk(100'000, milliseconds(10));
  ServerOptions options;
  options.connections_max = 3;
  RunningServer server(desk, options);
  std::deque<HttpClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(server.port());
    clients.back().send(get_request("/"));
    ASSERT_TRUE(clients.back().read_until("data: 1\n"));
  }
  HttpClient refused(server.port());
  refused.send(get_request("/"));
  const auto reply = refused.read_reply();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 503);
  EXPECT_EQ(reply->headers.at("connection"), "close");
  EXPECT_TRUE(refused.read_to_end());

  clients.front().close();
  EXPECT_TRUE(eventually([&] {
    HttpClient next(server.port());
    next.send(get_request("/"));
    return next.read_until("200 OK", milliseconds(1000));
  }));
  EXPECT_TRUE(eventually([&] { return desk.abandoned == 2; }));  // the first, and `next`
}

// Idle connections cannot keep a client out.
TEST(Server, TheLongestIdleConnectionGivesWayToANewOne) {
  FakeDesk desk;
  ServerOptions options;
  options.connections_max = 3;
  RunningServer server(desk, options);
  std::deque<HttpClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(server.port());
    clients.back().send(get_request("/"));
    ASSERT_EQ(clients.back().read_reply().value().status, 200);
  }
  clients[0].send(get_request("/"));  // so the second one is idle longest
  ASSERT_TRUE(clients[0].read_reply());
  HttpClient next(server.port());
  next.send(get_request("/"));
  EXPECT_EQ(next.read_reply().value().status, 200);
  EXPECT_TRUE(clients[1].read_to_end());
  for (const int stays : {0, 2}) {
    clients[static_cast<std::size_t>(stays)].send(get_request("/"));
    EXPECT_TRUE(clients[static_cast<std::size_t>(stays)].read_reply()) << stays;
  }
}

// Neither can those that never finish a header or a body, or do not fetch what was made for them.
TEST(Server, WhoeverKeepsItWaitingGivesWayAndAReplyInTheMakingDoesNot) {
  StreamDesk desk(100'000, milliseconds(10));
  const auto stream = desk.answer;
  desk.answer = [stream](ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
    if (request.target == "/stream") return stream(std::move(request), std::move(channel));
    FakeDesk::push_reply(*channel, 200, std::string(request.target == "/big" ? 8 << 20 : 1, 'a'));
  };
  ServerOptions options;
  options.connections_max = 5;
  RunningServer server(desk, options);
  HttpClient running(server.port());
  running.send(get_request("/stream"));
  ASSERT_TRUE(running.read_until("data: 1\n"));
  HttpClient silent(server.port());
  HttpClient half_header(server.port());
  half_header.send("GET / HTTP/1.1\r\nHo");
  HttpClient half_body(server.port());
  half_body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab");
  HttpClient fetches_nothing(server.port(), 4096);
  fetches_nothing.send(get_request("/big"));
  std::this_thread::sleep_for(milliseconds(1100));  // the last one has a second
  std::deque<HttpClient> streams;
  for (int i = 0; i < 4; ++i) {
    streams.emplace_back(server.port());
    streams.back().send(get_request("/stream"));
    EXPECT_TRUE(streams.back().read_until("data: 1\n")) << i;
  }
  for (HttpClient* gone : {&silent, &half_header, &half_body, &fetches_nothing})
    EXPECT_TRUE(gone->read_to_end());
  HttpClient refused(server.port());
  refused.send(get_request("/"));
  EXPECT_EQ(refused.read_reply().value().status, 503);
  EXPECT_EQ(desk.abandoned, 0);
}

TEST(Server, TheLargestUnfinishedBodyGivesWay) {
  FakeDesk desk;
  ServiceOptions service;
  service.body_bytes_max = 100'000;
  RunningServer server(desk, {}, service);
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
  const std::size_t sizes[] = {10, 77'000, 78'000, 79'000, 80'000, 81'000};
  std::deque<HttpClient> clients;
  for (const std::size_t size : sizes) {
    clients.emplace_back(server.port());
    clients.back().send(head + std::string(size, 'a'));
  }
  std::this_thread::sleep_for(milliseconds(100));
  clients[3].send(
      std::string(10'000, 'a'));  // now the largest, and together they are beyond 400000
  const auto refused = clients[3].read_reply();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 503);
  EXPECT_NE(refused->body.find("89000 bytes"), std::string::npos) << refused->body;
  for (const std::size_t stays : {1U, 2U, 4U, 5U, 0U}) {
    clients[stays].send(std::string(100'000 - sizes[stays], 'a'));
    const auto reply = clients[stays].read_reply();
    ASSERT_TRUE(reply) << stays;
    EXPECT_EQ(reply->status, 200) << stays;
  }
}

TEST(Server, RaisesTheSoftLimitOfDescriptorsToWhatItNeeds) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 256;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  FakeDesk desk;
  ServerOptions options;
  options.connections_max = 500;
  {
    RunningServer server(desk, options);
    rlimit now = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
    EXPECT_GE(now.rlim_cur, std::min<rlim_t>(500, before.rlim_max));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Server, AStopLetsARunningStreamFinishAndTakesNothingMore) {
  StreamDesk desk(20, milliseconds(20));
  RunningServer server(desk);
  HttpClient idle(server.port());
  idle.send(get_request("/"));
  ASSERT_TRUE(idle.read_reply());
  HttpClient running(server.port());
  running.send(get_request("/"));
  ASSERT_TRUE(running.read_until("data: 1\n"));

  server.stop();
  EXPECT_TRUE(idle.read_to_end(milliseconds(1000)));  // at once
  EXPECT_TRUE(eventually([&] { return desk.drains == 1; }));
  EXPECT_FALSE(HttpClient(server.port()).connected());
  EXPECT_FALSE(server.returned());
  const auto reply = running.read_reply();
  ASSERT_TRUE(reply);
  EXPECT_NE(reply->body.find("data: 19\n\n"), std::string::npos);
  EXPECT_TRUE(running.read_to_end());
  EXPECT_TRUE(eventually([&] { return server.returned(); }, milliseconds(1000)));
  EXPECT_EQ(desk.abandoned, 0);
}

TEST(Server, ASecondStopCutsWhatRuns) {
  StreamDesk desk(100'000, milliseconds(10));
  RunningServer server(desk);
  HttpClient running(server.port());
  running.send(get_request("/"));
  ASSERT_TRUE(running.read_until("data: 1\n"));
  server.stop();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(server.returned());
  EXPECT_EQ(desk.abandoned, 0);
  server.stop();
  EXPECT_TRUE(eventually([&] { return server.returned(); }, milliseconds(1000)));
  EXPECT_EQ(desk.abandoned, 1);
}

TEST(Server, ADrainThatTakesTooLongIsCut) {
  StreamDesk desk(100'000, milliseconds(10));
  ServiceOptions options;
  options.drain_timeout_ms = 100;
  RunningServer server(desk, {}, options);
  HttpClient running(server.port());
  running.send(get_request("/"));
  ASSERT_TRUE(running.read_until("data: 1\n"));
  server.stop();
  EXPECT_TRUE(eventually([&] { return server.returned(); }));
  EXPECT_EQ(desk.abandoned, 1);
}

TEST(Server, ARequestHalfReadWhenTheDrainBeginsIsAnsweredAndClosed) {
  FakeDesk desk;
  desk.answer = [&desk](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    FakeDesk::push_reply(*channel, desk.drains > 0 ? 503 : 200, "{}");
  };
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHo");
  std::this_thread::sleep_for(milliseconds(100));
  server.stop();
  ASSERT_TRUE(eventually([&] { return desk.drains == 1; }));
  client.send("st: x\r\n\r\n");
  const auto reply = client.read_reply();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 503);
  EXPECT_EQ(reply->headers.at("connection"), "close");
  client.close();
  EXPECT_TRUE(eventually([&] { return server.returned(); }, milliseconds(1000)));
}

TEST(Server, AStopBeforeTheRunIsAStop) {
  FakeDesk desk;
  const auto service = make_fake_service(desk);
  ServerOptions options;
  options.port = 0;
  const auto server = Server::listen(*service, options);
  ASSERT_TRUE(server);
  (*server)->stop();
  (*server)->run(false);
  EXPECT_EQ(desk.drains, 1);
}

TEST(Server, AnAddressCanBeTriedAndIsFreeAgain) {
  FakeDesk desk;
  const auto service = make_fake_service(desk);
  ServerOptions options;
  options.port = 0;
  ASSERT_TRUE(Server::check_address(options.host, 0));
  std::uint16_t port = 0;
  {
    const auto server = Server::listen(*service, options);
    ASSERT_TRUE(server);
    port = (*server)->port();
    const Status taken = Server::check_address(options.host, port);
    ASSERT_FALSE(taken);
    EXPECT_NE(taken.error().message.find(std::to_string(port)), std::string::npos);
  }
  EXPECT_TRUE(Server::check_address(options.host, port));
  options.port = port;
  EXPECT_TRUE(Server::listen(*service, options));
  EXPECT_FALSE(Server::check_address("no such host", 0));
}

TEST(Server, SignalsDrainThenCut) {
  StreamDesk desk(100'000, milliseconds(10));
  const auto service = make_fake_service(desk);
  ServerOptions options;
  options.port = 0;
  const auto server = Server::listen(*service, options);
  ASSERT_TRUE(server);
  std::jthread controller([&] {
    HttpClient running((*server)->port());
    running.send(get_request("/"));
    EXPECT_TRUE(running.read_until("data: 1\n"));
    ::kill(::getpid(), SIGTERM);
    EXPECT_TRUE(eventually([&] { return desk.drains == 1; }));
    EXPECT_TRUE(running.read_while_not([&] { return running.received().size() > 1000; },
                                       milliseconds(5000)));
    EXPECT_EQ(desk.abandoned, 0);
    ::kill(::getpid(), SIGINT);
    EXPECT_TRUE(eventually([&] { return desk.abandoned == 1; }));
  });
  (*server)->run(true);
}

TEST(Server, HangupsAreCountedWhileRepliesRunAndEndNothing) {
  StreamDesk desk(100'000, milliseconds(10));
  const auto service = make_fake_service(desk);
  std::atomic<int> hangups = 0;
  ServerOptions options;
  options.port = 0;
  options.on_hangup = [&] { ++hangups; };
  const auto server = Server::listen(*service, options);
  ASSERT_TRUE(server);
  std::jthread controller([&] {
    HttpClient running((*server)->port());
    running.send(get_request("/"));
    EXPECT_TRUE(running.read_until("data: 1\n"));
    for (int i = 1; i <= 3; ++i) {
      ::kill(::getpid(), SIGHUP);
      EXPECT_TRUE(eventually([&] { return hangups == i; }));
    }
    EXPECT_TRUE(running.read_while_not([&] { return running.received().size() > 1000; },
                                       milliseconds(5000)));
    EXPECT_EQ(desk.abandoned, 0);
    EXPECT_EQ(desk.drains, 0);
    ::kill(::getpid(), SIGTERM);
    EXPECT_TRUE(eventually([&] { return desk.drains == 1; }));
    ::kill(::getpid(), SIGHUP);  // also while it drains
    EXPECT_TRUE(eventually([&] { return hangups == 4; }));
    ::kill(::getpid(), SIGTERM);
  });
  (*server)->run(true);
  EXPECT_EQ(hangups, 4);
}

TEST(Server, AHangupWithoutAHookIsIgnored) {
  FakeDesk desk;
  const auto service = make_fake_service(desk);
  ServerOptions options;
  options.port = 0;
  const auto server = Server::listen(*service, options);
  ASSERT_TRUE(server);
  std::jthread controller([&] {
    HttpClient client((*server)->port());
    client.send(get_request("/"));
    EXPECT_TRUE(client.read_reply());  // it runs, so its signal handling does
    ::kill(::getpid(), SIGHUP);
    client.send(get_request("/"));
    EXPECT_TRUE(client.read_reply());
    ::kill(::getpid(), SIGTERM);
  });
  (*server)->run(true);
  EXPECT_EQ(desk.drains, 1);
}

// A process that is ending cleanly gives back much memory; whoever is impatient signals it again.
TEST(Server, SignalsAfterTheEndOfTheServerKillNobody) {
  FakeDesk desk;
  const auto service = make_fake_service(desk);
  ServerOptions options;
  options.port = 0;
  for (int round = 0; round < 2; ++round) {
    auto server = Server::listen(*service, options);
    ASSERT_TRUE(server);
    (*server)->stop();
    (*server)->run(true);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::kill(::getpid(), number);
    server->reset();
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::kill(::getpid(), number);
  }
}

TEST(Server, APortInUseIsNamed) {
  FakeDesk desk;
  RunningServer server(desk);
  const auto service = make_fake_service(desk);
  ServerOptions options;
  options.port = server.port();
  const auto second = Server::listen(*service, options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::io);
  EXPECT_NE(second.error().message.find("127.0.0.1 port " + std::to_string(server.port())),
            std::string::npos);
}

TEST(Server, AHostThatIsNotOursIsNamed) {
  FakeDesk desk;
  const auto service = make_fake_service(desk);
  ServerOptions options;
  options.host = "192.0.2.1";  // a documentation address
  const auto server = Server::listen(*service, options);
  ASSERT_FALSE(server);
  EXPECT_NE(server.error().message.find("192.0.2.1"), std::string::npos);
}

// Out of descriptors: accepting fails, and goes on when there are some again, or at once when an
// idle connection can give way.
class ServerWithoutDescriptors : public testing::TestWithParam<bool> {};

TEST_P(ServerWithoutDescriptors, GoesOn) {
  const bool has_idle = GetParam();
  StreamDesk desk(100'000, milliseconds(10));
  const auto stream = desk.answer;
  desk.answer = [stream](ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
    if (request.target == "/stream") return stream(std::move(request), std::move(channel));
    FakeDesk::push_reply(*channel, 200, "{}");
  };
  RunningServer server(desk);
  HttpClient warm(server.port());  // whatever is opened lazily is open now
  warm.send(get_request(has_idle ? "/" : "/stream"));
  ASSERT_TRUE(warm.read_until(has_idle ? "{}" : "data: 1\n"));

  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = ::dup(0);
  ASSERT_GE(lowest_free, 0);
  ::close(lowest_free);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(lowest_free) + 1;  // the client's socket is the last
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  HttpClient client(server.port());
  client.send(get_request("/"));
  const bool answered_at_once = client.read_until("200", milliseconds(300));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(client.connected());
  EXPECT_EQ(answered_at_once, has_idle);
  EXPECT_TRUE(client.read_reply());
  EXPECT_EQ(desk.abandoned, 0);
}

INSTANTIATE_TEST_SUITE_P(BusyAndIdle, ServerWithoutDescriptors, testing::Bool());

}  // namespace
}  // namespace reprise
