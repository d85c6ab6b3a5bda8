// Under a budget that is too small for all: eviction, preemption, resumption; the same bytes, no
// token twice, and always somebody who proceeds.
#include <atomic>
#include <random>
#include <thread>

#include "engine_harness.h"

namespace reprise::testing {
namespace {

class EngineRoom : public TinyFamilies {
 protected:
  // Bytes of one page of every span group: 64 tokens.
  std::size_t column_bytes() const {
    std::size_t bytes = 0;
    for (const SpanGroup& group : model().config().kv_layout(kernels::KvType::f16).groups) {
      bytes += group.page_bytes();
    }
    return bytes;
  }
  HarnessOptions columns(std::size_t count) const {
    HarnessOptions options;
    options.engine.kv_budget_bytes = count * column_bytes();
    return options;
  }
};

TEST_P(EngineRoom, PreemptedSequencesContinueWithTheSameBytes) {
  for (const bool with_cache : {true, false}) {
    HarnessOptions options = columns(6);
    options.engine.cache.enabled = with_cache;
    Harness harness(model(), options);
    std::vector<Ask> asks;
    for (std::uint32_t i = 0; i < 5; i++) {
      // Each grows from two columns to four; all together would need twenty.
      asks.push_back({.prompt = random_tokens(100, i), .max_tokens = 150, .sampling = {.seed = i}});
    }
    std::vector<Recording*> replies;
    for (const Ask& ask : asks) replies.push_back(&harness.start(ask));
    for (std::size_t i = 0; i < asks.size(); i++) {
      replies[i]->wait_for_end();
      EXPECT_EQ(replies[i]->ends(), 1);
      EXPECT_EQ(replies[i]->end().reason, FinishReason::length);
      EXPECT_EQ(replies[i]->tokens().size(), 150u);
      EXPECT_EQ(replies[i]->bytes(), cold(asks[i])) << i;
      EXPECT_EQ(replies[i]->end().usage.completion_tokens, 150);
      EXPECT_EQ(replies[i]->end().usage.cached_tokens, 0);  // its own blocks are no savings
    }
    const EngineStats stats = harness.engine().stats();
    EXPECT_GT(stats.preemptions, 0u);
    EXPECT_LE(stats.kv_used_bytes, stats.kv_budget_bytes);
    EXPECT_EQ(stats.kv_used_bytes, stats.cache.bytes);
  }
}

TEST_P(EngineRoom, EvictionMakesRoomBeforeAnybodyWaits) {
  Harness harness(model(), columns(5));
  for (std::uint32_t i = 0; i < 12; i++) {
    const Ask ask{.prompt = random_tokens(130, i), .max_tokens = 10};
    EXPECT_EQ(harness.run(ask).bytes(), cold(ask)) << i;
  }
  const EngineStats stats = harness.engine().stats();
  EXPECT_EQ(stats.preemptions, 0u);
  EXPECT_GT(stats.cache.evictions_lru + stats.cache.window_pages_dropped, 0u);
  // The newest is still there, the oldest is gone and known to be.
  EXPECT_EQ(harness.run({.prompt = random_tokens(130, 11)}).end().usage.cached_tokens, 129);
  const Recording& oldest = harness.run({.prompt = random_tokens(130, 0)});
  EXPECT_EQ(oldest.end().usage.cached_tokens, 0);
  EXPECT_EQ(oldest.end().usage.miss, MissReason::evicted);
}

TEST_P(EngineRoom, AChunkIsCutToTheRoomThatIsLeft) {
  Harness harness(model(), columns(5));
  const Ask ask{.prompt = random_tokens(240, 3), .max_tokens = 10};
  EXPECT_EQ(harness.run(ask).bytes(), cold(ask));
  EXPECT_EQ(harness.run(ask).end().reason, FinishReason::length);
}

// What can never fit is refused with its numbers; what just fits runs to its end beside others.
TEST_P(EngineRoom, TheLongestThatFitsRunsAndOneTokenMoreIsRefused) {
  HarnessOptions options = columns(3);
  Harness harness(model(), options);
  const Position fits = harness.engine().fitting_length();
  ASSERT_LT(fits, options.engine.context_length);
  Ask large{.prompt = random_tokens(100, 1), .max_tokens = fits - 100 + 2};
  Recording unheard;
  const Result<RequestId> refused = harness.submit(large, unheard);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::exhausted);
  EXPECT_EQ(refused.error().field, "max_tokens");
  for (const std::size_t number : {options.engine.kv_budget_bytes, static_cast<std::size_t>(fits),
                                   static_cast<std::size_t>(large.max_tokens)}) {
    EXPECT_NE(refused.error().message.find(std::to_string(number)), std::string::npos)
        << refused.error().message;
  }
  EXPECT_EQ(unheard.ends(), 0);
  large.max_tokens--;
  const Ask small{.prompt = random_tokens(60, 2), .max_tokens = 30};
  Recording& large_reply = harness.start(large);
  Recording& small_reply = harness.start(small);
  large_reply.wait_for_end();
  small_reply.wait_for_end();
  EXPECT_EQ(large_reply.end().reason, FinishReason::length);
  EXPECT_EQ(large_reply.bytes(), cold(large));
  EXPECT_EQ(small_reply.end().reason, FinishReason::length);
  EXPECT_EQ(small_reply.bytes(), cold(small));
  EXPECT_EQ(harness.engine().stats().kv_used_bytes, harness.engine().stats().cache.bytes);
}

// Resuming inside another entry's block needs room for copies that a cold run does not need. Where
// there is none the request runs cold: the cache never makes one fail.
TEST_P(EngineRoom, WhatFitsColdFitsWithTheCache) {
  const std::size_t least = model().config().kv_layout(kernels::KvType::f16).sequence_bytes(80);
  HarnessOptions options;
  options.engine.kv_budget_bytes = least + column_bytes();
  Harness harness(model(), options);
  harness.run({.prompt = random_tokens(80, 1), .max_tokens = 1});
  std::vector<TokenId> prompt = random_tokens(80, 1);
  prompt.resize(68);
  const Ask ask{.prompt = joined(prompt, random_tokens(12, 2)), .max_tokens = 1};
  const Recording& reply = harness.run(ask);
  EXPECT_EQ(reply.end().reason, FinishReason::length)
      << (reply.end().error ? reply.end().error->message : "");
  EXPECT_EQ(reply.bytes(), cold(ask));
  // What was found had to be given up: without a saving there is always a reason.
  const Usage& usage = reply.end().usage;
  EXPECT_NE(usage.cached_tokens > 0, usage.miss.has_value());
}

// A reset between a request's restore and its first row: it was spared what it restored, and the
// counters say so.
TEST_P(EngineRoom, ALookupThatRestoredCountsAsAHit) {
  HarnessOptions options;
  options.engine.prefill_rows_max = 10;
  Harness harness(model(), options);
  harness.run({.prompt = random_tokens(100, 1), .max_tokens = 1});
  std::atomic<bool> second_accepted = false, reset_asked = false;
  std::atomic<Position> prefilled = 0;
  Ask first{.prompt = random_tokens(500, 2), .max_tokens = 1};
  first.on_prefill = [&](Position done) {
    while (done == 10 && !second_accepted) std::this_thread::yield();
    while (done == 50 && !reset_asked) std::this_thread::yield();
    prefilled = done;
  };
  Recording& long_one = harness.start(first);
  Recording& waiting =
      harness.start({.prompt = joined(random_tokens(100, 1), random_tokens(20, 3))});
  second_accepted = true;
  while (prefilled < 30) std::this_thread::yield();  // the second was looked up, and waits
  reset_asked = true;
  harness.engine().reset_cache({});
  waiting.wait_for_end();
  long_one.wait_for_end();
  EXPECT_EQ(waiting.end().usage.cached_tokens, 100);
  const PromptCacheStats stats = harness.engine().cache_stats({});
  EXPECT_EQ(stats.lookups, 3u);
  EXPECT_EQ(stats.hits, 1u);
}

// Edits, replays and branches of a few conversations under budgets that barely hold one request:
// each answer is the one that an engine of the same size without a cache gives, alone.
TEST_P(EngineRoom, UnderTheTightestBudgetsAnswersAreThoseWithoutACache) {
  const KvLayout layout = model().config().kv_layout(kernels::KvType::f16);
  for (std::uint32_t round = 0; round < 8; round++) {
    std::mt19937 random(round);
    HarnessOptions options;
    const Position longest = 70 + 20 * static_cast<Position>(round);
    options.engine.kv_budget_bytes = layout.sequence_bytes(longest) + column_bytes();
    options.engine.prefill_rows_max = round % 2 == 0 ? 512 : 23;
    Harness harness(model(), options);
    for (int turn = 0; turn < 8; turn++) {
      std::vector<std::pair<Ask, Recording*>> replies;
      for (int i = 0; i < 1 + turn % 3; i++) {
        std::vector<TokenId> prompt = random_tokens(static_cast<int>(longest), random() % 2);
        prompt.resize(1 + random() % prompt.size());
        const auto room = static_cast<int>(longest) - static_cast<int>(prompt.size());
        prompt = joined(prompt, random_tokens(static_cast<int>(random() % 40) % (room + 1),
                                              100 + random() % 3));
        const Ask ask{.prompt = prompt, .max_tokens = 1 + static_cast<Position>(random() % 3)};
        const Position last = static_cast<Position>(prompt.size()) + ask.max_tokens - 1;
        if (last > harness.engine().fitting_length()) continue;  // refused
        replies.emplace_back(ask, &harness.start(ask));
      }
      for (const auto& [ask, reply] : replies) {
        reply->wait_for_end();
        Harness uncached(model(), options.without_cache());
        const Recording& expected = uncached.run(ask);
        EXPECT_EQ(reply->end().reason, expected.end().reason) << round << " " << turn;
        EXPECT_EQ(reply->bytes(), expected.bytes()) << round << " " << turn;
      }
    }
  }
}

TEST_P(EngineRoom, WithASmallBudgetWarmTurnsStillEqualColdOnes) {
  for (const CacheStore store : {CacheStore::reference, CacheStore::materialised}) {
    HarnessOptions options = columns(6);
    options.engine.cache.store = store;
    Harness harness(model(), options);
    std::vector<TokenId> histories[3] = {random_tokens(70, 1), random_tokens(70, 2),
                                         random_tokens(70, 3)};
    for (int turn = 0; turn < 5; turn++) {
      std::vector<std::pair<Ask, Recording*>> replies;
      for (const std::vector<TokenId>& history : histories) {
        const Ask ask{.prompt = history, .max_tokens = 15};
        replies.emplace_back(ask, &harness.start(ask));
      }
      for (std::size_t i = 0; i < 3; i++) {
        replies[i].second->wait_for_end();
        EXPECT_EQ(replies[i].second->bytes(), cold(replies[i].first)) << turn << " " << i;
        histories[i] = joined(joined(histories[i], replies[i].second->ids()),
                              random_tokens(20, static_cast<std::uint32_t>(turn)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EngineRoom, ::testing::Values("gemma3", "llama"), family_name);

}  // namespace
}  // namespace reprise::testing
