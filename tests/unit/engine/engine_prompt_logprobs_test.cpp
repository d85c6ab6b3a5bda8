// What the model thought of the prompt: the decoder's own numbers, once per token, in order.
#include <atomic>
#include <thread>

#include "engine_harness.h"
#include "model/decoder.h"

namespace reprise::testing {
namespace {

class EnginePromptLogprobs : public TinyFamilies {
 protected:
  // The whole prompt forwarded at once, each row judged.
  std::string judged(const std::vector<TokenId>& prompt, int top) const {
    ThreadPool pool(1);
    const kernels::KernelTable& kernels = *kernels::choose_kernels("").value();
    PagePool pages(model().config().kv_layout(kernels::KvType::f16), std::size_t{64} << 20);
    const int rows = static_cast<int>(prompt.size());
    Decoder decoder(model(), kernels, pool, rows, rows);
    SequenceCache cache(pages);
    EXPECT_TRUE(cache.reserve(rows));
    BatchEntry entry{.cache = &cache, .tokens = prompt, .logit_rows = rows};
    const std::span<const float> logits = decoder.forward({&entry, 1});
    Sampler sampler(kernels);
    std::vector<SampledToken> tokens;
    for (std::size_t row = 0; row + 1 < prompt.size(); row++) {
      tokens.push_back(sampler.judge(logits.subspan(row * kTinyVocabulary, kTinyVocabulary),
                                     prompt[row + 1], top));
    }
    return Recording::bytes_of(tokens);
  }
};

TEST_P(EnginePromptLogprobs, AreTheDecodersWhateverTheChunks) {
  for (const int length : {1, 2, 31, 32, 33, 34, 64, 65, 150}) {
    Ask ask{.prompt = random_tokens(length, 3), .max_tokens = 3};
    ask.prompt_logprobs = 4;
    const std::string expected = judged(ask.prompt, 4);
    for (const int rows : {512, 5, 1}) {
      HarnessOptions options;
      options.engine.prefill_rows_max = rows;
      Harness harness(model(), options);
      for (int turn = 0; turn < 2; turn++) {  // the second finds a cache that it does not read
        const Recording& reply = harness.run(ask);
        EXPECT_EQ(Recording::bytes_of(reply.prompt()), expected) << length << " " << rows;
        EXPECT_EQ(reply.prompt().size(), static_cast<std::size_t>(length - 1));
        EXPECT_EQ(reply.tokens().size(), 3u);
        EXPECT_EQ(reply.end().usage.cached_tokens, 0);
        if (length > 1) {
          EXPECT_EQ(reply.end().usage.miss, MissReason::disabled);
        }
      }
      // It was published: another one is spared it, and answers the same.
      Ask plain = ask;
      plain.prompt_logprobs = -1;
      const Recording& next = harness.run(plain);
      EXPECT_EQ(next.end().usage.cached_tokens, length > 2 ? length - 1 : 0);
      EXPECT_EQ(next.bytes(), cold(plain));
    }
  }
}

TEST_P(EnginePromptLogprobs, ComeWithoutAReplyToo) {
  Harness harness(model());
  Ask ask{.prompt = random_tokens(70, 8), .max_tokens = 0};
  ask.prompt_logprobs = 0;
  const Recording& reply = harness.run(ask);
  EXPECT_EQ(reply.end().reason, FinishReason::length);
  EXPECT_EQ(Recording::bytes_of(reply.prompt()), judged(ask.prompt, 0));
  EXPECT_TRUE(reply.prompt().front().top.empty());
}

// Somebody of higher rank takes the place in the middle of the prompt: what was told is not told
// again, and what was published is not forwarded again.
TEST_P(EnginePromptLogprobs, GoOnAfterAPreemption) {
  HarnessOptions options;
  options.engine.sequences_max = 1;
  options.engine.prefill_rows_max = 10;
  Harness harness(model(), options);
  std::atomic<bool> is_running = false, is_pushed = false;
  Ask ask{.prompt = random_tokens(150, 9), .max_tokens = 4, .priority = Priority::low};
  ask.prompt_logprobs = 2;
  ask.on_prefill = [&](Position done) {
    if (done >= 20) is_running = true;  // shorter prefixes are not reused
    while (done == 80 && !is_pushed) std::this_thread::yield();
  };
  Recording& reply = harness.start(ask);
  while (!is_running) std::this_thread::yield();
  Recording& pushing =
      harness.start({.prompt = random_tokens(60, 10), .max_tokens = 3, .priority = Priority::high});
  is_pushed = true;
  pushing.wait_for_end();
  reply.wait_for_end();
  EXPECT_EQ(harness.engine().stats().preemptions, 1u);
  EXPECT_EQ(Recording::bytes_of(reply.prompt()), judged(ask.prompt, 2));
  Ask alone = ask;
  EXPECT_EQ(reply.bytes(), cold(alone));
  EXPECT_EQ(reply.end().usage.cached_tokens, 0);
  EXPECT_EQ(harness.engine().stats().forwarded_rows, 150u + 3 + 60 + 2);
}

// Several at once share the rows of logits that a step has.
TEST_P(EnginePromptLogprobs, SeveralAtOnce) {
  Harness harness(model());
  std::vector<Ask> asks;
  std::vector<Recording*> replies;
  for (std::uint32_t i = 0; i < 6; i++) {
    Ask ask{.prompt = random_tokens(40 + 20 * static_cast<int>(i), 11 + i), .max_tokens = 6};
    ask.prompt_logprobs = i % 2 == 0 ? 3 : -1;
    asks.push_back(ask);
  }
  for (const Ask& ask : asks) replies.push_back(&harness.start(ask));
  for (std::size_t i = 0; i < asks.size(); i++) {
    replies[i]->wait_for_end();
    EXPECT_EQ(replies[i]->bytes(), cold(asks[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EnginePromptLogprobs, ::testing::Values("gemma3", "llama"),
                         family_name);

}  // namespace
}  // namespace reprise::testing
