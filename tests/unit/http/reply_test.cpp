// Replies over real sockets: framing, order, silence, and readers that do not read.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "running_server.h"

namespace reprise {
namespace {

using test_support::eventually;
using test_support::FakeDesk;
using test_support::get_request;
using test_support::HttpClient;
using test_support::milliseconds;
using test_support::post_request;
using test_support::RunningServer;

const std::string kStreamHead =
    "HTTP/1.1 200 OK\r\nServer: reprise\r\nContent-Type: text/event-stream\r\n"
    "Transfer-Encoding: chunked\r\nCache-Control: no-cache\r\n\r\n";

void push_events(StreamChannel& channel, int count) {
  channel.push(FakeDesk::stream_head());
  for (int i = 0; i < count; ++i) channel.push(ReplyData{"data: " + std::to_string(i) + "\n\n"});
  channel.push(ReplyEnd{});
}

TEST(Reply, EventsPushedBeforeAnybodyWaitsHaveTheirExactBytes) {
  FakeDesk desk;
  desk.answer = [](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    push_events(*channel, 2);
  };
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send(get_request("/"));
  ASSERT_TRUE(client.read_until("\r\n0\r\n\r\n"));
  EXPECT_EQ(client.received(), kStreamHead +
                                   "9\r\ndata: 0\n\n\r\n"
                                   "9\r\ndata: 1\n\n\r\n"
                                   "0\r\n\r\n");
}

TEST(Reply, EventsPushedLaterHaveThemToo) {
  FakeDesk desk;
  desk.answer = [&desk](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    desk.produce([channel] {
      std::this_thread::sleep_for(milliseconds(50));
      channel->push(FakeDesk::stream_head());
      std::this_thread::sleep_for(milliseconds(50));
      channel->push(ReplyData{"data: a\n\n"});
      std::this_thread::sleep_for(milliseconds(50));
      channel->push(ReplyEnd{});
    });
  };
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send(get_request("/"));
  ASSERT_TRUE(client.read_until("\r\n0\r\n\r\n"));
  EXPECT_EQ(client.received(), kStreamHead + "9\r\ndata: a\n\n\r\n0\r\n\r\n");
}

TEST(Reply, EachEventIsSentAtOnce) {
  FakeDesk desk;
  std::atomic<int> allowed = 0;
  desk.answer = [&](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    desk.produce([channel, &allowed] {
      channel->push(FakeDesk::stream_head());
      for (int i = 0; i < 3; ++i) {
        eventually([&] { return allowed > i; });
        channel->push(ReplyData{"data: " + std::to_string(i) + "\n\n"});
      }
      eventually([&] { return allowed > 3; });
      channel->push(ReplyEnd{});
    });
  };
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send(get_request("/"));
  EXPECT_TRUE(client.read_until("\r\n\r\n"));  // the head does not wait for the first event
  for (int i = 0; i < 3; ++i) {
    allowed = i + 1;
    EXPECT_TRUE(client.read_until("data: " + std::to_string(i)));
  }
  allowed = 4;
  EXPECT_TRUE(client.read_until("\r\n0\r\n\r\n"));
}

TEST(Reply, ManyEventsKeepTheirOrderAndTheConnectionItsUse) {
  FakeDesk desk;
  desk.answer = [&desk](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    desk.produce([channel] { push_events(*channel, 20'000); });
  };
  RunningServer server(desk);
  std::string expected;
  for (int i = 0; i < 20'000; ++i) expected += "data: " + std::to_string(i) + "\n\n";
  HttpClient client(server.port());
  for (int turn = 0; turn < 3; ++turn) {
    client.send(post_request("/", "{}"));
    const auto reply = client.read_reply();
    ASSERT_TRUE(reply);
    EXPECT_TRUE(reply->body == expected);
  }
}

TEST(Reply, ARequestSentDuringAStreamIsAnsweredAfterIt) {
  FakeDesk desk;
  std::atomic<bool> second_sent = false;
  desk.answer = [&](ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
    if (request.target == "/second") return FakeDesk::push_reply(*channel, 200, request.body);
    desk.produce([channel, &second_sent] {
      channel->push(FakeDesk::stream_head());
      eventually([&] { return second_sent.load(); });
      std::this_thread::sleep_for(milliseconds(50));
      channel->push(ReplyData{"data: a\n\n"});
      channel->push(ReplyEnd{});
    });
  };
  RunningServer server(desk);
  for (const std::size_t size : {2, 300'000}) {  // the larger does not fit the bytes read ahead
    second_sent = false;
    HttpClient client(server.port());
    client.send(get_request("/first"));
    ASSERT_TRUE(client.read_until("\r\n\r\n"));
    const std::string body(size, 'b');
    const std::string second = post_request("/second", body);
    std::jthread sender([&] { client.send(second); });
    std::this_thread::sleep_for(milliseconds(100));
    second_sent = true;
    EXPECT_EQ(client.read_reply().value().body, "data: a\n\n");
    EXPECT_TRUE(client.read_reply().value().body == body);
  }
}

TEST(Reply, Http10StreamsUntilItCloses) {
  FakeDesk desk;
  desk.answer = [](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    push_events(*channel, 1);
  };
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  ASSERT_TRUE(client.read_to_end());
  EXPECT_EQ(client.received(),
            "HTTP/1.1 200 OK\r\nServer: reprise\r\nContent-Type: text/event-stream\r\n"
            "Cache-Control: no-cache\r\nConnection: close\r\n\r\ndata: 0\n\n");
}

TEST(Reply, ASilentStreamGetsCommentsAndASilentPlainReplyNone) {
  FakeDesk desk;
  desk.answer = [&desk](ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
    const bool streamed = request.target == "/stream";
    desk.produce([channel, streamed] {
      if (streamed) channel->push(FakeDesk::stream_head());
      std::this_thread::sleep_for(milliseconds(350));
      if (streamed) {
        channel->push(ReplyEnd{});
      } else {
        FakeDesk::push_reply(*channel, 200, "{}");
      }
    });
  };
  ServerOptions options;
  options.keep_alive_ms = 100;
  RunningServer server(desk, options);
  HttpClient client(server.port());
  client.send(get_request("/stream") + get_request("/plain"));
  const auto streamed = client.read_reply();
  ASSERT_TRUE(streamed);
  EXPECT_TRUE(streamed->framed_body.starts_with("e\r\n: keep-alive\n\n\r\n"));
  EXPECT_GE(streamed->body.size(), 2 * std::string(": keep-alive\n\n").size());
  EXPECT_EQ(client.read_reply().value().body, "{}");
}

TEST(Reply, HeadOfAStreamEndsWithItsHeader) {
  FakeDesk desk;
  std::atomic<bool> abandoned = false;
  desk.answer = [&](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    channel->on_abandon([&] { abandoned = true; });
    channel->push(FakeDesk::stream_head());
    channel->push(ReplyData{"data: a\n\n"});
  };
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(client.read_to_end());
  EXPECT_EQ(client.received(), kStreamHead);
  EXPECT_TRUE(eventually([&] { return abandoned.load(); }));
}

// Pushes 64 KiB events until abandoned; says how many bytes it got rid of.
class EndlessDesk : public FakeDesk {
 public:
  explicit EndlessDesk(milliseconds pause) {
    answer = [this, pause](ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
      if (request.target == "/short") return push_reply(*channel, 200, "{}");
      produce([this, pause, channel] {
        channel->push(stream_head());
        while (!channel->is_abandoned() && pushed_bytes < (std::size_t{256} << 20)) {
          channel->push(ReplyData{std::string(64 << 10, 'a')});
          pushed_bytes += 64 << 10;
          std::this_thread::sleep_for(pause);
        }
        given_up = channel->is_abandoned();
        finished = true;
      });
    };
  }
  std::atomic<std::size_t> pushed_bytes = 0;
  std::atomic<bool> given_up = false;
  std::atomic<bool> finished = false;
};

TEST(Reply, AReaderThatFetchesNothingIsCutOffAtTheLimitAndStallsNobody) {
  EndlessDesk desk(milliseconds(1));
  ServerOptions options;
  options.stream_bytes_max = 2 << 20;
  options.stream_grace_ms = 200;
  RunningServer server(desk, options);
  HttpClient lazy(server.port(), 4096);
  lazy.send(get_request("/endless"));
  HttpClient other(server.port());
  while (!desk.finished) {
    const auto begin = std::chrono::steady_clock::now();
    other.send(get_request("/short"));
    ASSERT_TRUE(other.read_reply());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(1000));
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(desk.given_up);
  // The limit, what the kernel's socket buffers hold, and what is made in the grace.
  EXPECT_LT(desk.pushed_bytes, std::size_t{32} << 20);
  EXPECT_GE(desk.pushed_bytes, std::size_t{2} << 20);
  EXPECT_TRUE(lazy.read_to_end());
}

// The end of a response with its log probabilities, an echo of a long prompt.
TEST(Reply, AReaderGetsAnEventBeyondTheLimitWhole) {
  FakeDesk desk;
  const std::string large = "data: " + std::string(std::size_t{30} << 20, 'a') + "\n\n";
  desk.answer = [&](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    desk.produce([channel, &large] {
      channel->push(FakeDesk::stream_head());
      channel->push(ReplyData{large});
      for (int i = 0; i < 100 && !channel->is_abandoned(); ++i) {
        channel->push(ReplyData{"data: b\n\n"});
        std::this_thread::sleep_for(milliseconds(2));
      }
      channel->push(ReplyEnd{});
    });
  };
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send(get_request("/"));
  const auto reply = client.read_reply(false, milliseconds(20'000));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body.size(), large.size() + 900);
  EXPECT_TRUE(reply->body.ends_with("data: b\n\n"));
}

// Far beyond the limit for many graces, but it fetches more than is made.
TEST(Reply, ASlowSteadyReaderGetsAnEventBeyondTheLimitWhole) {
  FakeDesk desk;
  const std::string large(std::size_t{12} << 20, 'a');
  std::atomic<int> pushed = 0;
  desk.answer = [&](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    desk.produce([channel, &large, &pushed] {
      channel->push(FakeDesk::stream_head());
      channel->push(ReplyData{large});
      for (; pushed < 200 && !channel->is_abandoned(); ++pushed) {
        channel->push(ReplyData{"data: b\n\n"});
        std::this_thread::sleep_for(milliseconds(10));
      }
      channel->push(ReplyEnd{});
    });
  };
  ServerOptions options;
  options.stream_bytes_max = 1 << 20;
  options.stream_grace_ms = 400;
  RunningServer server(desk, options);
  HttpClient client(server.port(), 64 << 10);
  client.send(get_request("/"));
  for (std::size_t i = 1; pushed < 200 && !client.ended(); ++i) {
    client.read_while_not([&] { return client.received().size() > i * (std::size_t{128} << 10); },
                          milliseconds(20));
    std::this_thread::sleep_for(milliseconds(20));
  }
  const auto reply = client.read_reply(false, milliseconds(20'000));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body.size(), large.size() + 200 * 9);
}

TEST(Reply, AReaderThatFetchesNothingForTheWriteTimeoutIsCutOff) {
  EndlessDesk desk(milliseconds(20));
  ServerOptions options;
  options.write_timeout_ms = 300;
  options.stream_bytes_max = std::size_t{1} << 30;
  RunningServer server(desk, options);
  HttpClient lazy(server.port(), 4096);
  lazy.send(get_request("/endless"));
  EXPECT_TRUE(eventually([&] { return desk.given_up.load(); }, milliseconds(20'000)));
}

TEST(Reply, AReaderSlowerThanTheProducerGetsEverything) {
  FakeDesk desk;
  const std::string piece(50'000, 'a');
  desk.answer = [&](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    desk.produce([channel, &piece] {
      channel->push(FakeDesk::stream_head());
      for (int i = 0; i < 100; ++i) channel->push(ReplyData{piece});
      channel->push(ReplyEnd{});
    });
  };
  ServerOptions options;
  options.write_timeout_ms = 300;
  RunningServer server(desk, options);
  HttpClient client(server.port(), 4096);
  client.send(get_request("/"));
  // Takes about a second in all: the timeout is for a piece, not for the reply.
  for (int i = 0; i < 20; ++i) {
    client.read_while_not([&] { return client.received().size() > std::size_t(i) * 50'000; },
                          milliseconds(1000));
    std::this_thread::sleep_for(milliseconds(50));
  }
  const auto reply = client.read_reply(false, milliseconds(20'000));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body.size(), 100 * piece.size());
}

}  // namespace
}  // namespace reprise
