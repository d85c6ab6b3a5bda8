// KV mode int8: quantising, reading, copying pages; and that it is refused wherever a snapshot
// would need it.
#include <cmath>
#include <sstream>

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include "base/log.h"
#include "kernels/kernels.h"
#include "unit/kv/prompt_cache_support.h"
#include "unit/kv/snapshot_support.h"

namespace reprise {
namespace {

using kernels::KvShape;
using kernels::KvType;
using test::chain_of;
using test::chunk;
using test::counting;
using test::extend;
using test::holds_identities;
using test::kA;
using test::kStandard;
using test::sequence_of;
using test::tiny_layout;
using test::window;

constexpr std::size_t kBudget = std::size_t{1} << 24;
const SnapshotWords kWords{.family = "gemma3"};

std::span<const kernels::KernelTable* const> tables() {
  return kernels::available_kernels();
}

std::vector<float> random_row(test::Random& random, int dim, float size) {
  std::vector<float> row;
  for (int i = 0; i < dim; i++)
    row.push_back(static_cast<float>(random.below(2000001) - 1000000) * 1e-6f * size);
  return row;
}

struct Place {
  std::vector<float> key, value;
};

Place read(const KvShape& shape, const std::uint8_t* block, int place) {
  Place read{std::vector<float>(static_cast<std::size_t>(shape.head_dim)),
             std::vector<float>(static_cast<std::size_t>(shape.value_dim))};
  read_place_floats(shape, block, place, read.key, read.value);
  return read;
}

// The contract, written once more: one scale a row, to nearest even, within +-127.
std::vector<float> quantised(const std::vector<float>& row) {
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::fabs(x));
  const float scale = largest == 0 ? 1.0f : largest / 127.0f;
  std::vector<float> result;
  for (const float x : row)
    result.push_back(std::clamp(std::nearbyint(x / scale), -127.0f, 127.0f) * scale);
  return result;
}

TEST(Int8Kv, BlocksKeepTheirOrderAndAlignment) {
  for (const int dim : {16, 48, 128, 512}) {
    const KvShape shape{KvType::int8, dim, dim + 16 > 512 ? 512 : dim + 16};
    EXPECT_EQ(shape.keys_bytes(), 64u * static_cast<std::size_t>(shape.head_dim + 4));
    EXPECT_EQ(shape.values_bytes(), 64u * static_cast<std::size_t>(shape.value_dim + 4));
    EXPECT_EQ(shape.keys_bytes() % 64, 0u);
    EXPECT_EQ(shape.block_bytes() % 64, 0u);
    EXPECT_EQ(shape.key_scale_offset(0), 64u * static_cast<std::size_t>(dim));
    EXPECT_EQ(shape.value_scale_offset(63) + 4, shape.block_bytes());
  }
}

TEST(Int8Kv, AnElementLiesWhereTheLayoutSays) {
  const KvShape shape{KvType::int8, 32, 48};
  std::vector<std::uint8_t> block(shape.block_bytes());
  std::vector<float> key(32), value(48);
  key[5] = 127.0f, key[6] = -3.0f, value[20] = 254.0f, value[21] = -2.0f;
  ASSERT_TRUE(tables()[0]->store_kv(shape, block.data(), 37, key.data(), value.data()));
  EXPECT_EQ(static_cast<std::int8_t>(block[shape.key_index(37, 5)]), 127);
  EXPECT_EQ(static_cast<std::int8_t>(block[shape.key_index(37, 6)]), -3);
  const std::size_t values = shape.keys_bytes();
  EXPECT_EQ(static_cast<std::int8_t>(block[values + KvShape::value_index(37, 20)]), 127);
  EXPECT_EQ(static_cast<std::int8_t>(block[values + KvShape::value_index(37, 21)]), -1);
  float scale = 0;
  std::memcpy(&scale, block.data() + 64 * 32 + 4 * 37, 4);
  EXPECT_EQ(scale, 1.0f);
  std::memcpy(&scale, block.data() + values + 64 * 48 + 4 * 37, 4);
  EXPECT_EQ(scale, 2.0f);
}

TEST(Int8Kv, StoreThenReadEqualsTheContractOnEveryIsa) {
  test::Random random(3);
  for (const int dim : {16, 64, 256}) {
    const KvShape shape{KvType::int8, dim, dim};
    std::vector<std::uint8_t> first;
    for (const kernels::KernelTable* table : tables()) {
      std::vector<std::uint8_t> block(shape.block_bytes());
      test::Random rows(11);
      for (int place = 0; place < 64; place++) {
        const float size = place % 7 == 0 ? 1e-42f : place % 5 == 0 ? 1e30f : 3.0f;
        const std::vector<float> key = random_row(rows, dim, size);
        const std::vector<float> value = random_row(rows, dim, 1.0f);
        ASSERT_TRUE(table->store_kv(shape, block.data(), place, key.data(), value.data()));
        const Place got = read(shape, block.data(), place);
        EXPECT_EQ(got.value, quantised(value));
        for (int d = 0; d < dim; d++) {
          const auto i = static_cast<std::size_t>(d);
          // Half a step of the scale, and of a denormal scale's own rounding.
          const float largest =
              std::fabs(*std::max_element(key.begin(), key.end(), [](float a, float b) {
                return std::fabs(a) < std::fabs(b);
              }));
          EXPECT_NEAR(got.key[i], key[i], largest / 127.0f * 0.51f + 64 * 0x1p-149f);
        }
      }
      if (first.empty()) first = block;
      EXPECT_EQ(block, first) << table->isa;
    }
  }
}

TEST(Int8Kv, RoundsToNearestEven) {
  const KvShape shape{KvType::int8, 16, 16};
  std::vector<std::uint8_t> block(shape.block_bytes());
  const std::vector<float> key = {127,  0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f,
                                  -127, 0,    0,    0,    0,     0,     0,     0};
  const std::vector<float> want = {127, 0, 2, 2, 0, -2, -2, 126, -127, 0, 0, 0, 0, 0, 0, 0};
  const std::vector<float> zeros(16);
  for (const kernels::KernelTable* table : tables()) {
    ASSERT_TRUE(table->store_kv(shape, block.data(), 0, key.data(), zeros.data()));
    EXPECT_EQ(read(shape, block.data(), 0).key, want);
    EXPECT_EQ(read(shape, block.data(), 0).value, zeros);
    float scale = 0;  // of zeros: 1
    std::memcpy(&scale, block.data() + shape.value_scale_offset(0), 4);
    EXPECT_EQ(scale, 1.0f);
  }
}

// As in every KV type: the store says so, and what lies there is finite.
TEST(Int8Kv, NonFiniteRowsAreReportedAndStoredFinite) {
  const KvShape shape{KvType::int8, 16, 16};
  std::vector<std::uint8_t> block(shape.block_bytes());
  const std::vector<float> fine(16, 1.0f);
  for (const float bad : {INFINITY, -INFINITY, NAN, 3.40282347e38f}) {
    std::vector<float> row(16, 2.0f);
    row[3] = bad;
    for (const kernels::KernelTable* table : tables()) {
      EXPECT_EQ(table->store_kv(shape, block.data(), 1, row.data(), fine.data()),
                std::isfinite(bad));
      EXPECT_EQ(table->store_kv(shape, block.data(), 2, fine.data(), row.data()),
                std::isfinite(bad));
      for (const int place : {1, 2}) {
        const Place got = read(shape, block.data(), place);
        for (const float x : got.key) EXPECT_TRUE(std::isfinite(x));
        for (const float x : got.value) EXPECT_TRUE(std::isfinite(x));
      }
    }
  }
}

TEST(Int8Kv, ReadsTheOtherTypesToo) {
  test::Random random(5);
  for (const auto type : {KvType::f16, KvType::bf16, KvType::f32}) {
    const KvShape shape{type, 32, 48};
    std::vector<std::uint8_t> block(shape.block_bytes());
    const std::vector<float> key = random_row(random, 32, 1.0f);
    const std::vector<float> value = random_row(random, 48, 1.0f);
    ASSERT_TRUE(tables()[0]->store_kv(shape, block.data(), 9, key.data(), value.data()));
    const Place got = read(shape, block.data(), 9);
    const float bound = type == KvType::f32 ? 0.0f : type == KvType::f16 ? 0x1p-11f : 0x1p-8f;
    for (std::size_t i = 0; i < key.size(); i++) EXPECT_NEAR(got.key[i], key[i], bound);
    for (std::size_t i = 0; i < value.size(); i++) EXPECT_NEAR(got.value[i], value[i], bound);
  }
}

// Pages are shared, copied, rewound and dropped as in any other mode; scales go along.
TEST(Int8Kv, SequencesAppendForkAndTruncate) {
  PagePool pool(tiny_layout({kStandard, window(16), chunk(8)}, 2, 16, 32, KvType::int8), kBudget);
  const auto chain = chain_of(300);
  SequenceCache cache = sequence_of(pool, chain, 100);
  auto other = chain;
  for (std::size_t i = 90; i < other.size(); i++) other[i] = test::mix(other[i]);
  SequenceCache fork = cache.fork();
  ASSERT_TRUE(fork.can_truncate(99));
  ASSERT_TRUE(extend(fork, chain, 130));  // the fork copies the page that the first one wrote
  ASSERT_TRUE(extend(cache, chain, 200));
  EXPECT_TRUE(holds_identities(fork, chain));
  EXPECT_TRUE(holds_identities(cache, chain));
  SequenceCache back = fork.fork();
  back.truncate(90);
  ASSERT_TRUE(extend(back, other, 140));
  EXPECT_TRUE(holds_identities(back, other));
  EXPECT_TRUE(holds_identities(fork, chain));
  cache.drop_unneeded();
  EXPECT_TRUE(holds_identities(cache, chain));
}

TEST(Int8Kv, SnapshotsAreRefusedByName) {
  PagePool pool(tiny_layout({window(16), kStandard}, 2, 16, 32, KvType::int8), kBudget);
  PagePool half(tiny_layout({window(16), kStandard}, 2, 16, 32), kBudget);
  EXPECT_FALSE(supports_snapshot_reuse(pool.layout()));
  EXPECT_TRUE(supports_snapshot_reuse(half.layout()));
  const auto chain = chain_of(20);
  const SequenceCache cache = sequence_of(pool, chain, 20);
  const auto refused = snapshot_sequence(cache, kWords);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::unsupported);
  EXPECT_EQ(refused.error().field, "layer0.rotating.mode");
  EXPECT_EQ(refused.error().message,
            "gemma3 snapshot layer0: rotating cache mode int8 (tag 1) is not supported by "
            "model-state snapshots, expected fp16 (tag 0)");
  StateSnapshot into{"gemma3", 20, {}};
  EXPECT_FALSE(snapshot_into(cache, 1, kWords, into).has_value());
  EXPECT_TRUE(into.tensors.empty());

