// The reply channel between threads: order, wake-ups, both ways to end.
#include "api/stream_channel.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace reprise {
namespace {

std::string bytes_of(const std::optional<ReplyEvent>& event) {
  const ReplyData* data = event ? std::get_if<ReplyData>(&*event) : nullptr;
  return data ? data->bytes : "(no data)";
}

TEST(StreamChannel, KeepsOrderAndCountsBytes) {
  StreamChannel channel;
  ReplyHead head;
  head.status = 201;
  channel.push(std::move(head));
  channel.push(ReplyData{"abc"});
  channel.push(ReplyData{"de"});
  channel.push(ReplyEnd{});
  EXPECT_EQ(channel.waiting_bytes(), 5u);
  EXPECT_EQ(std::get<ReplyHead>(*channel.pop()).status, 201);
  EXPECT_EQ(bytes_of(channel.pop()), "abc");
  EXPECT_EQ(channel.waiting_bytes(), 2u);
  EXPECT_EQ(bytes_of(channel.pop()), "de");
  EXPECT_EQ(channel.waiting_bytes(), 0u);
  EXPECT_TRUE(std::holds_alternative<ReplyEnd>(*channel.pop()));
  EXPECT_FALSE(channel.pop());
}

TEST(StreamChannel, WakesWhenAnEventArrivesInAnEmptyChannel) {
  StreamChannel channel;
  int wakes = 0;
  channel.set_wake([&] { wakes++; });
  channel.push(ReplyData{"a"});
  channel.push(ReplyData{"b"});
  EXPECT_EQ(wakes, 1);
  while (channel.pop()) {
  }
  channel.push(ReplyData{"c"});
  EXPECT_EQ(wakes, 2);
}

TEST(StreamChannel, WakesAtOnceForEventsThatCameBefore) {
  StreamChannel channel;
  channel.push(ReplyData{"a"});
  int wakes = 0;
  channel.set_wake([&] { wakes++; });
  EXPECT_EQ(wakes, 1);
}

TEST(StreamChannel, AbandonDropsAndNotifiesOnce) {
  StreamChannel channel;
  int notified = 0, wakes = 0;
  channel.set_wake([&] { wakes++; });
  channel.on_abandon([&] { notified++; });
  channel.push(ReplyData{"a"});
  EXPECT_FALSE(channel.is_abandoned());
  channel.abandon();
  channel.abandon();
  EXPECT_TRUE(channel.is_abandoned());
  EXPECT_EQ(notified, 1);
  EXPECT_EQ(channel.waiting_bytes(), 0u);
  channel.push(ReplyData{"b"});
  EXPECT_FALSE(channel.pop());
  EXPECT_EQ(wakes, 1);
}

TEST(StreamChannel, OnAbandonAfterwardsIsCalledAtOnce) {
  StreamChannel channel;
  channel.abandon();
  int notified = 0;
  channel.on_abandon([&] { notified++; });
  EXPECT_EQ(notified, 1);
}

TEST(StreamChannel, AfterTheEndNobodyIsNotified) {
  StreamChannel before, after;
  int notified = 0;
  before.on_abandon([&] { notified++; });
  before.push(ReplyEnd{});
  before.abandon();
  after.push(ReplyEnd{});
  after.on_abandon([&] { notified++; });
  after.abandon();
  after.on_abandon([&] { notified++; });
  EXPECT_EQ(notified, 0);
}

// A consumer that sleeps until it is woken must get everything, in order, however the threads run.
TEST(StreamChannel, NoEventIsLostBetweenThreads) {
  constexpr int kEvents = 50'000;
  StreamChannel channel;
  std::mutex mutex;
  std::condition_variable woken;
  bool is_awake = false;
  channel.set_wake([&] {
    const std::lock_guard lock(mutex);
    is_awake = true;
    woken.notify_one();
  });
  std::thread producer([&] {
    for (int i = 0; i < kEvents; i++) channel.push(ReplyData{std::to_string(i)});
    channel.push(ReplyEnd{});
  });
  int next = 0;
  bool ended = false;
  while (!ended) {
    {
      std::unique_lock lock(mutex);
      ASSERT_TRUE(woken.wait_for(lock, std::chrono::seconds(20), [&] { return is_awake; }));
      is_awake = false;
    }
    while (const std::optional<ReplyEvent> event = channel.pop()) {
      if (std::holds_alternative<ReplyEnd>(*event)) {
        ended = true;
      } else {
        ASSERT_EQ(bytes_of(event), std::to_string(next));
        next++;
      }
    }
  }
  producer.join();
  EXPECT_EQ(next, kEvents);
  EXPECT_EQ(channel.waiting_bytes(), 0u);
}

// Whoever comes first, on_abandon's function runs exactly once.
TEST(StreamChannel, AbandonRacesOnAbandon) {
  for (int round = 0; round < 500; round++) {
    const auto channel = std::make_shared<StreamChannel>();
    std::atomic<int> notified{0};
    std::thread consumer([channel] { channel->abandon(); });
    std::thread producer([channel, &notified] {
      channel->push(ReplyHead{});
      channel->on_abandon([&notified] { notified++; });
      channel->push(ReplyData{"x"});
    });
    consumer.join();
    producer.join();
    ASSERT_EQ(notified, 1);
    ASSERT_FALSE(channel->pop());
  }
}

}  // namespace
}  // namespace reprise
