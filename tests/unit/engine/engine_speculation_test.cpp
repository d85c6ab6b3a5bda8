// Speculation is exact: whatever is drafted, right, wrong or right up to a point, a reply, its
// numbers and what it leaves in the cache are those of plain decoding, to the byte.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <thread>

#include <fmt/core.h>

#include "engine_harness.h"
#include "support/runner.h"
#include "support/tiny_family.h"

namespace reprise::testing {
namespace {

enum class Kind { right, wrong, partly };
constexpr Kind kKinds[] = {Kind::right, Kind::wrong, Kind::partly};

// Knows how sequences go on, and says so, or not.
class Prophet {
 public:
  Prophet(Kind kind, int vocabulary) : kind_(kind), vocabulary_(vocabulary) {}

  void add(const std::vector<TokenId>& prompt, const std::vector<TokenId>& reply) {
    known_.push_back(joined(prompt, reply));
  }

  std::vector<TokenId> operator()(std::span<const TokenId> tokens, std::size_t most) const {
    for (const std::vector<TokenId>& known : known_) {
      if (known.size() <= tokens.size()) continue;
      if (!std::equal(tokens.begin(), tokens.end(), known.begin())) continue;
      const std::size_t count = std::min(most, known.size() - tokens.size());
      const auto begin = known.begin() + static_cast<std::ptrdiff_t>(tokens.size());
      std::vector<TokenId> draft(begin, begin + static_cast<std::ptrdiff_t>(count));
      const std::size_t dice = tokens.size() * 2654435761u >> 7;
      const std::size_t spoilt = kind_ == Kind::wrong ? 0 : dice % (draft.size() + 1);
      if (kind_ != Kind::right && spoilt < draft.size()) {
        draft[spoilt] = (draft[spoilt] + 1) % vocabulary_;
      }
      return draft;
    }
    return {};
  }

