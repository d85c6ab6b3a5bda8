// Every accepted request ends exactly once (law L7): finished, cancelled at any stage, refused by
// the numbers, or because the engine goes away. And nothing stays behind.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "engine_harness.h"

namespace reprise::testing {
namespace {

class EngineEnds : public TinyFamilies {
 protected:
  static void expect_nothing_left(Engine& engine) {
    const EngineStats idle = engine.stats();
    EXPECT_EQ(idle.running, 0u);
    EXPECT_EQ(idle.waiting, 0u);
    EXPECT_EQ(idle.sequence_pages_bytes, 0u);
    EXPECT_EQ(idle.kv_used_bytes, idle.cache.bytes);
    EXPECT_EQ(idle.requests, idle.ends_stop + idle.ends_length + idle.ends_cancelled +
                                 idle.ends_timeout + idle.ends_error);
    engine.reset_cache({});
    EXPECT_EQ(engine.cache_stats({}).bytes, 0u);
  }
};

TEST_P(EngineEnds, UsageAndTimingsAddUp) {
  Harness harness(model());
  const Recording& reply = harness.run({.prompt = random_tokens(100, 1), .max_tokens = 5});
  EXPECT_EQ(reply.ends(), 1);
  EXPECT_EQ(reply.end().reason, FinishReason::length);
  EXPECT_FALSE(reply.end().error.has_value());
  EXPECT_EQ(reply.end().usage.prompt_tokens, 100);
  EXPECT_EQ(reply.end().usage.completion_tokens, 5);
  EXPECT_EQ(reply.end().usage.miss, MissReason::no_candidate);
  EXPECT_EQ(reply.prefilled(), 100);
  EXPECT_GE(reply.end().timings.queued_ms, 0);
  EXPECT_GT(reply.end().timings.prefill_ms, 0);
  EXPECT_GT(reply.end().timings.decode_ms, 0);
  const EngineStats stats = harness.engine().stats();
  EXPECT_EQ(stats.requests, 1u);
  EXPECT_EQ(stats.prompt_tokens, 100u);
  EXPECT_EQ(stats.completion_tokens, 5u);
  EXPECT_EQ(stats.forwarded_rows, 104u);
  EXPECT_EQ(stats.ends_length, 1u);
  expect_nothing_left(harness.engine());
  EXPECT_EQ(harness.engine().stats().kv_budget_bytes, std::size_t{64} << 20);
}

TEST_P(EngineEnds, AnEndOfSequenceTokenCountsButIsNotSent) {
  Harness harness(model());
  Ask request{.prompt = random_tokens(80, 2)};
  const std::vector<TokenId> ids = harness.run(request).ids();
  request.stop_ids = {ids[0]};
  const Recording& reply = harness.run(request);
  EXPECT_EQ(reply.end().reason, FinishReason::stop);
  EXPECT_TRUE(reply.tokens().empty());
  EXPECT_EQ(reply.end().usage.completion_tokens, 1);
}

TEST_P(EngineEnds, CancelInTheQueue) {
  HarnessOptions options;
  options.engine.sequences_max = 1;
  Harness harness(model(), options);
  Recording& running = harness.start({.prompt = random_tokens(60, 1), .max_tokens = 400});
  Recording& queued = harness.start({.prompt = random_tokens(60, 2)});
  harness.engine().cancel(harness.last_id());
  queued.wait_for_end();
  EXPECT_EQ(queued.end().reason, FinishReason::cancelled);
  EXPECT_TRUE(queued.tokens().empty());
  EXPECT_EQ(queued.end().usage.cached_tokens, 0);
  running.wait_for_end();
  EXPECT_EQ(running.end().reason, FinishReason::length);
  EXPECT_EQ(running.tokens().size(), 400u);
  expect_nothing_left(harness.engine());
}

TEST_P(EngineEnds, CancelInPrefillKeepsWhatWasForwarded) {
  HarnessOptions options;
  options.engine.prefill_rows_max = 10;
  Harness harness(model(), options);
  Ask request{.prompt = random_tokens(200, 3)};
  std::atomic<std::uint64_t> id = 0;
  request.on_prefill = [&](Position done) {
    while (id == 0) std::this_thread::yield();
    if (done == 90) harness.engine().cancel(RequestId{id.load()});
  };
  Recording& cancelled = harness.start(request);
  id = static_cast<std::uint64_t>(harness.last_id());
  cancelled.wait_for_end();
  EXPECT_EQ(cancelled.end().reason, FinishReason::cancelled);
  EXPECT_EQ(cancelled.end().usage.completion_tokens, 0);
  EXPECT_EQ(cancelled.prefilled(), 90);
  request.on_prefill = {};
  const Recording& again = harness.run(request);
  EXPECT_EQ(again.end().usage.cached_tokens, 90);
  EXPECT_EQ(again.bytes(), cold(request));
  expect_nothing_left(harness.engine());
}

TEST_P(EngineEnds, CancelInDecodeFromOutsideAndByTheSink) {
  Harness harness(model());
  Recording& outside = harness.start({.prompt = random_tokens(70, 4), .max_tokens = 500});
  const RequestId id = harness.last_id();
  outside.wait_for_tokens(3);
  harness.engine().cancel(id);
  outside.wait_for_end();
  EXPECT_EQ(outside.end().reason, FinishReason::cancelled);
  EXPECT_LT(outside.tokens().size(), 500u);

  Ask request{.prompt = random_tokens(70, 5), .max_tokens = 500};
  request.on_token = [](std::size_t tokens) {
    return tokens == 4 ? SequenceSink::Verdict::cancel : SequenceSink::Verdict::go_on;
  };
  const Recording& by_sink = harness.run(request);
  EXPECT_EQ(by_sink.end().reason, FinishReason::cancelled);
  EXPECT_EQ(by_sink.tokens().size(), 4u);
  // The next turn of a stopped reply finds it.
  const Ask next{.prompt = joined(joined(request.prompt, by_sink.ids()), random_tokens(10, 6))};
  const Recording& reply = harness.run(next);
  EXPECT_EQ(reply.end().usage.cached_tokens, 70 + 4 - 1);
  EXPECT_EQ(reply.bytes(), cold(next));
  harness.engine().cancel(id);  // ended long ago: ignored
  harness.engine().cancel(RequestId{12345});
  expect_nothing_left(harness.engine());
}

TEST_P(EngineEnds, RefusalsNameBothNumbersAndNeverCallTheSink) {
  HarnessOptions options;
  options.engine.context_length = 300;
  options.engine.kv_budget_bytes = 200'000;  // three pages of 32 or 64 KiB a group: not 300 tokens
  Harness harness(model(), options);
  Recording recording;
  const auto refusal = [&](const Ask& ask) {
    const Result<RequestId> id = harness.submit(ask, recording);
    EXPECT_FALSE(id.has_value());
    return id ? Error{} : id.error();
  };
  const auto prompt = random_tokens(50, 1);
  EXPECT_EQ(refusal({}).code, Errc::invalid_argument);
  EXPECT_EQ(refusal({.prompt = {3, kTinyVocabulary}}).message,
            "prompt holds token id 320, the vocabulary has 320");
  EXPECT_EQ(refusal({.prompt = {3, -1}}).code, Errc::invalid_argument);
  EXPECT_EQ(refusal({.prompt = prompt, .max_tokens = -1}).field, "max_tokens");
  EXPECT_EQ(refusal({.prompt = prompt, .max_tokens = 251}).message,
            "50 prompt tokens and max_tokens 251 exceed the context length of 300 tokens");
  EXPECT_EQ(refusal({.prompt = random_tokens(301, 1), .max_tokens = 1}).code,
            Errc::invalid_argument);
  EXPECT_EQ(refusal({.prompt = prompt, .history_boundary = 51}).field, "history_boundary");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal({.prompt = prompt, .sampling = {.temperature = -1}}).field, "temperature");
  EXPECT_EQ(refusal({.prompt = prompt, .sampling = {.temperature = nan}}).field, "temperature");
  EXPECT_EQ(refusal({.prompt = prompt, .sampling = {.top_k = -1}}).field, "top_k");
  EXPECT_EQ(refusal({.prompt = prompt, .sampling = {.top_p = 1.5}}).field, "top_p");
  EXPECT_EQ(refusal({.prompt = prompt, .sampling = {.min_p = nan}}).field, "min_p");
  const Error too_large = refusal({.prompt = random_tokens(280, 1)});
  EXPECT_EQ(too_large.code, Errc::exhausted);
  EXPECT_NE(too_large.message.find("200000"), std::string::npos) << too_large.message;
  EXPECT_EQ(harness.engine().stats().requests, 0u);
  harness.destroy_engine();
  EXPECT_EQ(recording.ends(), 0);
}

TEST_P(EngineEnds, AFullQueueRefuses) {
  HarnessOptions options;
  options.engine.sequences_max = 1;
  options.engine.queue_max = 2;
  Harness harness(model(), options);
  std::vector<Recording*> accepted;
  for (int i = 0; i < 3; i++) {
    accepted.push_back(&harness.start({.prompt = random_tokens(60, 1), .max_tokens = 300}));
  }
  Recording refused;
  const Result<RequestId> id = harness.submit({.prompt = random_tokens(60, 1)}, refused);
  ASSERT_FALSE(id.has_value());
  EXPECT_EQ(id.error().code, Errc::exhausted);
  for (Recording* recording : accepted) {
    recording->wait_for_end();
    EXPECT_EQ(recording->end().reason, FinishReason::length);
  }
  EXPECT_EQ(refused.ends(), 0);
  harness.engine().drain(60'000);  // the last end is counted after it was told
}

TEST_P(EngineEnds, DrainWaitsThenCancels) {
  Harness harness(model());
  Recording& quick = harness.start({.prompt = random_tokens(60, 1), .max_tokens = 5});
  harness.engine().drain(60'000);
  EXPECT_EQ(quick.ends(), 1);
  EXPECT_EQ(quick.end().reason, FinishReason::length);
  Recording late;
  const Result<RequestId> id = harness.submit({.prompt = random_tokens(60, 1)}, late);
  ASSERT_FALSE(id.has_value());
  EXPECT_EQ(id.error().code, Errc::cancelled);
  EXPECT_NE(id.error().message.find("stopping"), std::string::npos);

  Harness other(model());
  std::vector<Recording*> slow;
  for (int i = 0; i < 12; i++) {  // four of them in the queue
    slow.push_back(&other.start({.prompt = random_tokens(60, 1), .max_tokens = 540}));
  }
  other.engine().drain(1);
  for (const Recording* recording : slow) {
    EXPECT_EQ(recording->ends(), 1);
    EXPECT_EQ(recording->end().reason, FinishReason::cancelled);
  }
  expect_nothing_left(other.engine());
}

TEST_P(EngineEnds, TheDestructorEndsAll) {
  Harness harness(model());
  std::vector<Recording*> recordings;
  for (int i = 0; i < 12; i++) {
    recordings.push_back(&harness.start({.prompt = random_tokens(60, 2), .max_tokens = 540}));
  }
  harness.destroy_engine();
  for (const Recording* recording : recordings) {
    EXPECT_EQ(recording->ends(), 1);
    EXPECT_EQ(recording->end().reason, FinishReason::cancelled);
  }
}

// 300 requests from three threads: lengths, salts, shared prefixes, cancels and stops at random, a
// small KV budget, sometimes a reset.
TEST_P(EngineEnds, AStormEndsEachRequestOnce) {
  constexpr int kThreads = 3, kRequests = 100;
  HarnessOptions options;
  options.engine.kv_budget_bytes = 2'000'000;
  options.engine.sequences_max = 5;
  options.engine.prefill_rows_max = 48;
  options.engine.queue_max = kThreads * kRequests;
  std::deque<Recording> recordings(kThreads * kRequests);
  {
    Harness harness(model(), options);
    std::vector<std::thread> clients;
    for (int client = 0; client < kThreads; client++) {
      clients.emplace_back([&, client] {
        std::mt19937 random(static_cast<unsigned>(1000 + client));
        for (int i = 0; i < kRequests; i++) {
          const int shared = static_cast<int>(random() % 100);
          Ask ask{.prompt = joined(random_tokens(shared, random() % 3),
                                   random_tokens(1 + static_cast<int>(random() % 60), random())),
                  .max_tokens = 1 + static_cast<Position>(random() % 20),
                  .sampling = {.seed = random()},
                  .stop_ids = {static_cast<TokenId>(random() % kTinyVocabulary)},
                  .history_boundary = shared,
                  .salt = random() % 2 == 0 ? "a" : "b",
                  .use_cache = random() % 8 != 0};
          const std::size_t verdict_at = random() % 40;
          const auto verdict =
              random() % 2 == 0 ? SequenceSink::Verdict::stop : SequenceSink::Verdict::cancel;
          ask.on_token = [=](std::size_t tokens) {
            return tokens == verdict_at ? verdict : SequenceSink::Verdict::go_on;
          };
          Recording& recording = recordings[static_cast<std::size_t>(client * kRequests + i)];
          const Result<RequestId> id = harness.submit(ask, recording);
          EXPECT_TRUE(id.has_value()) << (id ? "" : id.error().message);
          if (random() % 4 == 0) harness.engine().cancel(*id);
          if (random() % 3 == 0) recording.wait_for_end();
          if (random() % 40 == 0) harness.engine().reset_cache({"", "a"});
        }
      });
    }
    for (std::thread& client : clients) client.join();
    harness.engine().drain(300'000);
    const EngineStats stats = harness.engine().stats();
    EXPECT_EQ(stats.requests, static_cast<std::uint64_t>(kThreads * kRequests));
    EXPECT_EQ(stats.ends_error, 0u);
    EXPECT_GT(stats.cached_tokens, 0u);
    expect_nothing_left(harness.engine());
    harness.engine().reset_cache({"", "a"});
    harness.engine().reset_cache({"", "b"});
    EXPECT_EQ(harness.engine().stats().kv_used_bytes, 0u);
  }
  for (const Recording& recording : recordings) EXPECT_EQ(recording.ends(), 1);
}

INSTANTIATE_TEST_SUITE_P(Families, EngineEnds, ::testing::Values("gemma3", "llama"), family_name);

// A token whose scaled embedding overflows: who asks with it ends in one error, the others do not
// notice. The head shares the embedding; a zero in the last norm keeps the poison out of the
// logits.
TEST(EngineErrors, ARowThatIsNotFiniteEndsItsRequestAlone) {
  constexpr TokenId kPoison = 300;
  const TinyModelOptions shape{.family = "gemma3"};
  std::vector<std::byte> bytes = tiny_gguf(shape);
  const GgufFile clean = GgufFile::parse(bytes).value();
  const auto row_bytes = static_cast<std::size_t>(shape.hidden) * sizeof(float);
  const float large = 1e38f, zero = 0;  // times sqrt(64) it is infinite
  std::memcpy(bytes.data() + clean.find_tensor("token_embd.weight")->offset + kPoison * row_bytes,
              &large, sizeof(large));
  std::memcpy(bytes.data() + clean.find_tensor("output_norm.weight")->offset, &zero, sizeof(zero));
  ThreadPool pool(1);
  const Result<Model> model = testing::load_gguf(bytes, pool);
  ASSERT_TRUE(model.has_value()) << model.error().message;

  Harness harness(*model);
  Ask fine{.prompt = random_tokens(100, 1), .sampling = {.temperature = 0}};
  std::replace(fine.prompt.begin(), fine.prompt.end(), kPoison, kPoison - 1);
  Ask poisoned = fine;
  poisoned.prompt[90] = kPoison;
  const std::string expected = Harness(*model).run(fine).bytes();
  ASSERT_EQ(expected.find(std::string(reinterpret_cast<const char*>(&kPoison), 4)),
            std::string::npos);
  Recording& first = harness.start(fine);
  Recording& bad = harness.start(poisoned);
  Recording& last = harness.start(fine);
  for (Recording* recording : {&first, &bad, &last}) recording->wait_for_end();
  EXPECT_EQ(bad.ends(), 1);
  EXPECT_EQ(bad.end().reason, FinishReason::error);
  ASSERT_TRUE(bad.end().error.has_value());
  EXPECT_NE(bad.end().error->message.find("not a finite number"), std::string::npos);
  EXPECT_TRUE(bad.tokens().empty());
  EXPECT_EQ(first.bytes(), expected);
  EXPECT_EQ(last.bytes(), expected);
  EXPECT_EQ(harness.run(fine).bytes(), expected);  // nothing of the bad step was published
  // The 90 tokens before the poison are shared; nothing behind them is.
  const Recording& again = harness.run(poisoned);
  EXPECT_EQ(again.end().reason, FinishReason::error);
  EXPECT_EQ(harness.engine().stats().ends_error, 2u);
  EXPECT_EQ(harness.engine().stats().cache.last_hit->matched_length, 90);
  EXPECT_EQ(harness.engine().stats().kv_used_bytes, harness.engine().stats().cache.bytes);
}

}  // namespace
}  // namespace reprise::testing
