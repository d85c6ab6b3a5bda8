// Groups of requests: all or none, begun together, their common prompt forwarded once.
#include <atomic>
#include <limits>
#include <thread>

#include "engine_harness.h"

namespace reprise::testing {
namespace {

class EngineSubmitAll : public TinyFamilies {
 protected:
  static std::vector<GenerationRequest> requests(const std::vector<Ask>& asks,
                                                 std::deque<Recording>& recordings) {
    std::vector<GenerationRequest> group;
    for (const Ask& ask : asks) group.push_back(make_request(ask, recordings.emplace_back()));
    return group;
  }
  static std::vector<Ask> choices(int length, std::uint32_t count) {
    std::vector<Ask> asks;
    for (std::uint32_t choice = 0; choice < count; choice++) {
      Ask ask{.prompt = random_tokens(length, 3), .sampling = {.seed = 9}};
      ask.choice = choice;
      asks.push_back(ask);
    }
    return asks;
  }
};

struct ChoicesCase {
  const char* name;
  bool enabled = true, use_cache = true;
  kernels::KvType kv_type = kernels::KvType::f16;
  std::optional<MissReason> miss = {};  // of all; nullopt: the prompt cache is used
  int prompt_logprobs = -1;
  std::optional<MissReason> judged_miss = {};  // said of all, though the prompt cache is used
  int places = 8;
};

class EngineChoices : public EngineSubmitAll {
 protected:
  void expect_one_prefill(const ChoicesCase& how, int length) const {
    HarnessOptions options;
    options.engine.sequences_max = how.places;
    options.engine.cache.enabled = how.enabled;
    options.engine.kv_type = how.kv_type;
    options.engine.speculation = Speculation::off;
    Harness harness(model(), options), cold_engine(model(), options.without_cache());
    std::vector<Ask> asks = choices(length, 4);
    for (Ask& ask : asks) {
      ask.use_cache = how.use_cache;
      ask.prompt_logprobs = how.prompt_logprobs;
    }
    std::deque<Recording> recordings;
    const auto ids = harness.engine().submit_all(requests(asks, recordings));
    ASSERT_TRUE(ids.has_value());
    EXPECT_EQ(ids->size(), 4u);
    for (std::size_t i = 0; i < 4; i++) {
      recordings[i].wait_for_end();
      EXPECT_EQ(recordings[i].bytes(), cold_engine.run(asks[i]).bytes()) << i;
      for (std::size_t j = 0; j < i; j++) EXPECT_NE(recordings[i].ids(), recordings[j].ids());
      if (how.judged_miss) {
        EXPECT_EQ(recordings[i].end().usage.cached_tokens, 0);
        EXPECT_EQ(recordings[i].end().usage.miss, how.judged_miss);
      }
      if (!how.miss) continue;
      EXPECT_EQ(recordings[i].end().usage.cached_tokens, 0);
      EXPECT_EQ(recordings[i].end().usage.miss, how.miss);
    }
    const EngineStats stats = harness.engine().stats();
    // The last token of a prompt is forwarded by each: its logits are not kept.
    EXPECT_EQ(stats.forwarded_rows, static_cast<std::uint64_t>(length + 3 + 4 * 11));
    if (how.judged_miss) {  // the counters say the same
      EXPECT_EQ(stats.cache.hits, 0u);
      EXPECT_EQ(stats.cache.misses[static_cast<std::size_t>(*how.judged_miss)], 4u);
    }
    if (how.miss) {  // nothing stays
      EXPECT_EQ(stats.kv_used_bytes, 0u);
      EXPECT_EQ(stats.cache.inserts, 0u);
      EXPECT_EQ(stats.cache.misses[static_cast<std::size_t>(*how.miss)], 4u);
    }
    harness.destroy_engine();
  }
};

TEST_P(EngineChoices, ForwardTheirPromptOnce) {
  using enum MissReason;
  const ChoicesCase cases[] = {
      {.name = "prompt cache"},
      {.name = "prompt cache off", .enabled = false, .miss = disabled},
      {.name = "not to be used", .use_cache = false, .miss = disabled},
      {.name = "int8 pages", .kv_type = kernels::KvType::int8, .miss = mode_refused},
      {.name = "few places", .enabled = false, .miss = disabled, .places = 2},
      {.name = "judged", .prompt_logprobs = 2, .judged_miss = disabled},
      {.name = "judged, off", .enabled = false, .miss = disabled, .prompt_logprobs = 2},
      {.name = "judged, off, few places",
       .enabled = false,
       .miss = disabled,
       .prompt_logprobs = 0,
       .places = 3},
  };
  for (const ChoicesCase& how : cases) {
    for (const int length : {20, 64, 150}) {
      SCOPED_TRACE(std::string(how.name) + ", " + std::to_string(length));
      expect_one_prefill(how, length);
    }
  }
}

// Different prompts of one submission: what they begin with is forwarded once too.
TEST_P(EngineSubmitAll, PromptsThatBeginAlikeShareWithoutACache) {
  Harness harness(model(), HarnessOptions{}.without_cache());
  std::vector<Ask> asks;
  for (std::uint32_t i = 0; i < 3; i++) {
    asks.push_back(
        {.prompt = joined(random_tokens(100, 3), random_tokens(10, 20 + i)), .max_tokens = 1});
  }
  std::deque<Recording> recordings;
  ASSERT_TRUE(harness.engine().submit_all(requests(asks, recordings)).has_value());
  for (std::size_t i = 0; i < 3; i++) {
    recordings[i].wait_for_end();
    EXPECT_EQ(recordings[i].bytes(), cold(asks[i])) << i;
  }
  // Whole blocks at least.
  EXPECT_LE(harness.engine().stats().forwarded_rows, 110u + 2 * (110 - kPagePositions));
  EXPECT_EQ(harness.engine().stats().kv_used_bytes, 0u);
  // One alone shares with nobody, before or after.
  const std::uint64_t before = harness.engine().stats().forwarded_rows;
  harness.run(asks[0]);
  EXPECT_EQ(harness.engine().stats().forwarded_rows, before + 110);
  harness.destroy_engine();
}

TEST_P(EngineSubmitAll, OneWrongRequestRefusesAll) {
  Harness harness(model());
  std::deque<Recording> recordings;
  for (std::size_t wrong = 0; wrong < 3; wrong++) {
    std::vector<Ask> asks = choices(30, 3);
    asks[wrong].banned_ids = {kTinyVocabulary};
    const auto ids = harness.engine().submit_all(requests(asks, recordings));
    ASSERT_FALSE(ids.has_value());
    EXPECT_EQ(ids.error().code, Errc::invalid_argument);
    EXPECT_EQ(ids.error().field, "banned_ids");
  }
  EXPECT_EQ(harness.engine().stats().requests, 0u);
  harness.destroy_engine();
  for (const Recording& recording : recordings) EXPECT_EQ(recording.ends(), 0);
}

TEST_P(EngineSubmitAll, TheQueueTakesAllOrNone) {
  HarnessOptions options;
  options.engine.sequences_max = 2;
  options.engine.queue_max = 4;
  std::deque<Recording> recordings;
  Harness harness(model(), options);
  std::atomic<bool> goes_on = false;
  Ask holder{.prompt = random_tokens(10, 1), .max_tokens = 1};
  holder.on_token = [&](std::size_t) {
    while (!goes_on) std::this_thread::yield();
    return SequenceSink::Verdict::go_on;
  };
  Recording& held = harness.start(holder);
  held.wait_for_tokens(1);  // one of six
  const auto submit = [&](std::uint32_t count, const char* tenant) {
    std::vector<Ask> asks = choices(20, count);
    for (Ask& ask : asks) ask.tenant = tenant;
    return harness.engine().submit_all(requests(asks, recordings));
  };
  EXPECT_TRUE(submit(3, "").has_value());
  const auto full = submit(3, "");
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, Errc::exhausted);
  EXPECT_EQ(full.error().message,
            "4 requests are running or waiting, the queue holds 6 in all; these are 3 more");
  EXPECT_TRUE(submit(2, "").has_value()) << "nothing of the refused ones was counted";
  EXPECT_FALSE(submit(1, "").has_value());
  EXPECT_TRUE(submit(6, "other").has_value()) << "nobody is kept out by others";
  EXPECT_FALSE(submit(1, "other").has_value());
  const auto never = submit(7, "third");
  ASSERT_FALSE(never.has_value());
  EXPECT_EQ(never.error().code, Errc::invalid_argument);
  EXPECT_EQ(never.error().message,
            "got 7 requests at once, expected at most 6: so many may run and wait together");
  EXPECT_EQ(submit(0, "").value().size(), 0u);
  goes_on = true;
  harness.engine().drain(60'000);
  int ends = 0;
  for (const Recording& recording : recordings) ends += recording.ends();
  EXPECT_EQ(ends, 3 + 2 + 6);
  EXPECT_EQ(harness.engine().stats().refused_full, 3u + 1 + 1);
  harness.destroy_engine();
}

TEST_P(EngineSubmitAll, RefusalsNameTheField) {
  Harness harness(model());
  Recording recording;
  const auto field = [&](const Ask& ask) {
    const Result<RequestId> id = harness.submit(ask, recording);
    EXPECT_FALSE(id.has_value());
    if (id) return std::string("accepted");
    EXPECT_EQ(id.error().code, Errc::invalid_argument);
    EXPECT_NE(id.error().message.find(id.error().field), std::string::npos) << id.error().message;
    return id.error().field;
  };
  const auto of_sampling = [&](SamplingParams sampling) {
    return field({.prompt = random_tokens(9, 1), .sampling = std::move(sampling)});
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const auto wide = std::numeric_limits<float>::infinity();
  EXPECT_EQ(of_sampling({.temperature = infinity}), "temperature");
  EXPECT_EQ(of_sampling({.typical_p = nan}), "typical_p");
  EXPECT_EQ(of_sampling({.typical_p = 1.1}), "typical_p");
  EXPECT_EQ(of_sampling({.xtc_probability = -0.1}), "xtc_probability");
  EXPECT_EQ(of_sampling({.xtc_threshold = nan}), "xtc_threshold");
  EXPECT_EQ(of_sampling({.repetition_penalty = 0}), "repetition_penalty");
  EXPECT_EQ(of_sampling({.repetition_penalty = infinity}), "repetition_penalty");
  EXPECT_EQ(of_sampling({.repetition_window = -2}), "repetition_window");
  EXPECT_EQ(of_sampling({.frequency_penalty = nan}), "frequency_penalty");
  EXPECT_EQ(of_sampling({.presence_penalty = -infinity}), "presence_penalty");
  EXPECT_EQ(of_sampling({.dry = {.multiplier = -1}}), "dry_multiplier");
  EXPECT_EQ(of_sampling({.dry = {.base = 0.9}}), "dry_base");
  EXPECT_EQ(of_sampling({.dry = {.allowed_length = -1}}), "dry_allowed_length");
  EXPECT_EQ(of_sampling({.dry = {.window = -2}}), "dry_penalty_last_n");
  EXPECT_EQ(of_sampling({.dry = {.breakers = {3, 2}}}), "dry_sequence_breakers");
  EXPECT_EQ(of_sampling({.dry = {.breakers = {kTinyVocabulary}}}), "dry_sequence_breakers");
  EXPECT_EQ(of_sampling({.logit_bias = {{kTinyVocabulary, 1}}}), "logit_bias");
  EXPECT_EQ(of_sampling({.logit_bias = {{2, 1}, {2, 1}}}), "logit_bias");
  EXPECT_EQ(of_sampling({.logit_bias = {{2, wide}}}), "logit_bias");
  const std::vector<TokenId> prompt = random_tokens(9, 1);
  EXPECT_EQ(field({.prompt = prompt, .stop_ids = {-1}}), "stop_token_ids");
  EXPECT_EQ(field({.prompt = prompt, .banned_ids = {kTinyVocabulary}}), "banned_ids");
  EXPECT_EQ(field({.prompt = prompt, .max_tokens = 3, .min_tokens = 4}), "min_tokens");
  EXPECT_EQ(field({.prompt = prompt, .min_tokens = -1}), "min_tokens");
  EXPECT_EQ(field({.prompt = prompt, .max_tokens = -1}), "max_tokens");
  EXPECT_EQ(field({.prompt = prompt, .prompt_logprobs = kTinyVocabulary + 1}), "prompt_logprobs");
}

INSTANTIATE_TEST_SUITE_P(Families, EngineSubmitAll, ::testing::Values("gemma3", "llama"),
                         family_name);
INSTANTIATE_TEST_SUITE_P(Families, EngineChoices, ::testing::Values("gemma3", "llama"),
                         family_name);

}  // namespace
}  // namespace reprise::testing
