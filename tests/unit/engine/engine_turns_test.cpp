// Who runs when: priorities, tenants, places, time limits, trouble in the middle of a step.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "engine_harness.h"

namespace reprise::testing {
namespace {

class EngineTurns : public TinyFamilies {
 protected:
  // One place; the first request holds it until `release` is set, so that the others queue up.
  struct Queue {
    explicit Queue(const Model& model, HarnessOptions options = one_place())
        : harness(model, options) {
      Ask first{.prompt = random_tokens(20, 999), .max_tokens = 2, .tenant = "first"};
      first.on_token = [this](std::size_t) {
        while (!released) std::this_thread::yield();
        return SequenceSink::Verdict::go_on;
      };
      harness.start(first).wait_for_tokens(1);
    }
    static HarnessOptions one_place() {
      HarnessOptions options;
      options.engine.sequences_max = 1;
      return options;
    }
    // Starts a request that notes its name when it samples its first token.
    Recording& add(const std::string& name, Ask ask) {
      ask.on_token = [this, name](std::size_t tokens) {
        if (tokens == 1) order.push_back(name);
        return SequenceSink::Verdict::go_on;
      };
      return *waiting.emplace_back(&harness.start(ask));
    }
    std::vector<std::string> run() {
      released = true;
      for (Recording* recording : waiting) recording->wait_for_end();
      return order;
    }

