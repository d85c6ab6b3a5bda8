// Grammars beside the forward pass: what they forbid never comes, they end replies, and their
// trouble is their request's alone.
#include <string>

#include "engine_harness.h"
#include "fake_grammar.h"
#include "known_replies.h"

namespace reprise::testing {
namespace {

class EngineConstraint : public TinyFamilies {
 protected:
  static Ask constrained(int length, std::uint32_t seed, FakeGrammarOptions options) {
    Ask ask{.prompt = random_tokens(length, seed), .max_tokens = 40, .sampling = {.seed = seed}};
    ask.stop_ids = options.stop_ids;
    ask.constraint = [options] { return std::make_unique<FakeGrammar>(options); };
    return ask;
  }
};

TEST_P(EngineConstraint, ACompleteReplyStopsWithItsLastToken) {
  Harness harness(model());
  const Recording& reply = harness.run(constrained(80, 1, {.length = 7}));
  EXPECT_EQ(reply.end().reason, FinishReason::stop);
  EXPECT_EQ(reply.tokens().size(), 7u);
  EXPECT_EQ(reply.end().usage.completion_tokens, 7);
  // Complete and out of tokens at once: it is complete.
  Ask ask = constrained(80, 1, {.length = 7});
  ask.max_tokens = 7;
  EXPECT_EQ(harness.run(ask).end().reason, FinishReason::stop);
  ask.max_tokens = 6;
  EXPECT_EQ(harness.run(ask).end().reason, FinishReason::length);
}

TEST_P(EngineConstraint, WhereNothingMayFollowTheReplyStops) {
  Harness harness(model());
  for (const int length : {0, 1, 7}) {
    const Recording& reply =
        harness.run(constrained(80, 1, {.length = length, .is_empty_at_length = true}));
    EXPECT_EQ(reply.end().reason, FinishReason::stop);
    EXPECT_FALSE(reply.end().error.has_value());
    EXPECT_EQ(reply.end().usage.completion_tokens, length);
  }
}

TEST_P(EngineConstraint, StopTokensOfTheMaskEndTheReply) {
  Harness harness(model());
  int stopped = 0;
  for (std::uint32_t seed = 1; seed < 12; seed++) {
    Ask ask = constrained(70, seed, {.third = 60, .stop_ids = random_tokens(40, seed)});
    ask.sampling.temperature = 3;
    const Recording& reply = harness.run(ask);
    if (reply.end().reason == FinishReason::stop) stopped++;
    const auto tokens = static_cast<std::size_t>(reply.end().usage.completion_tokens);
    EXPECT_EQ(reply.tokens().size() + (reply.end().reason == FinishReason::stop), tokens);
  }
  EXPECT_GT(stopped, 3);
}

TEST_P(EngineConstraint, ErrorsEndTheirRequestAndNoOther) {
  Harness harness(model());
  const Ask fine = constrained(90, 2, {.length = 20});
  const std::string expected = cold(fine);
  Recording& first = harness.start(fine);
  Recording& mask = harness.start(constrained(90, 3, {.fails_in_mask_at = 4}));
  Recording& at_once = harness.start(constrained(90, 4, {.fails_in_mask_at = 0}));
  Recording& advance = harness.start(constrained(90, 5, {.fails_in_advance_at = 2}));
  for (Recording* each : {&first, &mask, &at_once, &advance}) each->wait_for_end();
  EXPECT_EQ(first.bytes(), expected);
  EXPECT_EQ(first.end().reason, FinishReason::stop);
  const auto expect_error = [](const Recording& recording, const char* message, std::size_t told) {
    EXPECT_EQ(recording.end().reason, FinishReason::error);
    ASSERT_TRUE(recording.end().error.has_value());
    EXPECT_EQ(recording.end().error->message, message);
    EXPECT_EQ(recording.tokens().size(), told);
  };
  expect_error(mask, "the mask is too dear", 4);
  expect_error(at_once, "the mask is too dear", 0);
  expect_error(advance, "the token is wrong", 3);
  EXPECT_EQ(harness.engine().stats().ends_error, 3u);
}

// Masks of drafted rows are computed row by row; errors there end the request where they would have
// without drafts.
TEST_P(EngineConstraint, DraftsChangeNothing) {
  std::uint64_t accepted = 0;
  for (std::uint32_t seed = 1; seed <= 8; seed++) {
    const FakeGrammarOptions kinds[] = {{.seed = seed, .length = 30},
                                        {.seed = seed, .third = 20, .stop_ids = {5, 6, 7, 8}},
                                        {.seed = seed, .fails_in_mask_at = 17},
                                        {.seed = seed, .fails_in_advance_at = 17},
                                        {.length = 23, .is_empty_at_length = true}};
    for (const FakeGrammarOptions& kind : kinds) {
      Ask ask = constrained(70, seed, kind);
      ask.sampling.temperature = seed % 2 == 0 ? 0 : 1;
      HarnessOptions options;
      options.engine.speculation = Speculation::off;
      Harness plain(model(), options);
      const Recording& expected = plain.run(ask);
      KnownReplies known;
      known.add(joined(ask.prompt, expected.ids()));
      options.engine.speculation = Speculation::ngram;
      options.engine.draft = [&](std::span<const TokenId> tokens, std::size_t most) {
        return known.draft(tokens, most);
      };
      Harness drafted(model(), options);
      const Recording& reply = drafted.run(ask);
      EXPECT_EQ(reply.bytes(), expected.bytes());
      EXPECT_EQ(reply.end().reason, expected.end().reason);
      EXPECT_EQ(reply.end().usage.completion_tokens, expected.end().usage.completion_tokens);
      accepted += drafted.engine().stats().accepted_tokens;
    }
  }
  EXPECT_GT(accepted, 200u);
}

// Trouble in the pass while masks are computed: all end, nothing hangs.
TEST_P(EngineConstraint, TroubleInThePassWaitsForTheMasks) {
  HarnessOptions options;
  int passes = 0;
  options.engine.before_forward = [&] {
    if (++passes == 4) static_cast<void>(std::stoi("no number"));  // the library throws
  };
  Harness harness(model(), options);
  const Recording& reply = harness.run(constrained(60, 1, {}));
  EXPECT_EQ(reply.end().reason, FinishReason::error);
  EXPECT_LT(reply.tokens().size(), 4u);
}

// Streams wait for all of a step, so all of it counts where steps are planned: also what sampling
// adds to the forward pass.
TEST_P(EngineConstraint, StepsArePlannedByAllTheirTime) {
  Harness harness(model());
  Ask ask = constrained(64, 1, {.mask_ms = 100});
  ask.max_tokens = 1;
  harness.run(ask);
  EXPECT_LE(harness.engine().stats().prefill_rows_per_second, 64 / 0.1);
}

INSTANTIATE_TEST_SUITE_P(Families, EngineConstraint, ::testing::Values("gemma3", "llama"),
                         family_name);

}  // namespace
}  // namespace reprise::testing