  // Nor does a snapshot of another mode come into an int8 pool, whatever its layers' kind.
  const StateSnapshot snapshot = test::snapshot_of(sequence_of(half, chain, 20), kWords);
  const std::size_t used = pool.used_bytes();
  const auto restored = restore_sequence(snapshot, kWords, pool);
  ASSERT_FALSE(restored.has_value());
  EXPECT_EQ(restored.error().code, Errc::unsupported);
  EXPECT_EQ(restored.error().message,
            "gemma3 restore layer0: rotating snapshot mode fp16 (tag 0) does not match configured "
            "cache mode int8 (tag 1)");
  EXPECT_FALSE(snapshot_truncatable_to(snapshot, kWords, pool.layout(), 20));
  EXPECT_EQ(pool.used_bytes(), used);
  PagePool chunks(tiny_layout({chunk(8)}, 1, 16, 16, KvType::int8), kBudget);
  const StateSnapshot edge{"gemma3", 0, {}};
  const auto chunked = restore_sequence(edge, kWords, chunks);
  ASSERT_FALSE(chunked.has_value());
  EXPECT_EQ(chunked.error().field, "layer0.chunked.mode");
}

TEST(Int8Kv, ModesHaveNamesAndUnknownTagsAreNamed) {
  EXPECT_EQ(kv_mode_tag(KvType::f16), 0);
  EXPECT_EQ(kv_mode_tag(KvType::bf16), 0);
  EXPECT_EQ(kv_mode_tag(KvType::f32), 0);
  EXPECT_EQ(kv_mode_tag(KvType::int8), 1);
  const char* names[] = {"fp16",        "int8",   "fp16+turbo4",
                         "fp16+turbo3", "turbo4", "turbo4-delegated"};
  for (int tag = 0; tag < 6; tag++) EXPECT_EQ(*kv_mode_name(tag), names[tag]);
  for (const int tag : {-1, 6, 77}) {
    const auto unknown = kv_mode_name(tag);
    ASSERT_FALSE(unknown.has_value());
    EXPECT_NE(unknown.error().message.find("tag " + std::to_string(tag)), std::string::npos);
  }
}