    std::atomic<bool> released = false;
    std::vector<std::string> order;  // engine thread until all ended
    std::vector<Recording*> waiting;
    Harness harness;
  };
};

TEST_P(EngineTurns, PriorityDecidesInsideATenantThenArrival) {
  Queue queue(model());
  queue.add("low", {.prompt = random_tokens(30, 1), .max_tokens = 2, .priority = Priority::low});
  queue.add("normal 1", {.prompt = random_tokens(30, 2), .max_tokens = 2});
  queue.add("normal 2", {.prompt = random_tokens(30, 3), .max_tokens = 2});
  queue.add("high", {.prompt = random_tokens(30, 4), .max_tokens = 2, .priority = Priority::high});
  EXPECT_EQ(queue.run(), (std::vector<std::string>{"high", "normal 1", "normal 2", "low"}));
}

TEST_P(EngineTurns, WaitingRaisesPriority) {
  HarnessOptions options = Queue::one_place();
  options.engine.ageing_ms = 1;
  Queue queue(model(), options);
  queue.add("low", {.prompt = random_tokens(30, 1), .max_tokens = 2, .priority = Priority::low});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  queue.add("high", {.prompt = random_tokens(30, 4), .max_tokens = 2, .priority = Priority::high});
  EXPECT_EQ(queue.run(), (std::vector<std::string>{"low", "high"}));
}

TEST_P(EngineTurns, TenantsTakeTurnsHoweverManyRequestsOneHas) {
  Queue queue(model());
  for (int i = 0; i < 4; i++) {
    queue.add("many", {.prompt = random_tokens(30, static_cast<std::uint32_t>(i)),
                       .max_tokens = 2,
                       .tenant = "a"});
  }
  queue.add("few", {.prompt = random_tokens(30, 8), .max_tokens = 2, .tenant = "b"});
  queue.add("few", {.prompt = random_tokens(30, 9), .max_tokens = 2, .tenant = "b"});
  const std::vector<std::string> order = queue.run();
  ASSERT_EQ(order.size(), 6u);
  EXPECT_EQ(std::count(order.begin(), order.begin() + 4, "few"), 2) << "both within two rounds";
}

// All places are held by one tenant's long replies: another one gets its share at once, and the
// replies that gave way end with the same bytes, no token twice.
TEST_P(EngineTurns, ATenantGetsItsPlacesFromOneThatHoldsAll) {
  HarnessOptions options;
  options.engine.sequences_max = 2;
  Harness harness(model(), options);
  std::vector<Ask> asks;
  std::vector<Recording*> replies;
  for (std::uint32_t i = 0; i < 3; i++) {
    asks.push_back({.prompt = random_tokens(40, i), .max_tokens = 400, .tenant = "a"});
    replies.push_back(&harness.start(asks.back()));
  }
  replies[1]->wait_for_tokens(3);
  const Ask other{.prompt = random_tokens(40, 77), .max_tokens = 3, .tenant = "b"};
  Recording& reply = harness.start(other);
  reply.wait_for_end();
  EXPECT_EQ(replies[0]->ends() + replies[1]->ends() + replies[2]->ends(), 0);
  EXPECT_EQ(reply.bytes(), cold(other));
  for (std::size_t i = 0; i < 3; i++) {
    replies[i]->wait_for_end();
    EXPECT_EQ(replies[i]->tokens().size(), 400u);
    EXPECT_EQ(replies[i]->bytes(), cold(asks[i])) << i;
  }
  EXPECT_GE(harness.engine().stats().preemptions, 1u);
}

TEST_P(EngineTurns, AHighOneTakesThePlaceOfALowOne) {
  HarnessOptions options = Queue::one_place();
  options.engine.ageing_ms = 0;
  Harness harness(model(), options);
  const Ask low{.prompt = random_tokens(40, 1), .max_tokens = 300, .priority = Priority::low};
  Recording& low_reply = harness.start(low);
  low_reply.wait_for_tokens(3);
  const Ask high{.prompt = random_tokens(40, 2), .max_tokens = 3, .priority = Priority::high};
  Recording& high_reply = harness.start(high);
  high_reply.wait_for_end();
  EXPECT_EQ(low_reply.ends(), 0);
  low_reply.wait_for_end();
  EXPECT_EQ(low_reply.bytes(), cold(low));
  EXPECT_EQ(harness.engine().stats().preemptions, 1u);
}

// ---- time limits -------------------------------------------------------------------------------

TEST_P(EngineTurns, ARequestPastItsLimitEndsWithItsNumbersAndStaysCached) {
  Harness harness(model());
  Ask slow{.prompt = random_tokens(70, 1), .max_tokens = 500, .timeout_ms = 60};
  slow.on_token = [](std::size_t tokens) {
    if (tokens == 3) std::this_thread::sleep_for(std::chrono::milliseconds(80));
    return SequenceSink::Verdict::go_on;
  };
  const Recording& reply = harness.run(slow);
  EXPECT_EQ(reply.end().reason, FinishReason::timeout);
  ASSERT_TRUE(reply.end().error.has_value());
  EXPECT_NE(reply.end().error->message.find("60 ms"), std::string::npos);
  EXPECT_GE(reply.tokens().size(), 3u);
  EXPECT_EQ(harness.engine().stats().ends_timeout, 1u);
  slow.on_token = {};
  slow.timeout_ms = 0;
  slow.max_tokens = 5;
  EXPECT_EQ(harness.run(slow).end().usage.cached_tokens, 69);
}

TEST_P(EngineTurns, OneThatWaitsTooLongNeverRuns) {
  Queue queue(model());
  Recording& late = queue.harness.start({.prompt = random_tokens(30, 1), .timeout_ms = 1});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  queue.run();
  late.wait_for_end();
  EXPECT_EQ(late.end().reason, FinishReason::timeout);
  EXPECT_TRUE(late.tokens().empty());
}

// ---- trouble -----------------------------------------------------------------------------------

TEST_P(EngineTurns, TroubleInAStepEndsEveryRequestOnceAndTheEngineSaysWhy) {
  HarnessOptions options;
  options.engine.sequences_max = 2;
  std::atomic<int> steps = 0;
  options.engine.before_forward = [&] {
    if (++steps == 5) static_cast<void>(std::stoi("no number"));  // the library throws
  };
  Harness harness(model(), options);
  std::vector<Recording*> replies;
  for (std::uint32_t i = 0; i < 4; i++) {
    replies.push_back(&harness.start({.prompt = random_tokens(40, i), .max_tokens = 300}));
  }
  for (Recording* reply : replies) {
    reply->wait_for_end();
    EXPECT_EQ(reply->ends(), 1);
    EXPECT_EQ(reply->end().reason, FinishReason::error);
    EXPECT_NE(reply->end().error->message.find("stoi"), std::string::npos);
  }
  EXPECT_NE(harness.engine().stats().failure.find("stoi"), std::string::npos);
  Recording unheard;
  const Result<RequestId> refused = harness.submit({.prompt = random_tokens(5, 1)}, unheard);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::io);
  EXPECT_NE(refused.error().message.find("stoi"), std::string::npos);
  EXPECT_EQ(harness.engine().stats().sequence_pages_bytes, 0u);
}

// ---- the prompt cache's view -------------------------------------------------------------------

TEST_P(EngineTurns, AReplyInOtherTokensResumesWhereTheyAgreeAndIsCounted) {
  Harness harness(model());
  const Ask first{.prompt = random_tokens(50, 1), .max_tokens = 40};
  const std::vector<TokenId> reply = harness.run(first).ids();
  // The client's tokeniser split the reply differently from its 21st token on.
  std::vector<TokenId> again(reply.begin(), reply.begin() + 20);
  again.push_back(reply[20] == 5 ? 6 : 5);
  Ask next{.prompt = joined(joined(first.prompt, again), random_tokens(10, 2))};
  std::vector<TokenId> seen_cached, seen_prompt;
  next.is_same_text = [&](std::span<const TokenId> cached, std::span<const TokenId> prompt) {
    seen_cached.assign(cached.begin(), cached.end());
    seen_prompt.assign(prompt.begin(), prompt.end());
    return true;
  };
  const Recording& answer = harness.run(next);
  EXPECT_EQ(answer.end().usage.cached_tokens, 70);
  EXPECT_EQ(answer.end().usage.retokenised_at, 70);
  EXPECT_EQ(answer.bytes(), cold(next));
  EXPECT_EQ(seen_cached, std::vector<TokenId>(reply.begin() + 20, reply.end() - 1));
  EXPECT_EQ(seen_prompt, std::vector<TokenId>(next.prompt.begin() + 70, next.prompt.end()));
  EXPECT_EQ(harness.engine().cache_stats({}).retokenised, 1u);
  EXPECT_EQ(harness.engine().cache_stats({}).last_retokenised_at, 70);

  // An edit of the user's own message is none, and nobody is asked.
  Ask edited = next;
  edited.prompt.resize(30);
  edited.prompt = joined(edited.prompt, random_tokens(10, 3));
  edited.is_same_text = [](auto, auto) {
    ADD_FAILURE() << "asked inside a prompt";
    return true;
  };
  EXPECT_EQ(harness.run(edited).end().usage.retokenised_at, std::nullopt);
  EXPECT_EQ(harness.engine().cache_stats({}).retokenised, 1u);
}

TEST_P(EngineTurns, TheTreeShowsWhatIsThereWithoutTokens) {
  Harness harness(model());
  harness.run({.prompt = random_tokens(100, 1), .max_tokens = 5, .turn_ends = {30, 60}});
  std::vector<TokenId> branch = random_tokens(100, 1);
  branch.resize(70);
  harness.run({.prompt = joined(branch, random_tokens(90, 2)), .max_tokens = 5});
  const std::vector<CacheRun> tree = harness.engine().cache_tree({}, 100);
  ASSERT_GE(tree.size(), 3u);
  EXPECT_EQ(tree[0].parent, CacheRun::kNoParent);
  EXPECT_EQ(tree[0].start, 0);
  std::size_t bytes = 0, turn_ends = 0;
  for (std::size_t i = 0; i < tree.size(); i++) {
    EXPECT_LT(tree[i].start, tree[i].end);
    if (tree[i].parent != CacheRun::kNoParent) {
      ASSERT_LT(tree[i].parent, i);
      EXPECT_EQ(tree[tree[i].parent].end, tree[i].start);
    }
    bytes += tree[i].bytes;
    for (const auto& [position, kind] : tree[i].marks) turn_ends += kind == MarkKind::turn_end;
    EXPECT_EQ(tree[i].paths, 0);
  }
  EXPECT_EQ(bytes, harness.engine().cache_stats({}).bytes);
  EXPECT_EQ(turn_ends, 2u);
  EXPECT_TRUE(harness.engine().cache_tree({"", "another"}, 100).empty());
}

TEST_P(EngineTurns, WhatIsPinnedOutlivesAFloodOfOthers) {
  const KvLayout layout = model().config().kv_layout(kernels::KvType::f16);
  HarnessOptions options;
  options.engine.kv_budget_bytes = layout.sequence_bytes(600) * 2;
  options.engine.cache.pinned_bytes_per_tenant = layout.sequence_bytes(600);
  options.engine.cache.pinned_bytes_max = layout.sequence_bytes(600);
  for (const bool pins : {true, false}) {
    Harness harness(model(), options);
    const Ask kept{.prompt = random_tokens(150, 1), .pin_ms = pins ? 600'000 : 0};
    const Recording& first = harness.run(kept);
    EXPECT_EQ(first.end().usage.is_pinned, pins);
    for (std::uint32_t i = 0; i < 20; i++) {
      harness.run({.prompt = random_tokens(300, 10 + i), .max_tokens = 2});
    }
    const Ask next{.prompt = joined(joined(kept.prompt, first.ids()), random_tokens(5, 2))};
    const Recording& answer = harness.run(next);
    EXPECT_EQ(answer.end().usage.cached_tokens, pins ? 161 : 0);
    EXPECT_EQ(answer.bytes(), cold(next));
  }
}

// Three of one prompt: the first computes, the others wait for its blocks. When it is cancelled the
// next goes on where it stood, without anybody having been told to.
TEST_P(EngineTurns, WhoeverIsLeftComputesTheSharedPrompt) {
  HarnessOptions options;
  options.engine.prefill_rows_max = 10;
  Harness harness(model(), options);
  const std::vector<TokenId> prompt = random_tokens(300, 1);
  std::atomic<bool> all_there = false;
  std::atomic<std::uint64_t> first_id = 0;
  Ask owner{.prompt = prompt, .max_tokens = 3};
  owner.on_prefill = [&](Position done) {
    while (done == 10 && !all_there) std::this_thread::yield();
    if (done == 150) harness.engine().cancel(RequestId{first_id.load()});
  };
  Recording& first = harness.start(owner);
  first_id = static_cast<std::uint64_t>(harness.last_id());
  const Ask other{.prompt = prompt, .max_tokens = 3};
  Recording& second = harness.start(other);
  Recording& third = harness.start(other);
  all_there = true;
  for (Recording* recording : {&first, &second, &third}) recording->wait_for_end();
  EXPECT_EQ(first.end().reason, FinishReason::cancelled);
  EXPECT_EQ(second.bytes(), cold(other));
  EXPECT_EQ(third.bytes(), cold(other));
  // The prompt once, the block that each began to share, and the decoded tokens.
  EXPECT_LE(harness.engine().stats().forwarded_rows, 300u + 2 * 64 + 4);
}

INSTANTIATE_TEST_SUITE_P(Families, EngineTurns, ::testing::Values("gemma3", "llama"), family_name);

}  // namespace
}  // namespace reprise::testing
