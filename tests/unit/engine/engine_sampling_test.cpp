// What is sampled hangs on the request alone, whatever its parameters: not on the cache, chunks,
// other requests, drafts, preemption or threads.
#include <random>

#include "engine_harness.h"
#include "fake_grammar.h"
#include "known_replies.h"
#include "support/random_sampling.h"

namespace reprise::testing {
namespace {

class EngineSampling : public TinyFamilies {
 protected:
  // Requests with random parameters, some under a grammar, on prompts that begin alike.
  static std::vector<Ask> random_asks(std::uint32_t seed, std::size_t count) {
    std::mt19937 random(seed);
    std::vector<Ask> asks;
    for (std::size_t i = 0; i < count; i++) {
      const auto number = static_cast<std::uint32_t>(random());
      Ask ask{.prompt = joined(random_tokens(70, seed), random_tokens(5 + number % 60, number)),
              .max_tokens = 10 + static_cast<Position>(random() % 170),
              .sampling = random_sampling(random, kTinyVocabulary)};
      ask.choice = random() % 3;
      ask.stop_ids = random_tokens(4, number + 1);
      if (random() % 3 == 0) ask.banned_ids = random_tokens(20, number + 2);
      if (random() % 3 == 0) ask.min_tokens = static_cast<Position>(random() % 10);
      if (random() % 4 == 0) ask.prompt_logprobs = static_cast<int>(random() % 3);
      if (random() % 3 == 0) {
        const FakeGrammarOptions grammar{.seed = number,
                                         .length = 5 + static_cast<int>(random() % 300),
                                         .third = 1 + static_cast<int>(random() % 30),
                                         .stop_ids = ask.stop_ids};
        ask.constraint = [grammar] { return std::make_unique<FakeGrammar>(grammar); };
      }
      asks.push_back(std::move(ask));
    }
    return asks;
  }

  void expect_cold_answers(const HarnessOptions& options, const std::vector<Ask>& asks,
                           const std::vector<std::string>& expected, EngineStats* stats = nullptr) {
    Harness harness(model(), options);
    std::vector<Recording*> replies;
    for (const Ask& ask : asks) replies.push_back(&harness.start(ask));
    for (std::size_t i = 0; i < asks.size(); i++) {
      replies[i]->wait_for_end();
      EXPECT_TRUE(replies[i]->bytes() == expected[i]) << i;
      EXPECT_NE(replies[i]->end().reason, FinishReason::error) << i;
    }
    if (stats != nullptr) *stats = harness.engine().stats();
  }
};

TEST_P(EngineSampling, NothingButTheRequestMatters) {
  std::uint64_t accepted = 0;
  for (std::uint32_t seed = 1; seed <= 6 && !HasFailure(); seed++) {
    SCOPED_TRACE(seed);
    const std::vector<Ask> asks = random_asks(seed, 8);
    std::vector<std::string> expected;
    KnownReplies known;
    for (const Ask& ask : asks) {
      HarnessOptions alone = HarnessOptions{}.without_cache();
      alone.engine.speculation = Speculation::off;
      Harness harness(model(), alone);
      const Recording& reply = harness.run(ask);
      expected.push_back(reply.bytes());
      known.add(joined(ask.prompt, reply.ids()));
    }
    HarnessOptions options;
    expect_cold_answers(options, asks, expected);
    expect_cold_answers(options.without_cache(), asks, expected);
    options.threads = 3;
    options.engine.prefill_rows_max = 9;
    expect_cold_answers(options, asks, expected);
    options.engine.draft = [&](std::span<const TokenId> tokens, std::size_t most) {
      return known.draft(tokens, most);
    };
    EngineStats stats;
    expect_cold_answers(options, asks, expected, &stats);
    accepted += stats.accepted_tokens;
    // Little room: scheduler_model_test counts the preemptions of such requests.
    const KvLayout layout = model().config().kv_layout(kernels::KvType::f16);
    options.engine.kv_budget_bytes = layout.sequence_bytes(440);
    expect_cold_answers(options, asks, expected);
  }
  EXPECT_GT(accepted, 100u);
}

TEST_P(EngineSampling, StopIdsAreBannedUntilSoManyWereSampled) {
  Harness harness(model());
  Ask ask{.prompt = random_tokens(80, 2), .max_tokens = 30};
  const std::vector<TokenId> free = harness.run(ask).ids();
  ask.stop_ids = {free[0], free[4]};
  EXPECT_EQ(harness.run(ask).end().usage.completion_tokens, 1);
  for (const Position least : {1, 3, 30}) {
    ask.min_tokens = least;
    const Recording& reply = harness.run(ask);
    EXPECT_GE(reply.end().usage.completion_tokens, least);
    for (const TokenId id : reply.ids()) EXPECT_EQ(std::ranges::count(ask.stop_ids, id), 0);
  }
  // All but the stop ids are banned as well: nothing may follow.
  for (TokenId id = 0; id < kTinyVocabulary; id++) {
    if (std::ranges::count(ask.stop_ids, id) == 0) ask.banned_ids.push_back(id);
  }
  const Recording& nothing = harness.run(ask);
  EXPECT_EQ(nothing.end().reason, FinishReason::stop);
  EXPECT_EQ(nothing.end().usage.completion_tokens, 0);
  ask.min_tokens = 0;
  EXPECT_EQ(harness.run(ask).end().usage.completion_tokens, 1);
}

TEST_P(EngineSampling, BannedIdsNeverCome) {
  Harness harness(model());
  Ask ask{.prompt = random_tokens(80, 3), .max_tokens = 60, .sampling = {.temperature = 5}};
  ask.banned_ids = random_tokens(200, 4);
  ask.stop_ids = ask.banned_ids;  // as ignore_eos asks for it
  const Recording& reply = harness.run(ask);
  EXPECT_EQ(reply.end().reason, FinishReason::length);
  EXPECT_EQ(reply.tokens().size(), 60u);
  for (const TokenId id : reply.ids()) EXPECT_EQ(std::ranges::count(ask.banned_ids, id), 0) << id;
}

TEST_P(EngineSampling, NoTokensIsAReplyToo) {
  Harness harness(model());
  Ask ask{.prompt = random_tokens(150, 5), .max_tokens = 0};
  const Recording& reply = harness.run(ask);
  EXPECT_EQ(reply.end().reason, FinishReason::length);
  EXPECT_EQ(reply.end().usage.completion_tokens, 0);
  EXPECT_EQ(reply.prefilled(), 150);
  EXPECT_TRUE(reply.tokens().empty());
  const EngineStats stats = harness.engine().stats();
  EXPECT_EQ(stats.forwarded_rows, 150u);
  EXPECT_EQ(stats.completion_tokens, 0u);
  EXPECT_EQ(stats.ends_length, 1u);
  // What was forwarded serves the next: a way to warm the cache.
  ask.max_tokens = 5;
  const Recording& next = harness.run(ask);
  EXPECT_EQ(next.end().usage.cached_tokens, 149);
  EXPECT_EQ(next.bytes(), cold(ask));
}

INSTANTIATE_TEST_SUITE_P(Families, EngineSampling, ::testing::Values("gemma3", "llama"),
                         family_name);

}  // namespace
}  // namespace reprise::testing
