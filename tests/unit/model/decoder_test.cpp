// The equalities of law L1 on tiny models of every family, form and weight type: however the rows
// of a sequence are cut, batched, computed or restored, logits and live keys and values are the
// same bits.
#include "model/decoder.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "kv/kv_snapshot.h"
#include "support/runner.h"
#include "support/tiny_family.h"

namespace reprise {
namespace {

using kernels::WeightType;
using testing::Runner;
using testing::RunnerOptions;
using testing::same_bits;
using testing::TinyModelOptions;

// What is run: a family in a form of tiny_case.h ("llama4/mlx4", with other bits and groups as
// "llama4/mlx4/8/32"), or a weight type of GGUF in gemma3 or llama ("gemma3/Q4_K").
class DecoderEquality : public ::testing::TestWithParam<std::string> {
 protected:
  // Loaded once per case of the parameter, shared by its tests.
  const Model& model() {
    static std::map<std::string, std::unique_ptr<Model>> models;
    static ThreadPool pool(2);
    std::unique_ptr<Model>& found = models[GetParam()];
    if (found == nullptr) found = load(pool);
    return *found;
  }
  SnapshotWords words() { return model().snapshot_words(); }

 private:
  static std::unique_ptr<Model> load(ThreadPool& pool) {
    std::vector<std::string> parts;
    for (const auto part : std::views::split(GetParam(), '/')) {
      parts.emplace_back(part.begin(), part.end());
    }
    for (int type = 0; type < kernels::kWeightTypes; type++) {
      const kernels::WeightTraits& traits = kernels::weight_traits(static_cast<WeightType>(type));
      if (parts[1] != traits.name) continue;
      TinyModelOptions options;
      options.family = parts[0];
      options.type = static_cast<WeightType>(type);
      if (traits.block_columns == 256) {
        options.hidden = options.feed_forward = 256, options.head_dim = 64;
      }
      return std::move(make_tiny_model(options, pool).model);
    }
    testing::TinyCheckpointOptions files;
    if (parts.size() > 2) files.bits = std::stoi(parts[2]), files.group = std::stoi(parts[3]);
    return load_family({parts[0], parts[1]}, pool, {}, files);
  }
};

// Bytes of the live keys and values, by the snapshot contract.
std::vector<std::byte> live_state(const SequenceCache& cache, const SnapshotWords& words) {
  std::vector<std::byte> bytes;
  const StateSnapshot snapshot = snapshot_sequence(cache, words).value();
  for (const NamedTensor& tensor : snapshot.tensors) {
    bytes.insert(bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  return bytes;
}

TEST_P(DecoderEquality, ChunkedPrefillEqualsWhole) {
  Runner runner(model(), {});
  const auto tokens = testing::random_tokens(300, 7);
  SequenceCache whole = runner.sequence();
  const auto expected = runner.feed(whole, tokens);
  for (const int chunk : {1, 3, 5, 64, 65}) {
    SequenceCache cache = runner.sequence();
    EXPECT_TRUE(same_bits(runner.feed(cache, tokens, chunk), expected)) << "chunk " << chunk;
    EXPECT_EQ(live_state(cache, words()), live_state(whole, words())) << "chunk " << chunk;
  }
}

TEST_P(DecoderEquality, AnyNumberOfThreadsGivesTheSameBits) {
  const auto tokens = testing::random_tokens(290, 8);
  Runner one(model(), {});
  SequenceCache cache = one.sequence();
  auto expected = one.feed(cache, std::span(tokens).first(280));
  const auto decoded = one.feed(cache, std::span(tokens).subspan(280), 1);
  expected.insert(expected.end(), decoded.begin(), decoded.end());
  for (const int threads : {2, 3}) {
    Runner many(model(), {.threads = threads});
    SequenceCache other = many.sequence();
    auto logits = many.feed(other, std::span(tokens).first(280));
    const auto rest = many.feed(other, std::span(tokens).subspan(280), 1);
    logits.insert(logits.end(), rest.begin(), rest.end());
    EXPECT_TRUE(same_bits(logits, expected)) << threads << " threads";
    EXPECT_EQ(live_state(other, words()), live_state(cache, words())) << threads << " threads";
  }
}

TEST_P(DecoderEquality, ABatchEqualsEachAlone) {
  Runner runner(model(), {.threads = 2});
  constexpr int kSequences = 4;
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::vector<float>> expected;
  std::vector<SequenceCache> batched;
  for (int i = 0; i < kSequences; i++) {
    tokens.push_back(testing::random_tokens(30 + 37 * i, 20 + static_cast<std::uint32_t>(i)));
    SequenceCache alone = runner.sequence();
    expected.push_back(runner.feed(alone, tokens.back()));
    batched.push_back(runner.sequence());
  }
  // Rounds of one to five rows each until all are fed: prefill and decode rows mixed.
  std::vector<std::size_t> fed(kSequences);
  std::vector<std::vector<float>> logits(kSequences);
  for (std::size_t round = 0; fed != std::vector<std::size_t>{30, 67, 104, 141}; round++) {
    std::vector<BatchEntry> entries;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < kSequences; i++) {
      const std::size_t rows = std::min((round + i) % 5 + 1, tokens[i].size() - fed[i]);
      if (rows == 0) continue;
      entries.push_back(
          {&batched[i], std::span(tokens[i]).subspan(fed[i], rows), static_cast<int>(rows)});
      owner.push_back(i);
      fed[i] += rows;
    }
    std::span<const float> rows = runner.feed_batch(entries);
    for (std::size_t e = 0; e < entries.size(); e++) {
      const std::size_t count = entries[e].tokens.size() * runner.vocabulary;
      logits[owner[e]].insert(logits[owner[e]].end(), rows.begin(),
                              rows.begin() + static_cast<long>(count));
      rows = rows.subspan(count);
    }
  }
  for (std::size_t i = 0; i < kSequences; i++) EXPECT_TRUE(same_bits(logits[i], expected[i])) << i;
}

TEST_P(DecoderEquality, WantedLogitsDoNotDependOnHowManyAreWanted) {
  Runner runner(model(), {.threads = 2});
  const auto tokens = testing::random_tokens(90, 13);
  SequenceCache whole = runner.sequence();
  const auto expected = runner.feed(whole, tokens);
  for (const int wanted : {0, 1, 2, 7, 89}) {
    SequenceCache first = runner.sequence();
    SequenceCache second = runner.sequence();
    BatchEntry entries[] = {{&first, tokens, wanted}, {&second, std::span(tokens).first(40), 1}};
    const std::span<const float> logits = runner.feed_batch(entries);
    const std::size_t count = static_cast<std::size_t>(wanted) * runner.vocabulary;
    ASSERT_EQ(logits.size(), count + runner.vocabulary);
    EXPECT_TRUE(same_bits(logits.first(count), std::span(expected).last(count))) << wanted;
    EXPECT_TRUE(same_bits(logits.subspan(count),
                          std::span(expected).subspan(39 * runner.vocabulary, runner.vocabulary)));
    EXPECT_EQ(live_state(first, words()), live_state(whole, words())) << wanted;
  }
}

TEST_P(DecoderEquality, EveryIsaGivesTheSameBits) {
  const auto tokens = testing::random_tokens(150, 9);
  for (const auto kv_type : {kernels::KvType::f16, kernels::KvType::bf16, kernels::KvType::f32}) {
    Runner scalar(model(), {.isa = "scalar", .kv_type = kv_type});
    SequenceCache cache = scalar.sequence();
    const auto expected = scalar.feed(cache, tokens, 50);
    for (const kernels::KernelTable* table : kernels::available_kernels()) {
      Runner runner(model(), {.isa = table->isa, .kv_type = kv_type});
      SequenceCache other = runner.sequence();
      EXPECT_TRUE(same_bits(runner.feed(other, tokens, 50), expected)) << table->isa;
      EXPECT_EQ(live_state(other, words()), live_state(cache, words())) << table->isa;
    }
  }
}

// The equalities above with keys and values in int8, whose state may not be snapshotted: by logits,
// to which every place contributes.
TEST_P(DecoderEquality, Int8KeepsEveryEquality) {
  constexpr auto kInt8 = kernels::KvType::int8;
  const auto tokens = testing::random_tokens(290, 14), other = testing::random_tokens(40, 15);
  Runner runner(model(), {.kv_type = kInt8});
  SequenceCache whole = runner.sequence();
  const auto expected = runner.feed(whole, tokens);
  for (const int chunk : {1, 5, 64}) {
    SequenceCache cache = runner.sequence();
    EXPECT_TRUE(same_bits(runner.feed(cache, tokens, chunk), expected)) << "chunk " << chunk;
  }
  for (const kernels::KernelTable* table : kernels::available_kernels()) {
    const int threads = std::string_view(table->isa) == "scalar" ? 2 : 3;
    Runner many(model(), {.threads = threads, .isa = table->isa, .kv_type = kInt8});
    SequenceCache cache = many.sequence();
    auto logits = many.feed(cache, std::span(tokens).first(280));
    const auto decoded = many.feed(cache, std::span(tokens).subspan(280), 1);
    logits.insert(logits.end(), decoded.begin(), decoded.end());
    EXPECT_TRUE(same_bits(logits, expected)) << table->isa << ", " << threads << " threads";
  }
  SequenceCache short_one = runner.sequence(), batched = runner.sequence();
  const auto alone = runner.feed(short_one, other);
  SequenceCache fork = whole.fork(), copy = whole.fork();
  const auto continued = runner.feed(copy, other, 3);
  BatchEntry entries[] = {{&batched, other, 40}, {&fork, other, 40}};
  const std::span<const float> logits = runner.feed_batch(entries);
  EXPECT_TRUE(same_bits(logits.first(alone.size()), alone));
  EXPECT_TRUE(same_bits(logits.subspan(alone.size()), continued));
}

TEST_P(DecoderEquality, ForkedEqualsCopied) {
  Runner runner(model(), {});
  const auto tokens = testing::random_tokens(80, 10);
  SequenceCache cold = runner.sequence();
  runner.feed(cold, std::span(tokens).first(41));
  SequenceCache fork = cold.fork();
  const auto expected = runner.feed(cold, std::span(tokens).subspan(41), 1);
  EXPECT_TRUE(same_bits(runner.feed(fork, std::span(tokens).subspan(41), 2), expected));
  EXPECT_EQ(live_state(fork, words()), live_state(cold, words()));
}

TEST_P(DecoderEquality, TruncatedEqualsFresh) {
  Runner runner(model(), {});
  const auto tokens = testing::random_tokens(200, 11);
  const auto other = testing::random_tokens(40, 12);
  SequenceCache cache = runner.sequence();
  runner.feed(cache, tokens);
  int truncations = 0;
  for (Position target = 199; target >= 0; target -= 1) {
    if (!cache.can_truncate(target)) continue;
    truncations++;
    SequenceCache back = cache.fork();
    back.truncate(target);
    SequenceCache fresh = runner.sequence();
    if (target > 0) runner.feed(fresh, std::span(tokens).first(static_cast<std::size_t>(target)));
    EXPECT_TRUE(same_bits(runner.feed(back, other), runner.feed(fresh, other)))
        << "target " << target;
    EXPECT_EQ(live_state(back, words()), live_state(fresh, words())) << "target " << target;
  }
  EXPECT_GE(truncations, 1);
}

// Sanitizers make a run several times slower: they get one form of each family and a few types.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSlow = true;
#else
constexpr bool kIsSlow = false;
#endif

std::vector<std::string> family_cases() {
  std::vector<std::string> cases;
  for (const auto& [family, form] : testing::all_family_forms()) {
    if (kIsSlow && form != "mlx4") continue;
    cases.push_back(family + "/" + form);
  }
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    if (kIsSlow) break;
    for (const int group : {32, 64}) {
      cases.push_back(
          fmt::format("{}/mlx4/{}/{}", bits % 2 == 0 ? "gemma3" : "llama4", bits, group));
    }
  }
  return cases;
}

std::vector<std::string> weight_cases() {
  std::vector<std::string> cases;
  for (const char* type : {"F32", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K",
                           "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS"}) {
    if (kIsSlow && std::string_view(type) != "F32" && std::string_view(type) != "Q4_K") continue;
    for (const char* family : {"gemma3", "llama"}) {
      cases.push_back(fmt::format("{}/{}", family, type));
    }
  }
  return cases;
}

std::string case_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Families, DecoderEquality, ::testing::ValuesIn(family_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(WeightTypes, DecoderEquality, ::testing::ValuesIn(weight_cases()),
                         case_name);

}  // namespace
}  // namespace reprise
