// An answer is a function of weights, prompt and seed: ids and all logprobs as bytes, whatever was
// cached, how prefill was cut, what else ran, how many threads and which instructions computed it.
#include <algorithm>
#include <atomic>
#include <thread>

#include "engine_harness.h"

namespace reprise::testing {
namespace {

class EngineEquality : public TinyFamilies {};

Ask ask(int length, std::uint32_t seed) {
  return {.prompt = random_tokens(length, seed), .sampling = {.seed = seed}};
}

TEST_P(EngineEquality, CachedEqualsColdAtEveryPagePhase) {
  Harness cold_engine(model(), HarnessOptions{}.without_cache());
  Harness warm_engine(model());
  for (int length = 60; length <= 200; length += length % 64 > 56 || length % 64 < 4 ? 1 : 9) {
    const Ask request = ask(length, static_cast<std::uint32_t>(length));
    const Recording& expected = cold_engine.run(request);
    const Recording& first = warm_engine.run(request);
    const Recording& second = warm_engine.run(request);
    ASSERT_EQ(expected.tokens().size(), 12u);
    EXPECT_EQ(first.bytes(), expected.bytes()) << length;
    EXPECT_EQ(second.bytes(), expected.bytes()) << length;
    EXPECT_EQ(expected.end().usage.cached_tokens, 0);
    EXPECT_EQ(expected.end().usage.miss, MissReason::disabled);
    EXPECT_EQ(first.end().usage.cached_tokens, 0);
    EXPECT_EQ(second.end().usage.cached_tokens, length - 1);
    EXPECT_EQ(second.end().usage.miss, std::nullopt);
  }
  EXPECT_EQ(cold_engine.engine().stats().cache.bytes, 0u);
  EXPECT_EQ(cold_engine.engine().stats().kv_used_bytes, 0u);
}

TEST_P(EngineEquality, GreedyAndTruncatedSamplingToo) {
  Harness harness(model());
  for (const SamplingParams& sampling :
       {SamplingParams{.temperature = 0}, SamplingParams{.top_k = 20, .seed = 3},
        SamplingParams{.temperature = 0.8, .top_p = 0.9, .min_p = 0.01, .seed = 4}}) {
    const Ask request{.prompt = random_tokens(130, 5), .sampling = sampling};
    const std::string expected = cold(request);
    EXPECT_EQ(harness.run(request).bytes(), expected);
    EXPECT_EQ(harness.run(request).bytes(), expected);
  }
}

// The length of what a finished reply leaves behind, by law L2.
TEST_P(EngineEquality, TheNextTurnRestoresWhatWasForwarded) {
  Harness harness(model());
  const auto next_turn = [&](Ask first, FinishReason reason, Position expected_cached) {
    const Recording& reply = harness.run(first);
    EXPECT_EQ(reply.end().reason, reason);
    const Ask next{.prompt = joined(joined(first.prompt, reply.ids()), random_tokens(20, 99)),
                   .salt = first.salt};
    const Recording& warm = harness.run(next);
    EXPECT_EQ(warm.end().usage.cached_tokens, expected_cached);
    EXPECT_EQ(warm.bytes(), cold(next));
    const PromptCacheStats stats = harness.engine().cache_stats({"", first.salt});
    ASSERT_TRUE(stats.last_hit.has_value());
    EXPECT_EQ(stats.last_hit->matched_length, expected_cached);
    EXPECT_EQ(stats.lookups, 2u);
    EXPECT_EQ(stats.hits, 1u);
  };
  Ask request = ask(100, 1);
  const std::vector<TokenId> reply = Harness(model()).run(request).ids();

  request.salt = "length";
  next_turn(request, FinishReason::length, 100 + 12 - 1);
  request.salt = "one";
  request.max_tokens = 1;
  next_turn(request, FinishReason::length, 100);

  request.max_tokens = 12;
  request.salt = "stop";
  request.on_token = [](std::size_t tokens) {
    return tokens == 5 ? SequenceSink::Verdict::stop : SequenceSink::Verdict::go_on;
  };
  next_turn(request, FinishReason::stop, 100 + 5 - 1);

  request.on_token = {};
  request.salt = "end of sequence";
  const auto eos = std::find_if(reply.begin() + 3, reply.end(), [&](TokenId id) {
    return std::find(reply.begin(), reply.begin() + 3, id) == reply.begin() + 3;
  });
  ASSERT_NE(eos, reply.end());
  request.stop_ids = {*eos};
  const Position before_eos = eos - reply.begin();
  next_turn(request, FinishReason::stop, 100 + before_eos);
}

TEST_P(EngineEquality, AConversationGrowsWithoutPayingTwice) {
  Harness harness(model());
  std::vector<TokenId> history = random_tokens(90, 40);
  Position known = 0;
  for (std::uint32_t turn = 0; turn < 6; turn++) {
    const Ask request{.prompt = history, .max_tokens = 20, .sampling = {.seed = turn}};
    const EngineStats before = harness.engine().stats();
    const Recording& reply = harness.run(request);
    const EngineStats after = harness.engine().stats();
    EXPECT_EQ(reply.bytes(), cold(request)) << "turn " << turn;
    EXPECT_EQ(reply.end().usage.cached_tokens, known);
    const auto prompt = static_cast<Position>(history.size());
    EXPECT_EQ(static_cast<Position>(after.forwarded_rows - before.forwarded_rows),
              prompt - known + 19);
    known = prompt + 19;
    history = joined(joined(history, reply.ids()), random_tokens(15, 100 + turn));
  }
}

TEST_P(EngineEquality, EditedAndBranchedPromptsResumeAtTheEdit) {
  Harness harness(model());
  const std::vector<TokenId> shared = random_tokens(100, 1);
  for (std::uint32_t branch = 2; branch < 6; branch++) {
    const Ask request{.prompt = joined(shared, random_tokens(60, branch)), .history_boundary = 100};
    const Recording& reply = harness.run(request);
    EXPECT_EQ(reply.bytes(), cold(request));
    EXPECT_EQ(reply.end().usage.cached_tokens, branch == 2 ? 0 : 100);
    EXPECT_EQ(reply.end().usage.diverged_at, branch == 2 ? 0 : 100);
  }
  // Back to the first branch.
  const Ask again{.prompt = joined(shared, random_tokens(60, 2))};
  EXPECT_EQ(harness.run(again).end().usage.cached_tokens, 159);
}

TEST_P(EngineEquality, TwoConversationsInTurnsDoNotMeet) {
  Harness harness(model());
  std::vector<TokenId> histories[2] = {random_tokens(70, 1), random_tokens(85, 2)};
  for (int turn = 0; turn < 4; turn++) {
    for (std::vector<TokenId>& history : histories) {
      const Ask request{.prompt = history};
      const Recording& reply = harness.run(request);
      EXPECT_EQ(reply.bytes(), cold(request));
      if (turn > 0) {
        EXPECT_EQ(reply.end().usage.cached_tokens,
                  static_cast<Position>(history.size()) - 13);  // 12 new ones and the last sampled
      }
      history = joined(joined(history, reply.ids()), random_tokens(12, 7));
    }
  }
}

TEST_P(EngineEquality, FourAtOnceEqualAlone) {
  for (const int prefill_rows_max : {512, 7}) {
    HarnessOptions options;
    options.engine.prefill_rows_max = prefill_rows_max;
    for (const HarnessOptions& each : {options, options.without_cache()}) {
      Harness harness(model(), each);
      std::vector<Ask> asks;
      for (std::uint32_t i = 0; i < 4; i++) {
        asks.push_back({.prompt = random_tokens(60 + 40 * static_cast<int>(i), i),
                        .max_tokens = 20,
                        .sampling = {.seed = i}});
      }
      std::vector<Recording*> replies;
      for (const Ask& request : asks) replies.push_back(&harness.start(request));
      for (std::size_t i = 0; i < asks.size(); i++) {
        replies[i]->wait_for_end();
        EXPECT_EQ(replies[i]->bytes(), cold(asks[i])) << i;
      }
    }
  }
}

// The first request holds the engine until the four are in its inbox: they start in one step.
TEST_P(EngineEquality, EqualPromptsAtOnceAreForwardedOnce) {
  for (const int length : {40, 150}) {
    Harness harness(model());
    std::atomic<bool> are_submitted = false;
    Ask holder{.prompt = random_tokens(10, 90), .max_tokens = 1};
    holder.on_token = [&](std::size_t) {
      while (!are_submitted) std::this_thread::yield();
      return SequenceSink::Verdict::go_on;
    };
    Recording& held = harness.start(holder);
    held.wait_for_tokens(1);
    const Ask request = ask(length, 3);
    std::vector<Recording*> replies;
    for (int i = 0; i < 4; i++) replies.push_back(&harness.start(request));
    are_submitted = true;
    Position cached = 0;
    for (Recording* reply : replies) {
      reply->wait_for_end();
      EXPECT_EQ(reply->bytes(), cold(request));
      cached += reply->end().usage.cached_tokens;
    }
    EXPECT_EQ(cached, 3 * (length - 1));
    const EngineStats stats = harness.engine().stats();
    EXPECT_EQ(stats.forwarded_rows, static_cast<std::uint64_t>(10 + length + 3 + 4 * 11));
    EXPECT_EQ(stats.cache.hits, 3u);
    EXPECT_EQ(stats.cache.lookups, 5u);
  }
}

TEST_P(EngineEquality, ChunkedPrefillEqualsWhole) {
  const Ask request = ask(150, 8);
  const std::string expected = cold(request);
  for (const int rows : {1, 3, 5, 64}) {
    HarnessOptions options;
    options.engine.prefill_rows_max = rows;
    Harness harness(model(), options);
    EXPECT_EQ(harness.run(request).bytes(), expected) << rows;
    EXPECT_EQ(harness.run(request).bytes(), expected) << rows;
    Ask longer = request;
    longer.prompt = joined(longer.prompt, random_tokens(70, 9));
    EXPECT_EQ(harness.run(longer).bytes(), cold(longer)) << rows;
  }
}

TEST_P(EngineEquality, ThreadsAndInstructionSetsDoNotMatter) {
  const Ask request = ask(140, 12);
  const std::string expected = cold(request);
  for (const int threads : {1, 2, 3}) {
    for (const kernels::KernelTable* table : kernels::available_kernels()) {
      HarnessOptions options;
      options.threads = threads;
      options.isa = table->isa;
      Harness harness(model(), options);
      EXPECT_EQ(harness.run(request).bytes(), expected) << threads << " " << table->isa;
      EXPECT_EQ(harness.run(request).bytes(), expected) << threads << " " << table->isa;
    }
  }
}

TEST_P(EngineEquality, EveryKvTypeAndTheMaterialisedFormEqualTheirCold) {
  for (const kernels::KvType type :
       {kernels::KvType::f16, kernels::KvType::bf16, kernels::KvType::f32}) {
    for (const CacheStore store : {CacheStore::reference, CacheStore::materialised}) {
      HarnessOptions options;
      options.engine.kv_type = type;
      options.engine.cache.store = store;
      Harness cold_engine(model(), options.without_cache());
      Harness harness(model(), options);
      std::vector<TokenId> history = random_tokens(75, 60);
      for (int turn = 0; turn < 3; turn++) {
        const Ask request{.prompt = history};
        const Recording& reply = harness.run(request);
        EXPECT_EQ(reply.bytes(), cold_engine.run(request).bytes());
        EXPECT_EQ(reply.end().usage.cached_tokens > 75, turn > 0);
        history = joined(joined(history, reply.ids()), random_tokens(30, 61));
      }
    }
  }
}

// Int8 pages may not be snapshotted: the cache keeps nothing, and every lookup says why.
TEST_P(EngineEquality, Int8RunsAsWithoutCacheAndNamesTheReason) {
  HarnessOptions options;
  options.engine.kv_type = kernels::KvType::int8;
  Harness cold_engine(model(), options.without_cache());
  options.threads = 2;
  options.engine.prefill_rows_max = 7;
  Harness harness(model(), options);
  const Ask request = ask(140, 62);
  const std::string expected = cold_engine.run(request).bytes();
  for (int turn = 0; turn < 2; turn++) {
    const Recording& reply = harness.run(request);
    EXPECT_EQ(reply.bytes(), expected);
    EXPECT_EQ(reply.end().usage.cached_tokens, 0);
    EXPECT_EQ(reply.end().usage.miss, MissReason::mode_refused);
  }
  EXPECT_EQ(harness.engine().stats().cache.bytes, 0u);
  EXPECT_NE(expected, cold(request));  // keys and values are rounded otherwise
}

TEST_P(EngineEquality, ARequestMayRefuseTheCache) {
  Harness harness(model());
  Ask request = ask(120, 70);
  const std::string expected = cold(request);
  request.use_cache = false;
  EXPECT_EQ(harness.run(request).bytes(), expected);
  EXPECT_EQ(harness.engine().stats().cache.bytes, 0u);
  request.use_cache = true;
  harness.run(request);
  request.use_cache = false;
  const Recording& reply = harness.run(request);
  EXPECT_EQ(reply.bytes(), expected);
  EXPECT_EQ(reply.end().usage.cached_tokens, 0);
  EXPECT_EQ(reply.end().usage.miss, MissReason::disabled);
}

TEST_P(EngineEquality, SaltsDoNotMeet) {
  Harness harness(model());
  Ask request = ask(120, 71);
  request.salt = "one";
  harness.run(request);
  request.salt = "two";
  EXPECT_EQ(harness.run(request).end().usage.cached_tokens, 0);
  request.salt = "one";
  EXPECT_EQ(harness.run(request).end().usage.cached_tokens, 119);
  EXPECT_EQ(harness.engine().cache_stats({"", "two"}).hits, 0u);
}

INSTANTIATE_TEST_SUITE_P(Families, EngineEquality, ::testing::Values("gemma3", "llama"),
                         family_name);

}  // namespace
}  // namespace reprise::testing
