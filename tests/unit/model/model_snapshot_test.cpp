// The snapshot contract on the model, every family and form: what is restored goes on to the bit as
// what never stopped, through the tensors, through their file, cut short, and by reference.
#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

#include "kv/snapshot_file.h"
#include "support/runner.h"
#include "support/tiny_family.h"

namespace reprise {
namespace {

using testing::FamilyForm;
using testing::random_tokens;
using testing::Runner;
using testing::same_bits;

// Windows and chunks are 8.
constexpr int kPrefill = 24, kDecoded = 8, kMore = 4;

class ModelSnapshot : public ::testing::TestWithParam<FamilyForm> {
 protected:
  ThreadPool pool{2};
  std::unique_ptr<Model> model = testing::load_family(GetParam(), pool);
  Runner runner{*model, {}};
  std::vector<TokenId> tokens = random_tokens(kPrefill + kDecoded + kMore, 10);

  SequenceCache at_snapshot() { return at_snapshot(runner); }
  SequenceCache at_snapshot(Runner& by) {
    SequenceCache cache = by.sequence();
    by.feed(cache, std::span(tokens).first(kPrefill));
    by.feed(cache, std::span(tokens).subspan(kPrefill, kDecoded), 1);
    return cache;
  }
  // Checks at every target that what can be restored is told, and goes on like a fresh sequence.
  int count_restored(Runner& by) {
    const StateSnapshot snapshot = model->snapshot_sequence_state(at_snapshot(by)).value();
    int count = 0;
    for (Position target = 1; target <= kPrefill + kDecoded; target++) {
      Result<SequenceCache> cut =
          model->restore_sequence_state_truncated(snapshot, by.pool, target);
      EXPECT_EQ(cut.has_value(), model->snapshot_truncatable_to(snapshot, target)) << target;
      if (!cut) continue;
      count++;
      SequenceCache fresh = by.sequence();
      by.feed(fresh, std::span(tokens).first(static_cast<std::size_t>(target)));
      const auto rest = std::span(tokens).subspan(static_cast<std::size_t>(target));
      EXPECT_TRUE(same_bits(by.feed(*cut, rest), by.feed(fresh, rest))) << target;
    }
    EXPECT_FALSE(model->snapshot_truncatable_to(snapshot, kPrefill + kDecoded + 1));
    return count;
  }
  std::span<const TokenId> more() const { return std::span(tokens).last(kMore); }
};

TEST_P(ModelSnapshot, snapshot_restore_matches_cold_decode) {
  ASSERT_TRUE(model->supports_snapshot_reuse());
  SequenceCache cold = at_snapshot();
  const StateSnapshot snapshot = model->snapshot_sequence_state(cold).value();
  SequenceCache by_reference = cold.fork();
  const auto expected = runner.feed(cold, more(), 1);

  EXPECT_EQ(snapshot.family, model->config().family);
  EXPECT_EQ(snapshot.token_length, kPrefill + kDecoded);
  Result<SequenceCache> restored = model->restore_sequence_state(snapshot, runner.pool);
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
  EXPECT_TRUE(same_bits(runner.feed(*restored, more(), 1), expected));
  EXPECT_TRUE(same_bits(runner.feed(by_reference, more(), 1), expected));

  const std::string file = write_snapshot(snapshot);
  const Result<StateSnapshot> read = read_snapshot(std::as_bytes(std::span(file)));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  Result<SequenceCache> from_file = model->restore_sequence_state(*read, runner.pool);
  ASSERT_TRUE(from_file.has_value()) << from_file.error().message;
  EXPECT_TRUE(same_bits(runner.feed(*from_file, more(), kMore), expected));
}

TEST_P(ModelSnapshot, TruncatedRestoreMatchesAFreshSequence) {
  const int restored_count = count_restored(runner);
  for (const kernels::KvType type : {kernels::KvType::bf16, kernels::KvType::f32}) {
    SCOPED_TRACE(std::to_underlying(type));
    Runner of_type(*model, {.kv_type = type});
    EXPECT_EQ(count_restored(of_type), restored_count);
  }
  const bool has_local = std::ranges::any_of(model->config().layers, [](const LayerConfig& layer) {
    return layer.span.kind != SpanKind::standard && layer.span.size < kPrefill;
  });
  // Full attention: every target. Windows of 8: here and one token back; chunks of 8: here, the
  // edges at 32 and 24 and what lies behind 24.
  if (has_local) {
    EXPECT_GE(restored_count, 2);
    EXPECT_LT(restored_count, kPrefill);
  } else {
    EXPECT_EQ(restored_count, kPrefill + kDecoded);
  }
}

TEST_P(ModelSnapshot, AnotherFamilysSnapshotIsRefused) {
  StateSnapshot snapshot = model->snapshot_sequence_state(at_snapshot()).value();
  snapshot.family = "somebody";
  const Result<SequenceCache> restored = model->restore_sequence_state(snapshot, runner.pool);
  ASSERT_FALSE(restored.has_value());
  EXPECT_NE(restored.error().message.find("somebody"), std::string::npos);
  EXPECT_NE(restored.error().message.find(model->config().family), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Families, ModelSnapshot, ::testing::ValuesIn(testing::all_family_forms()),
                         [](const auto& param_info) { return testing::name_of(param_info.param); });

}  // namespace
}  // namespace reprise