// What the process's log says while this lives.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(spdlog::create<spdlog::sinks::ostream_sink_mt>("captured", text_));
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  ~CapturedLog() {
    spdlog::set_default_logger(before_);
    spdlog::drop("captured");
  }
  std::string text() {
    spdlog::default_logger()->flush();
    return text_.str();
  }

 private:
  std::ostringstream text_;
  decltype(spdlog::default_logger()) before_;
};

TEST(Int8Kv, ThePromptCacheStoresNothingAndSaysSoOnce) {
  CapturedLog log;
  test::Bench bench(tiny_layout({kStandard, window(8)}, 1, 16, 16, KvType::int8), kBudget,
                    {.words = kWords});
  for (int i = 0; i < 3; i++) {
    const auto match = bench.request(counting(150));
    EXPECT_EQ(match.length, 0);
    EXPECT_EQ(match.miss, MissReason::mode_refused);
  }
  EXPECT_TRUE(bench.is_right);  // the requests themselves ran as always
  const PromptCacheStats stats = bench.cache.stats(kA);
  EXPECT_EQ(stats.lookups, 3u);
  EXPECT_EQ(stats.hits, 0u);
  EXPECT_EQ(stats.misses[static_cast<std::size_t>(MissReason::mode_refused)], 3u);
  EXPECT_EQ(stats.last_miss, MissReason::mode_refused);
  EXPECT_EQ(stats.nodes, 0u);
  EXPECT_EQ(bench.pool.used_bytes(), 0u);
  const std::string text = log.text();
  const std::string says = "gemma3 snapshot layer0: standard cache mode int8";
  EXPECT_NE(text.find(says), std::string::npos) << text;
  EXPECT_EQ(text.find(says), text.rfind(says)) << text;
  EXPECT_NE(text.find("warning"), std::string::npos) << text;
}

TEST(Int8Kv, ADisabledCacheDoesNotWarn) {
  CapturedLog log;
  test::Bench off(tiny_layout({kStandard}, 1, 16, 16, KvType::int8), kBudget, {.enabled = false});
  EXPECT_EQ(off.request(counting(100)).miss, MissReason::disabled);
  test::Bench half(tiny_layout({kStandard}), kBudget);
  half.request(counting(100));
  EXPECT_EQ(half.request(counting(100)).length, 99);
  EXPECT_EQ(log.text(), "");
}

}  // namespace
}  // namespace reprise
