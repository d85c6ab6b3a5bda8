// Clients that leave: the reply is abandoned within 250 ms, whatever the server was doing for them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

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

enum class Work { stream, silent_stream, silent };
enum class Way { close, reset, half_close };

// Works for a request until it is abandoned.
class BusyDesk : public FakeDesk {
 public:
  explicit BusyDesk(Work work) {
    answer = [this, work](ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
      if (request.target == "/short") return push_reply(*channel, 200, "{}");
      channel->on_abandon([this] { ++abandoned; });
      ++begun;
      if (work == Work::silent) return hold(std::move(channel));
      channel->push(stream_head());
      if (work == Work::silent_stream) return hold(std::move(channel));
      produce([channel] {
        while (!channel->is_abandoned()) {
          channel->push(ReplyData{"data: token\n\n"});
          std::this_thread::sleep_for(milliseconds(10));
        }
      });
    };
  }
  std::atomic<int> begun = 0;
  std::atomic<int> abandoned = 0;

 private:
  // A long prefill: nothing is said.
  void hold(std::shared_ptr<StreamChannel> channel) { held_.push_back(std::move(channel)); }
  std::vector<std::shared_ptr<StreamChannel>> held_;
};

void leave(HttpClient& client, Way way) {
  if (way == Way::close) client.close();
  if (way == Way::reset) client.reset();
  if (way == Way::half_close) client.finish_sending();
}

class ClientLeaves : public testing::TestWithParam<std::tuple<Work, Way, bool>> {};

TEST_P(ClientLeaves, AndItsReplyIsAbandonedSoon) {
  const auto [work, way, with_early_bytes] = GetParam();
  BusyDesk desk(work);
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send(post_request("/", "{}"));
  if (work == Work::stream) {
    EXPECT_TRUE(client.read_until("token"));
  }
  ASSERT_TRUE(eventually([&] { return desk.begun == 1; }));
  // More than is read ahead, so that the end of the connection hides behind it.
  if (with_early_bytes) client.send(post_request("/early", std::string(60'000, 'a')));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(desk.abandoned, 0);

  const auto begin = std::chrono::steady_clock::now();
  leave(client, way);
  EXPECT_TRUE(eventually([&] { return desk.abandoned == 1; }, milliseconds(2000)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(250));

  HttpClient next(server.port());
  next.send(get_request("/short"));
  EXPECT_EQ(next.read_reply().value().status, 200);
}

INSTANTIATE_TEST_SUITE_P(
    AllWays, ClientLeaves,
    testing::Combine(testing::Values(Work::stream, Work::silent_stream, Work::silent),
                     testing::Values(Way::close, Way::reset, Way::half_close), testing::Bool()));

// The server looks after deadlines every 50 ms; a leaving client is noticed by its own event.
TEST(ClientLeavesSilence, IsNoticedWithoutWaitingForTheNextLook) {
  BusyDesk desk(Work::silent);
  RunningServer server(desk);
  std::vector<std::chrono::steady_clock::duration> delays;
  for (int i = 1; i <= 15; ++i) {
    HttpClient client(server.port());
    client.send(post_request("/", "{}"));
    ASSERT_TRUE(eventually([&] { return desk.begun == i; }));
    std::this_thread::sleep_for(milliseconds(7 * i));  // spread over the time between two looks
    const auto begin = std::chrono::steady_clock::now();
    client.close();
    ASSERT_TRUE(eventually([&] { return desk.abandoned == i; }));
    delays.push_back(std::chrono::steady_clock::now() - begin);
  }
  std::ranges::sort(delays);
  EXPECT_LT(delays[delays.size() / 2], milliseconds(10));
}

TEST(ClientStays, UntilTheReplyIsWholeAndNothingIsAbandoned) {
  FakeDesk desk;
  std::atomic<int> abandoned = 0;
  desk.answer = [&](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
    channel->on_abandon([&] { ++abandoned; });
    FakeDesk::push_reply(*channel, 200, "{}");
  };
  RunningServer server(desk);
  for (int i = 0; i < 20; ++i) {
    HttpClient client(server.port());
    client.send(get_request("/"));
    EXPECT_TRUE(client.read_reply());
  }
  EXPECT_EQ(abandoned, 0);
}

TEST(ClientLeavesHalf, AReplyThatIsReadyAtOnceStillReachesIt) {
  FakeDesk desk;
  RunningServer server(desk);
  HttpClient client(server.port());
  client.send(get_request("/"));
  client.finish_sending();
  EXPECT_EQ(client.read_reply().value().body, "{}");
  EXPECT_TRUE(client.read_to_end());
}

TEST(ClientLeavesEarly, NoRequestIsMadeOfHalfABody) {
  BusyDesk desk(Work::silent);
  RunningServer server(desk);
  for (const Way way : {Way::close, Way::reset, Way::half_close}) {
    HttpClient client(server.port());
    client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf");
    std::this_thread::sleep_for(milliseconds(20));
    leave(client, way);
  }
  HttpClient next(server.port());
  next.send(get_request("/short"));
  EXPECT_TRUE(next.read_reply());
  EXPECT_EQ(desk.begun, 0);
}

TEST(ClientLeavesOften, EachReplyIsAbandonedOnce) {
  BusyDesk desk(Work::silent);
  RunningServer server(desk);
  for (int i = 0; i < 300; ++i) {
    HttpClient client(server.port());
    const int begun_before = desk.begun;
    client.send(post_request("/", "{}"));
    if (i % 3 == 0) {  // the others leave before, while or after their request is read
      ASSERT_TRUE(eventually([&] { return desk.begun > begun_before; }));
    }
    if (i % 2 == 0) client.reset();
  }
  EXPECT_TRUE(eventually([&] { return desk.abandoned == desk.begun; }));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(desk.abandoned, desk.begun);
}

TEST(ClientLeavesRace, AProducerThatPushesAfterwardsHarmsNobody) {
  FakeDesk desk;
  std::atomic<int> finished = 0;
  {
    desk.answer = [&](ServiceRequest, std::shared_ptr<StreamChannel> channel) {
      desk.produce([channel, &finished] {
        channel->push(FakeDesk::stream_head());
        for (int i = 0; i < 300; ++i) {  // does not look whether it was abandoned
          channel->push(ReplyData{"data: a\n\n"});
          std::this_thread::sleep_for(milliseconds(1));
        }
        channel->push(ReplyEnd{});
        ++finished;
      });
    };
    RunningServer server(desk);
    for (int i = 0; i < 10; ++i) {
      HttpClient client(server.port());
      client.send(get_request("/"));
      client.read_until("data");
    }
  }  // the server is destroyed while they push
  EXPECT_TRUE(eventually([&] { return finished == 10; }));
}

}  // namespace
}  // namespace reprise
