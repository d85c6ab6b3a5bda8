// What requests of others do to a request's turn: debts of tenants that left, preemptions, replies
// that run for long.
#include <atomic>
#include <thread>

#include "engine_harness.h"

namespace reprise::testing {
namespace {

class EngineShares : public TinyFamilies {
 protected:
  std::size_t column_bytes() const {
    std::size_t bytes = 0;
    for (const SpanGroup& group : model().config().kv_layout(kernels::KvType::f16).groups) {
      bytes += group.page_bytes();
    }
    return bytes;
  }
};

// Sending one request after another is no way round one's share: what a tenant was served stands
// against it when it comes back.
TEST_P(EngineShares, ATenantThatLeftAndComesBackIsNoFresherThanBefore) {
  HarnessOptions options;
  options.engine.sequences_max = 1;
  Harness harness(model(), options);
  std::vector<std::string> order;  // engine thread until all ended
  std::atomic<bool> first_may_end = false, second_may_end = false;
  const auto request = [&](const std::string& name, int prompt, std::atomic<bool>* may_end) {
    Ask ask{.prompt = random_tokens(prompt, static_cast<std::uint32_t>(name[1])),
            .max_tokens = 2,
            .tenant = name.substr(0, 1)};
    ask.on_token = [&order, name, may_end](std::size_t tokens) {
      while (may_end != nullptr && !*may_end) std::this_thread::yield();
      if (tokens == 1) order.push_back(name);
      return SequenceSink::Verdict::go_on;
    };
    return ask;
  };
  std::vector<Recording*> replies;
  replies.push_back(&harness.start(request("b0", 20, &first_may_end)));
  replies[0]->wait_for_tokens(1);
  Recording& large = harness.start(request("a1", 300, nullptr));
  replies.push_back(&harness.start(request("b2", 30, &second_may_end)));
  replies.push_back(&harness.start(request("b3", 30, nullptr)));
  replies.push_back(&harness.start(request("b4", 30, nullptr)));
  first_may_end = true;
  large.wait_for_end();
  replies.push_back(&harness.start(request("a5", 30, nullptr)));
  second_may_end = true;
  for (Recording* reply : replies) reply->wait_for_end();
  EXPECT_EQ(order, (std::vector<std::string>{"b0", "a1", "b2", "b3", "b4", "a5"}));
}

// A tenant's own requests are too many for the memory, and one of them had to give way: whoever
// else fits need not wait until the other one has ended.
TEST_P(EngineShares, APreemptionHoldsUpOnlyWhoWasPreempted) {
  HarnessOptions options;
  options.engine.kv_budget_bytes = 8 * column_bytes();
  Harness harness(model(), options);
  Recording other;
  std::size_t long_tokens = 0, other_began_at = 0;  // engine thread until all ended
  const Ask small{.prompt = random_tokens(10, 9),
                  .max_tokens = 2,
                  .tenant = "b",
                  .on_token = [&](std::size_t tokens) {
                    if (tokens == 1) other_began_at = long_tokens;
                    return SequenceSink::Verdict::go_on;
                  }};
  const std::size_t was_preempted_by = 200;
  Ask long_one{.prompt = random_tokens(100, 1), .max_tokens = 300, .tenant = "a"};
  long_one.on_token = [&](std::size_t tokens) {
    long_tokens = tokens;
    const bool is_time = tokens == was_preempted_by;
    EXPECT_TRUE(!is_time || harness.submit(small, other).has_value());
    return SequenceSink::Verdict::go_on;
  };
  Ask younger{.prompt = random_tokens(100, 2), .max_tokens = 300, .tenant = "a"};
  Recording& long_reply = harness.start(long_one);
  Recording& younger_reply = harness.start(younger);
  long_reply.wait_for_end();
  younger_reply.wait_for_end();
  other.wait_for_end();
  EXPECT_GE(harness.engine().stats().preemptions, 1u);
  EXPECT_GE(other_began_at, was_preempted_by);
  EXPECT_LT(other_began_at, 300u) << "it waited for the end of a reply of another tenant";
  EXPECT_EQ(long_reply.bytes(), cold(long_one));
  EXPECT_EQ(younger_reply.bytes(), cold(younger));
  EXPECT_EQ(other.bytes(), cold(small));
}

// Only waiting raises a rank: a low one that has run for long is still a low one.
TEST_P(EngineShares, AReplyThatRunsForLongRanksNoHigher) {
  HarnessOptions options;
  options.engine.sequences_max = 1;
  options.engine.ageing_ms = 100;
  Harness harness(model(), options);
  Ask low{.prompt = random_tokens(40, 1), .max_tokens = 400, .priority = Priority::low};
  low.on_token = [](std::size_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return SequenceSink::Verdict::go_on;
  };
  Recording& low_reply = harness.start(low);
  low_reply.wait_for_tokens(150);  // three times the time that makes a waiting one high
  Recording& high_reply =
      harness.start({.prompt = random_tokens(40, 2), .max_tokens = 3, .priority = Priority::high});
  high_reply.wait_for_end();
  EXPECT_EQ(low_reply.ends(), 0);
  low_reply.wait_for_end();
  EXPECT_EQ(low_reply.bytes(), cold(low));
  EXPECT_EQ(harness.engine().stats().preemptions, 1u);
}

// Whoever fills the queue keeps nobody else out: each tenant may have one request in any case.
TEST_P(EngineShares, AQueueThatOneTenantFillsTakesOneOfEachOther) {
  HarnessOptions options;
  options.engine.sequences_max = 1;
  options.engine.queue_max = 2;
  Harness harness(model(), options);
  std::atomic<bool> released = false;
  std::vector<Recording*> accepted;
  const auto ask = [&](const char* tenant) {
    Ask one{.prompt = random_tokens(30, 1), .max_tokens = 2, .tenant = tenant};
    one.on_token = [&](std::size_t) {
      while (!released) std::this_thread::yield();
      return SequenceSink::Verdict::go_on;
    };
    return one;
  };
  Recording refused;
  for (int i = 0; i < 3; i++) accepted.push_back(&harness.start(ask("a")));
  EXPECT_FALSE(harness.submit(ask("a"), refused).has_value());
  for (const char* tenant : {"b", "c"}) {
    accepted.push_back(&harness.start(ask(tenant)));
    EXPECT_FALSE(harness.submit(ask(tenant), refused).has_value());
  }
  EXPECT_EQ(harness.engine().stats().ends_length, 0u);
  released = true;
  for (Recording* reply : accepted) reply->wait_for_end();
  harness.engine().drain(60'000);
  EXPECT_EQ(harness.engine().stats().ends_length, 5u);
  EXPECT_EQ(harness.engine().stats().refused_full, 3u);
  EXPECT_EQ(refused.ends(), 0);
}

// An idle server says so too.
TEST_P(EngineShares, APinThatEndedIsNotShownAnyMore) {
  HarnessOptions options;
  options.engine.cache.pinned_bytes_per_tenant = std::size_t{1} << 20;
  options.engine.cache.pinned_bytes_max = std::size_t{1} << 20;
  Harness harness(model(), options);
  EXPECT_TRUE(harness.run({.prompt = random_tokens(70, 1), .pin_ms = 200}).end().usage.is_pinned);
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  EXPECT_EQ(harness.engine().cache_stats({}).pinned_bytes, 0u);
  for (const CacheRun& run : harness.engine().cache_tree({}, 10)) {
    EXPECT_EQ(run.pinned_until_unix_ms, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EngineShares, ::testing::Values("gemma3", "llama"), family_name);

}  // namespace
}  // namespace reprise::testing