 private:
  Kind kind_;
  int vocabulary_;
  std::vector<std::vector<TokenId>> known_;
};

std::string describe(const Recording& reply) {
  const SequenceEnd& end = reply.end();
  const Usage& usage = end.usage;
  return fmt::format("{} {} tokens, prompt {} cached {} completion {} miss {} diverged {} {} {}",
                     static_cast<int>(end.reason), reply.tokens().size(), usage.prompt_tokens,
                     usage.cached_tokens, usage.completion_tokens,
                     usage.miss ? static_cast<int>(*usage.miss) : -1, usage.diverged_at,
                     end.error ? end.error->message : "", reply.bytes());
}

// Everything but times, in an order that does not depend on them.
std::string describe_cache(Engine& engine) {
  std::vector<std::string> lines;
  for (const CacheRun& run : engine.cache_tree({}, 1000)) {
    std::string line = fmt::format("{:x} {}-{} {} bytes {} hits:", run.hash, run.start, run.end,
                                   run.bytes, run.hits);
    for (const auto& [at, kind] : run.marks)
      line += fmt::format(" {}@{}", mark_kind_name(kind), at);
    for (const std::size_t pages : run.pages) line += fmt::format(" {} pages", pages);
    lines.push_back(line + "\n");
  }
  std::ranges::sort(lines);
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

class EngineSpeculation : public TinyFamilies {
 protected:
  static const Model& loaded(const std::string& family) {
    static ThreadPool pool(1);
    static std::map<std::string, std::unique_ptr<Model>> models;
    std::unique_ptr<Model>& model = models[family];
    if (!model) model = load_family({family, "hf"}, pool);
    return *model;
  }
  const Model& model() const {
    const std::string family = GetParam();
    return family == "gemma3" || family == "llama" ? family_model(family) : loaded(family);
  }
  int vocabulary() const { return model().config().vocabulary; }

  std::vector<TokenId> tokens(int length, std::uint32_t seed) const {
    std::vector<TokenId> tokens = random_tokens(length, seed);
    for (TokenId& token : tokens) token %= vocabulary();
    return tokens;
  }

  // What a sequence that runs alone to this length needs at most.
  std::size_t bytes_alone(Position length) const {
    const KvLayout layout = model().config().kv_layout(kernels::KvType::f16);
    std::size_t bytes = layout.sequence_bytes(length);
    for (const SpanGroup& group : layout.groups) bytes += group.page_bytes();
    return bytes;
  }

  static HarnessOptions plain() {
    HarnessOptions options;
    options.engine.speculation = Speculation::off;
    return options;
  }
  static HarnessOptions drafting(const Prophet& prophet, HarnessOptions options = {}) {
    options.engine.speculation = Speculation::ngram;
    options.engine.draft = prophet;
    return options;
  }

  // Runs the asks one after another in two engines: what they say and leave must be the same.
  // Returns the drafting engine's counters, having compared those that must be equal.
  EngineStats expect_same(const std::vector<Ask>& asks, Kind kind, HarnessOptions base = plain()) {
    Prophet prophet(kind, vocabulary());
    Harness expected(model(), base);
    std::vector<std::string> replies;
    for (const Ask& ask : asks) {
      const Recording& reply = expected.run(ask);
      replies.push_back(describe(reply));
      // Beyond the end: what ended it, then anything.
      prophet.add(ask.prompt, joined(joined(reply.ids(), ask.stop_ids), tokens(20, 999)));
    }
    Harness harness(model(), drafting(prophet, base));
    for (std::size_t i = 0; i < asks.size(); i++) {
      EXPECT_EQ(describe(harness.run(asks[i])), replies[i]) << i << " " << static_cast<int>(kind);
    }
    EXPECT_EQ(describe_cache(harness.engine()), describe_cache(expected.engine()));
    harness.engine().cache_stats({});  // after this the last step's counters are published
    const EngineStats a = harness.engine().stats();
    const EngineStats b = expected.engine().stats();
    EXPECT_EQ(a.completion_tokens, b.completion_tokens);
    EXPECT_EQ(a.forwarded_rows, b.forwarded_rows);
    EXPECT_EQ(a.kv_used_bytes, b.kv_used_bytes);
    EXPECT_EQ(a.preemptions, b.preemptions);
    EXPECT_EQ(a.steps + a.accepted_tokens, b.steps);
    EXPECT_LE(a.accepted_tokens, a.drafted_tokens);
    return a;
  }

  // A conversation of `turns`, as plain decoding answers it.
  std::vector<Ask> conversation(Ask first, int turns) {
    Harness harness(model(), plain());
    std::vector<Ask> asks = {std::move(first)};
    while (static_cast<int>(asks.size()) < turns) {
      Ask next = asks.back();
      const std::vector<TokenId> reply = harness.run(next).ids();
      next.prompt =
          joined(joined(next.prompt, reply), tokens(9, static_cast<std::uint32_t>(asks.size())));
      asks.push_back(next);
    }
    return asks;
  }
};

TEST_P(EngineSpeculation, ConversationsAreThoseOfPlainDecoding) {
  const SamplingParams samplings[] = {
      {.temperature = 0}, {.seed = 3}, {.temperature = 0.7, .top_k = 40, .top_p = 0.9, .seed = 4}};
  for (const SamplingParams& sampling : samplings) {
    const std::vector<Ask> asks = conversation(
        {.prompt = tokens(100, 1), .max_tokens = 45, .sampling = sampling, .history_boundary = 90},
        3);
    for (const Kind kind : kKinds) {
      const EngineStats stats = expect_same(asks, kind);
      EXPECT_GT(stats.drafted_tokens, 0u);
      if (kind == Kind::right) {
        EXPECT_EQ(stats.accepted_tokens, stats.drafted_tokens);
        EXPECT_GT(stats.accepted_tokens, 3u * 38);
      } else if (kind == Kind::wrong) {
        EXPECT_EQ(stats.accepted_tokens, 0u);
      } else {
        EXPECT_GT(stats.accepted_tokens, 0u);
        EXPECT_LT(stats.accepted_tokens, stats.drafted_tokens);
      }
    }
  }
}

// Rows beyond the sequence's end cross page, window and chunk edges at every phase, and go.
TEST_P(EngineSpeculation, EdgesInsideADraft) {
  for (int length = 45; length <= 66; length += 3) {
    const std::vector<Ask> asks =
        conversation({.prompt = tokens(length, 2), .max_tokens = 25, .sampling = {.seed = 5}}, 2);
    for (const Kind kind : {Kind::wrong, Kind::partly}) expect_same(asks, kind);
  }
}

TEST_P(EngineSpeculation, TheMaterialisedFormToo) {
  HarnessOptions options = plain();
  options.engine.cache.store = CacheStore::materialised;
  options.engine.kv_type = kernels::KvType::f32;
  const std::vector<Ask> asks = conversation({.prompt = tokens(70, 3), .max_tokens = 70}, 3);
  for (const Kind kind : kKinds) expect_same(asks, kind, options);
}

// Each way to end, at every place of an accepted run; then a turn that goes on from what was left.
TEST_P(EngineSpeculation, EndsInsideAnAcceptedRun) {
  const Ask whole{.prompt = tokens(60, 6), .max_tokens = 24, .sampling = {.seed = 6}};
  const std::vector<TokenId> reply = Harness(model(), plain()).run(whole).ids();
  for (std::size_t at = 1; at <= 20; at++) {
    std::vector<Ask> ends(4, whole);
    ends[0].max_tokens = static_cast<Position>(at);
    ends[1].stop_ids = {reply[at]};
    const auto verdict_at = [at](SequenceSink::Verdict verdict) {
      return
          [=](std::size_t count) { return count == at ? verdict : SequenceSink::Verdict::go_on; };
    };
    ends[2].on_token = verdict_at(SequenceSink::Verdict::stop);
    ends[3].on_token = verdict_at(SequenceSink::Verdict::cancel);
    for (const Ask& end : ends) {
      const std::vector<TokenId> ids = Harness(model(), plain()).run(end).ids();
      const Ask next{.prompt = joined(joined(end.prompt, ids), tokens(12, 7))};
      expect_same({end, next}, Kind::right);
      if (at % 5 == 0) expect_same({end, next}, Kind::partly);
    }
  }
}

TEST_P(EngineSpeculation, ARunEndsWhereTheTimeIsOver) {
  Ask ask{.prompt = tokens(60, 8), .max_tokens = 60};
  Prophet prophet(Kind::right, vocabulary());
  prophet.add(ask.prompt, Harness(model(), plain()).run(ask).ids());
  Harness harness(model(), drafting(prophet));
  ask.timeout_ms = 300;
  ask.on_token = [](std::size_t count) {
    if (count == 3) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    return SequenceSink::Verdict::go_on;
  };
  const Recording& reply = harness.run(ask);
  EXPECT_EQ(reply.end().reason, FinishReason::timeout);
  EXPECT_LE(reply.tokens().size(), 3u);
}

// Sequences with right, wrong and no drafts in one batch, beside others that prefill.
TEST_P(EngineSpeculation, ManyAtOnceEqualAlone) {
  std::vector<Ask> asks;
  std::vector<std::string> expected;
  Prophet prophets[] = {
      {Kind::right, vocabulary()}, {Kind::wrong, vocabulary()}, {Kind::partly, vocabulary()}};
  for (std::uint32_t i = 0; i < 8; i++) {
    asks.push_back({.prompt = tokens(40 + 17 * static_cast<int>(i), i),
                    .max_tokens = 40,
                    .sampling = {.temperature = i % 3 == 0 ? 0.0 : 1.0, .seed = i}});
    Harness alone(model(), plain().without_cache());
    const Recording& reply = alone.run(asks.back());
    expected.push_back(reply.bytes());
    if (i % 4 < 3) prophets[i % 4].add(asks.back().prompt, reply.ids());
  }
  for (const int prefill_rows_max : {512, 7}) {
    HarnessOptions options;
    options.threads = 2;
    options.engine.prefill_rows_max = prefill_rows_max;
    options.engine.draft = [&](std::span<const TokenId> known, std::size_t most) {
      for (const Prophet& prophet : prophets) {
        std::vector<TokenId> draft = prophet(known, std::min(most, known.size() % 7));
        if (!draft.empty()) return draft;
      }
      return std::vector<TokenId>();
    };
    Harness harness(model(), options);
    std::vector<Recording*> replies;
    for (const Ask& ask : asks) replies.push_back(&harness.start(ask));
    for (std::size_t i = 0; i < asks.size(); i++) {
      replies[i]->wait_for_end();
      EXPECT_EQ(replies[i]->bytes(), expected[i]) << i;
      EXPECT_EQ(replies[i]->end().reason, FinishReason::length);
    }
    harness.engine().cache_stats({});
    EXPECT_GT(harness.engine().stats().accepted_tokens, 20u);
    EXPECT_GT(harness.engine().stats().drafted_tokens, harness.engine().stats().accepted_tokens);
  }
}

// A budget for two prompts and one and a half replies: preempted in the middle of drafts, resumed
// with the same bytes.
TEST_P(EngineSpeculation, PreemptedSequencesDraftOn) {
  for (const bool with_cache : {true, false}) {
    Prophet prophet(Kind::partly, vocabulary());
    std::vector<Ask> asks;
    std::vector<std::string> expected;
    for (std::uint32_t i = 0; i < 5; i++) {
      asks.push_back({.prompt = tokens(100, i), .max_tokens = 150, .sampling = {.seed = i}});
      Harness alone(model(), plain().without_cache());
      const Recording& reply = alone.run(asks.back());
      expected.push_back(reply.bytes());
      prophet.add(asks.back().prompt, reply.ids());
    }
    HarnessOptions options = drafting(prophet);
    options.engine.kv_budget_bytes =
        2 * model().config().kv_layout(kernels::KvType::f16).sequence_bytes(170);
    options.engine.cache.enabled = with_cache;
    Harness harness(model(), options);
    std::vector<Recording*> replies;
    for (const Ask& ask : asks) replies.push_back(&harness.start(ask));
    for (std::size_t i = 0; i < asks.size(); i++) {
      replies[i]->wait_for_end();
      EXPECT_EQ(replies[i]->end().reason, FinishReason::length);
      EXPECT_EQ(replies[i]->bytes(), expected[i]) << i;
    }
    harness.engine().cache_stats({});
    const EngineStats stats = harness.engine().stats();
    EXPECT_GT(stats.preemptions, 0u);
    EXPECT_GT(stats.accepted_tokens, 0u);
    EXPECT_EQ(stats.kv_used_bytes, stats.cache.bytes);
  }
}

// Drafts take room that is free and nothing else: the same is evicted and dropped without them.
TEST_P(EngineSpeculation, DraftsPushNothingOut) {
  HarnessOptions options = plain();
  options.engine.kv_budget_bytes = bytes_alone(250);
  std::vector<Ask> asks;
  for (std::uint32_t i = 0; i < 8; i++) {
    asks.push_back({.prompt = tokens(50 + 9 * static_cast<int>(i % 4), i), .max_tokens = 90});
  }
  for (const Kind kind : kKinds) {
    Prophet prophet(kind, vocabulary());
    Harness expected(model(), options);
    for (const Ask& ask : asks) prophet.add(ask.prompt, expected.run(ask).ids());
    Harness harness(model(), drafting(prophet, options));
    for (const Ask& ask : asks) harness.run(ask);
    EXPECT_EQ(describe_cache(harness.engine()), describe_cache(expected.engine()));
    const PromptCacheStats a = harness.engine().cache_stats({});
    const PromptCacheStats b = expected.engine().cache_stats({});
    EXPECT_GT(b.evictions_lru + b.window_pages_dropped, 0u);
    EXPECT_EQ(a.evictions_lru, b.evictions_lru);
    EXPECT_EQ(a.window_pages_dropped, b.window_pages_dropped);
    EXPECT_EQ(harness.engine().stats().preemptions, 0u);
  }
  // The longest that fits at all: no page is left for a draft at its end.
  const Position fits = Harness(model(), options).engine().fitting_length();
  ASSERT_LT(fits, options.engine.context_length);
  const Ask longest{.prompt = tokens(60, 9), .max_tokens = fits - 60 + 1};
  for (const Kind kind : kKinds) expect_same({longest}, kind, options);
}

// The engine's own guesses: greedy replies of tiny models run in circles.
TEST_P(EngineSpeculation, ItsOwnDraftsComeTrueAndChangeNothing) {
  std::uint64_t accepted = 0;
  for (std::uint32_t seed = 0; seed < 4; seed++) {
    std::vector<TokenId> phrase = tokens(12, seed);
    for (int i = 0; i < 3; i++) phrase = joined(phrase, phrase);
    const Ask ask{.prompt = phrase, .max_tokens = 300, .sampling = {.temperature = 0}};
    Harness expected(model(), plain());
    Harness harness(model());
    EXPECT_EQ(describe(harness.run(ask)), describe(expected.run(ask)));
    EXPECT_EQ(describe_cache(harness.engine()), describe_cache(expected.engine()));
    harness.engine().cache_stats({});
    const EngineStats stats = harness.engine().stats();
    EXPECT_EQ(stats.forwarded_rows, expected.engine().stats().forwarded_rows);
    EXPECT_LE(stats.accepted_tokens, stats.drafted_tokens);
    accepted += stats.accepted_tokens;
    EXPECT_EQ(expected.engine().stats().drafted_tokens, 0u);
  }
  EXPECT_GT(accepted, 0u);
}

INSTANTIATE_TEST_SUITE_P(Families, EngineSpeculation,
                         ::testing::Values("gemma3", "llama", "gemma4", "llama4_scout",
                                           "muse_glimmer"),
                         family_name);

// A token whose scaled embedding overflows, as in EngineErrors: its keys and values are not finite.
class SpeculationErrors : public ::testing::Test {
 protected:
  static constexpr TokenId kPoison = 300;

  void SetUp() override {
    const TinyModelOptions shape{.family = "gemma3"};
    bytes_ = tiny_gguf(shape);
    const GgufFile clean = GgufFile::parse(bytes_).value();
    const auto row_bytes = static_cast<std::size_t>(shape.hidden) * sizeof(float);
    const float large = 1e38f, zero = 0;
    std::memcpy(
        bytes_.data() + clean.find_tensor("token_embd.weight")->offset + kPoison * row_bytes,
        &large, sizeof(large));
    std::memcpy(bytes_.data() + clean.find_tensor("output_norm.weight")->offset, &zero,
                sizeof(zero));
    Result<Model> model = load_gguf(bytes_, pool_);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_.emplace(std::move(*model));
  }
  static std::vector<TokenId> clean_tokens(int length, std::uint32_t seed) {
    std::vector<TokenId> tokens = random_tokens(length, seed);
    std::ranges::replace(tokens, kPoison, kPoison - 1);
    return tokens;
  }
  static HarnessOptions plain() {
    HarnessOptions options;
    options.engine.speculation = Speculation::off;
    return options;
  }

  ThreadPool pool_{1};
  std::vector<std::byte> bytes_;
  std::optional<Model> model_;
};

TEST_F(SpeculationErrors, TheDecoderSaysUpToWhichRowAnEntryIsFinite) {
  Runner runner(*model_, RunnerOptions{});
  SequenceCache first = runner.sequence(), second = runner.sequence();
  std::vector<TokenId> tokens = clean_tokens(9, 1);
  const std::vector<TokenId> fine = clean_tokens(9, 2);
  tokens[5] = kPoison;
  for (SequenceCache* cache : {&first, &second}) ASSERT_TRUE(cache->reserve(9));
  for (const int logit_rows : {0, 1, 9}) {
    BatchEntry entries[] = {{.cache = &first, .tokens = tokens, .logit_rows = logit_rows},
                            {.cache = &second, .tokens = fine, .logit_rows = logit_rows}};
    const std::span<const float> logits = runner.decoder.forward(entries);
    EXPECT_EQ(entries[0].finite_rows, 5);
    EXPECT_FALSE(entries[0].is_finite());
    EXPECT_EQ(entries[1].finite_rows, 9);
    EXPECT_TRUE(entries[1].is_finite());
    if (logit_rows < 9) continue;
    // Rows before it are those of a run without it: what is hidden from them does not reach them.
    const std::vector<float> poisoned(logits.begin(),
                                      logits.begin() + 5 * static_cast<std::ptrdiff_t>(320));
    SequenceCache clean = runner.sequence();
    EXPECT_TRUE(same_bits(poisoned, runner.feed(clean, std::span(tokens).first(5))));
  }
}

TEST_F(SpeculationErrors, ARejectedRowThatIsNotFiniteIsNothing) {
  const Ask ask{.prompt = clean_tokens(50, 1), .max_tokens = 40, .sampling = {.temperature = 0}};
  Harness expected(*model_, plain());
  const Recording& reply = expected.run(ask);
  ASSERT_EQ(reply.end().reason, FinishReason::length);
  const std::vector<TokenId> known = joined(ask.prompt, reply.ids());
  HarnessOptions options;
  options.engine.draft = [&](std::span<const TokenId> tokens, std::size_t most) {
    std::vector<TokenId> draft;
    while (tokens.size() + draft.size() < known.size() && draft.size() < tokens.size() % 4 &&
           draft.size() < most) {
      draft.push_back(known[tokens.size() + draft.size()]);
    }
    while (draft.size() < std::min<std::size_t>(most, 6)) draft.push_back(kPoison);
    return draft;
  };
  Harness harness(*model_, options);
  EXPECT_EQ(describe(harness.run(ask)), describe(reply));
  EXPECT_EQ(describe_cache(harness.engine()), describe_cache(expected.engine()));
  EXPECT_GT(harness.engine().stats().accepted_tokens, 0u);
  const Ask next{.prompt = joined(known, clean_tokens(10, 2))};
  EXPECT_EQ(describe(harness.run(next)), describe(expected.run(next)));
}

TEST_F(SpeculationErrors, AnAcceptedRowThatIsNotFiniteEndsTheReplyAsPlainDecodingDoes) {
  int met = 0;
  for (std::uint64_t seed = 0; seed < 60 && met < 3; seed++) {
    const Ask ask{.prompt = clean_tokens(52, 3),
                  .max_tokens = 40,
                  .sampling = {.temperature = 3, .seed = seed}};
    Harness expected(*model_, plain());
    const Recording& reply = expected.run(ask);
    if (reply.end().reason != FinishReason::error || reply.tokens().size() < 3) continue;
    met++;
    ASSERT_EQ(reply.ids().back(), kPoison);
    Prophet prophet(Kind::right, kTinyVocabulary);
    prophet.add(ask.prompt, joined(reply.ids(), clean_tokens(20, 4)));
    HarnessOptions options;
    options.engine.draft = prophet;
    Harness harness(*model_, options);
    EXPECT_EQ(describe(harness.run(ask)), describe(reply));
    EXPECT_EQ(describe_cache(harness.engine()), describe_cache(expected.engine()));
    EXPECT_GT(harness.engine().stats().accepted_tokens, 0u);
    EXPECT_EQ(harness.engine().stats().ends_error, 1u);
  }
  EXPECT_EQ(met, 3);
}

}  // namespace
}  // namespace reprise::testing
