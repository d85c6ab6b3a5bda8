// The snapshot contract: round trips, the original's physical forms, every error, and mutations
// that must end in an error or in exactly the right state.
#include "kv/kv_snapshot.h"

#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "unit/kv/kv_test_support.h"

namespace reprise {
namespace {

using test::chunk;
using test::extend;
using test::holds_identities;
using test::identities;
using test::kStandard;
using test::tiny_layout;
using test::window;

constexpr std::size_t kBudget = std::size_t{1} << 24;
const SnapshotWords kWords{.family = "gemma3"};

std::vector<std::uint64_t> chain_of(int length) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(length));
  std::iota(tokens.begin(), tokens.end(), 3);
  return identities(tokens);
}

SequenceCache sequence_of(PagePool& pool, std::span<const std::uint64_t> chain, Position length) {
  SequenceCache cache(pool);
  EXPECT_TRUE(extend(cache, chain, length));
  return cache;
}

NamedTensor scalar(const std::string& name, std::int32_t value) {
  NamedTensor tensor{name, SnapshotDtype::i32, {1}, std::vector<std::byte>(4)};
  std::memcpy(tensor.bytes.data(), &value, 4);
  return tensor;
}

std::int32_t scalar_of(const StateSnapshot& snapshot, const std::string& name) {
  const NamedTensor* tensor = snapshot.find(name);
  if (tensor == nullptr || tensor->bytes.size() != 4) return -12345;
  std::int32_t value = 0;
  std::memcpy(&value, tensor->bytes.data(), 4);
  return value;
}

NamedTensor& tensor_of(StateSnapshot& snapshot, const std::string& name) {
  for (NamedTensor& tensor : snapshot.tensors)
    if (tensor.name == name) return tensor;
  ADD_FAILURE() << "no tensor " << name;
  return snapshot.tensors.front();
}

void erase_tensor(StateSnapshot& snapshot, const std::string& name) {
  std::erase_if(snapshot.tensors, [&](const NamedTensor& tensor) { return tensor.name == name; });
}

// The buffers of a layer as the original holds them: slot by slot a position, or -1 for slack.
void push_buffers(StateSnapshot& snapshot, const std::string& prefix, const SpanGroup& group,
                  int layer, const std::vector<Position>& slots,
                  std::span<const std::uint64_t> chain) {
  const auto count = static_cast<std::int64_t>(slots.size());
  NamedTensor keys{
      prefix + "keys", SnapshotDtype::f16, {1, group.kv_heads, count, group.shape.head_dim}, {}};
  NamedTensor values{
      prefix + "values", SnapshotDtype::f16, {1, group.kv_heads, count, group.shape.value_dim}, {}};
  for (int head = 0; head < group.kv_heads; head++) {
    for (const Position position : slots) {
      const std::uint64_t identity = position < 0 ? 999 : chain[static_cast<std::size_t>(position)];
      const test::Rows rows = test::rows_of(group.shape, identity, layer, head);
      keys.bytes.insert(keys.bytes.end(), rows.key.begin(), rows.key.end());
      values.bytes.insert(values.bytes.end(), rows.value.begin(), rows.value.end());
    }
  }
  snapshot.tensors.push_back(std::move(keys));
  snapshot.tensors.push_back(std::move(values));
}

struct RingForm {
  int buffer_size = 0, start = 0, idx = 0;
};

// A snapshot with one rotating layer in one of the original's physical forms.
StateSnapshot ring_snapshot(const PagePool& pool, std::span<const std::uint64_t> chain, int offset,
                            RingForm form, const std::vector<Position>& slots) {
  StateSnapshot snapshot{"gemma3", offset, {}};
  const SpanGroup& group = pool.layout().groups[0];
  const std::string prefix = "layer0.rotating.";
  if (!slots.empty()) push_buffers(snapshot, prefix, group, 0, slots, chain);
  snapshot.tensors.push_back(scalar(prefix + "max_size", static_cast<int>(group.span.size)));
  snapshot.tensors.push_back(scalar(prefix + "buffer_size", form.buffer_size));
  snapshot.tensors.push_back(scalar(prefix + "offset", offset));
  snapshot.tensors.push_back(scalar(prefix + "start_position", form.start));
  snapshot.tensors.push_back(scalar(prefix + "idx", form.idx));
  snapshot.tensors.push_back(scalar(prefix + "step", 256));
  snapshot.tensors.push_back(scalar(prefix + "mode", 0));
  snapshot.tensors.push_back(scalar(prefix + "turbo_seed", 0x7B470404));
  return snapshot;
}

StateSnapshot chunked_snapshot(const PagePool& pool, std::span<const std::uint64_t> chain,
                               int offset, int start, const std::vector<Position>& slots) {
  StateSnapshot snapshot{"gemma3", offset, {}};
  const SpanGroup& group = pool.layout().groups[0];
  if (!slots.empty()) push_buffers(snapshot, "layer0.chunked.", group, 0, slots, chain);
  snapshot.tensors.push_back(
      scalar("layer0.chunked.chunk_size", static_cast<int>(group.span.size)));
  snapshot.tensors.push_back(scalar("layer0.chunked.offset", offset));
  snapshot.tensors.push_back(scalar("layer0.chunked.start_position", start));
  return snapshot;
}

std::vector<Position> range(Position begin, Position end, int slack = 0) {
  std::vector<Position> positions;
  for (Position p = begin; p < end; p++) positions.push_back(p);
  positions.insert(positions.end(), static_cast<std::size_t>(slack), -1);
  return positions;
}

void expect_held(const Result<SequenceCache>& cache, PositionRange held,
                 std::span<const std::uint64_t> chain) {
  ASSERT_TRUE(cache.has_value()) << cache.error().message;
  EXPECT_EQ(cache->held(0), held);
  EXPECT_TRUE(holds_identities(*cache, chain));
}

TEST(KvSnapshot, standard_round_trip_preserves_keys_values_offset) {
  for (const auto type : {kernels::KvType::f16, kernels::KvType::bf16, kernels::KvType::f32}) {
    PagePool pool(tiny_layout({kStandard, kStandard}, 2, 32, 48, type), kBudget);
    const auto chain = chain_of(38);
    SequenceCache original = sequence_of(pool, chain, 37);
    const StateSnapshot snapshot = snapshot_sequence(original, kWords);
    EXPECT_EQ(snapshot.token_length, 37);
    EXPECT_EQ(scalar_of(snapshot, "layer1.standard.offset"), 37);
    EXPECT_EQ(scalar_of(snapshot, "layer1.standard.mode"), 0);
    EXPECT_EQ(snapshot.find("layer1.standard.keys")->shape,
              (std::vector<std::int64_t>{1, 2, 37, 32}));
    EXPECT_EQ(snapshot.find("layer1.standard.values")->shape,
              (std::vector<std::int64_t>{1, 2, 37, 48}));
    Result<SequenceCache> restored = restore_sequence(snapshot, kWords, pool);
    ASSERT_TRUE(restored.has_value()) << restored.error().message;
    EXPECT_EQ(restored->offset(), 37);
    ASSERT_TRUE(extend(*restored, chain, 38));
    EXPECT_TRUE(holds_identities(*restored, chain));
    EXPECT_EQ(restored->held(0), (PositionRange{0, 38}));
    original.truncate(0);
    EXPECT_TRUE(holds_identities(*restored, chain));  // a deep copy
  }
}

TEST(KvSnapshot, rotating_round_trip_preserves_ring_state_after_wrap) {
  PagePool pool(tiny_layout({window(16)}, 2), kBudget);
  const auto chain = chain_of(41);
  // The original after 40 single pushes: position p lies in slot p mod 16, slot 8 is next.
  std::vector<Position> slots(16);
  for (Position p = 24; p < 40; p++) slots[static_cast<std::size_t>(p % 16)] = p;
  Result<SequenceCache> restored =
      restore_sequence(ring_snapshot(pool, chain, 40, {.idx = 8}, slots), kWords, pool);
  expect_held(restored, {24, 40}, chain);

  const StateSnapshot ours = snapshot_sequence(*restored, kWords);
  EXPECT_EQ(scalar_of(ours, "layer0.rotating.offset"), 40);
  EXPECT_EQ(scalar_of(ours, "layer0.rotating.max_size"), 16);
  EXPECT_EQ(scalar_of(ours, "layer0.rotating.idx"), 16);
  EXPECT_EQ(scalar_of(ours, "layer0.rotating.buffer_size"), 0);
  EXPECT_EQ(scalar_of(ours, "layer0.rotating.start_position"), 0);
  EXPECT_EQ(scalar_of(ours, "layer0.rotating.turbo_seed"), 0x7B470404);
  const StateSnapshot chronological = ring_snapshot(pool, chain, 40, {.idx = 16}, range(24, 40));
  EXPECT_EQ(ours.find("layer0.rotating.keys")->bytes, chronological.tensors[0].bytes);
  EXPECT_EQ(ours.find("layer0.rotating.values")->bytes, chronological.tensors[1].bytes);

  Result<SequenceCache> again = restore_sequence(ours, kWords, pool);
  expect_held(again, {24, 40}, chain);
  ASSERT_TRUE(extend(*again, chain, 41));
  EXPECT_TRUE(holds_identities(*again, chain));
}

TEST(KvSnapshot, rotating_truncatable_only_while_unwrapped) {
  PagePool pool(tiny_layout({window(16)}), kBudget);
  const auto chain = chain_of(40);
  const auto truncatable = [&](Position length, Position target) {
    return snapshot_truncatable_to(snapshot_sequence(sequence_of(pool, chain, length), kWords),
                                   kWords, pool.layout(), target);
  };
  EXPECT_TRUE(truncatable(10, 7));
  EXPECT_FALSE(truncatable(10, 11));
  EXPECT_FALSE(truncatable(40, 7));
  EXPECT_FALSE(truncatable(40, 38));
  EXPECT_TRUE(truncatable(40, 39));  // position 39 sees 15 keys before itself, [24, 39): all here
}

TEST(KvSnapshot, chunked_round_trip_after_front_trim) {
  PagePool pool(tiny_layout({chunk(8)}, 3), kBudget);
  const auto chain = chain_of(24);
  const StateSnapshot snapshot = snapshot_sequence(sequence_of(pool, chain, 20), kWords);
  EXPECT_EQ(scalar_of(snapshot, "layer0.chunked.start_position"), 12);
  EXPECT_EQ(scalar_of(snapshot, "layer0.chunked.offset"), 20);
  EXPECT_EQ(scalar_of(snapshot, "layer0.chunked.chunk_size"), 8);
  EXPECT_EQ(snapshot.find("layer0.chunked.keys")->shape, (std::vector<std::int64_t>{1, 3, 8, 16}));
  Result<SequenceCache> restored = restore_sequence(snapshot, kWords, pool);
  expect_held(restored, {12, 20}, chain);
  ASSERT_TRUE(extend(*restored, chain, 24));
  EXPECT_TRUE(holds_identities(*restored, chain));
}

TEST(KvSnapshot, chunked_truncatable_only_before_front_trim) {
  PagePool pool(tiny_layout({chunk(8)}), kBudget);
  const auto chain = chain_of(20);
  const auto truncatable = [&](Position length, Position target) {
    return snapshot_truncatable_to(snapshot_sequence(sequence_of(pool, chain, length), kWords),
                                   kWords, pool.layout(), target);
  };
  EXPECT_TRUE(truncatable(6, 4));
  EXPECT_FALSE(truncatable(20, 4));
  EXPECT_FALSE(truncatable(20, 13));
  EXPECT_TRUE(truncatable(20, 16));
  // A restored sequence agrees, though its page could hold places before 12.
  const Result<SequenceCache> restored =
      restore_sequence(snapshot_sequence(sequence_of(pool, chain, 20), kWords), kWords, pool);
  ASSERT_TRUE(restored.has_value());
  EXPECT_FALSE(restored->can_truncate(13));
  EXPECT_TRUE(restored->can_truncate(16));
}

TEST(KvSnapshot, non_fp16_mode_is_rejected) {
  PagePool pool(tiny_layout({kStandard, window(8)}), kBudget);
  const auto chain = chain_of(10);
  const StateSnapshot good = snapshot_sequence(sequence_of(pool, chain, 10), kWords);
  for (const std::string name : {"layer0.standard.mode", "layer1.rotating.mode"}) {
    StateSnapshot snapshot = good;
    tensor_of(snapshot, name) = scalar(name, 1);
    const auto int8 = restore_sequence(snapshot, kWords, pool);
    ASSERT_FALSE(int8.has_value());
    EXPECT_EQ(int8.error().code, Errc::unsupported);
    EXPECT_NE(int8.error().message.find("mode int8"), std::string::npos) << int8.error().message;
    tensor_of(snapshot, name) = scalar(name, 6);
    const auto unknown = restore_sequence(snapshot, kWords, pool);
    ASSERT_FALSE(unknown.has_value());
    EXPECT_NE(unknown.error().message.find("mode tag 6"), std::string::npos);
  }
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST(KvSnapshot, ReadsTheOriginalsForms) {
  PagePool pool(tiny_layout({window(16)}), kBudget);
  const auto chain = chain_of(200);
  const auto restore = [&](int offset, RingForm form, const std::vector<Position>& slots) {
    return restore_sequence(ring_snapshot(pool, chain, offset, form, slots), kWords, pool);
  };
  // Unwrapped with growth slack; a prefill longer than the window; a chunk appended to W-1 tokens.
  expect_held(restore(10, {.idx = 10}, range(0, 10, 6)), {0, 10}, chain);
  expect_held(restore(100, {.idx = 100}, range(0, 100)), {84, 100}, chain);
  expect_held(restore(100, {.idx = 23}, range(77, 100)), {84, 100}, chain);
  // Every phase of a full ring.
  for (int offset = 16; offset <= 80; offset++) {
    std::vector<Position> slots(16);
    for (Position p = offset - 16; p < offset; p++) slots[static_cast<std::size_t>(p % 16)] = p;
    const int idx = offset % 16 == 0 ? 16 : offset % 16;
    expect_held(restore(offset, {.idx = idx}, slots), {offset - 16, offset}, chain);
  }
  // The temporal buffer of speculative decoding, with more than a window and with slack.
  expect_held(restore(100, {.buffer_size = 32, .start = 70, .idx = 30}, range(70, 100, 226)),
              {84, 100}, chain);
  expect_held(restore(100, {.buffer_size = 32, .start = 85, .idx = 15}, range(85, 100)), {85, 100},
              chain);
  EXPECT_FALSE(restore(100, {.buffer_size = 32, .start = 86, .idx = 14}, range(86, 100)));

  PagePool chunks(tiny_layout({chunk(8)}), kBudget);
  const auto chunked = [&](int offset, int start, const std::vector<Position>& slots) {
    return restore_sequence(chunked_snapshot(chunks, chain, offset, start, slots), kWords, chunks);
  };
  expect_held(chunked(20, 0, range(0, 20, 236)), {12, 20}, chain);
  expect_held(chunked(20, 12, range(12, 20)), {12, 20}, chain);
  expect_held(chunked(20, 16, range(16, 20, 2)), {16, 20}, chain);
  expect_held(chunked(24, 24, {}), {24, 24}, chain);  // an edge needs nothing
  EXPECT_FALSE(chunked(20, 17, range(17, 20)));
  EXPECT_FALSE(chunked(20, 20, {}));

  PagePool standard(tiny_layout({kStandard}), kBudget);
  StateSnapshot slack{"gemma3", 70, {}};
  push_buffers(slack, "layer0.standard.", standard.layout().groups[0], 0, range(0, 70, 186), chain);
  expect_held(restore_sequence(slack, kWords, standard), {0, 70}, chain);  // scalars fall back
}

TEST(KvSnapshot, EmptySequenceAndOtherWords) {
  PagePool pool(tiny_layout({kStandard, window(8), chunk(8)}), kBudget);
  const SnapshotWords glimmer{
      .family = "muse_glimmer", .standard = "full", .rotating = "sliding", .chunked = "chunked"};
  const StateSnapshot empty = snapshot_sequence(SequenceCache(pool), glimmer);
  EXPECT_EQ(empty.find("layer0.full.keys"), nullptr);
  EXPECT_EQ(scalar_of(empty, "layer1.sliding.offset"), 0);
  EXPECT_EQ(empty.byte_size(), 4u * (2 + 8 + 3));
  const auto restored = restore_sequence(empty, glimmer, pool);
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
  EXPECT_EQ(restored->offset(), 0);
  StateSnapshot misnamed = empty;
  misnamed.family = "gemma3";
  EXPECT_FALSE(restore_sequence(misnamed, kWords, pool));  // full and sliding are unknown words
}

TEST(KvSnapshot, RestoresAllKindsAtAllLengths) {
  PagePool pool(tiny_layout({kStandard, window(8), chunk(24), window(70), chunk(64)}, 2), kBudget);
  const auto chain = chain_of(300);
  SequenceCache cache(pool);
  for (Position length = 1; length < 270; length++) {
    ASSERT_TRUE(extend(cache, chain, length));
    cache.drop_unneeded();
    const StateSnapshot snapshot = snapshot_sequence(cache, kWords);
    Result<SequenceCache> restored = restore_sequence(snapshot, kWords, pool);
    ASSERT_TRUE(restored.has_value()) << restored.error().message;
    ASSERT_TRUE(holds_identities(*restored, chain));
    for (std::size_t g = 0; g < pool.layout().groups.size(); g++) {
      ASSERT_EQ(restored->held(static_cast<int>(g)), pool.layout().groups[g].span.kept(length));
    }
    for (Position target = std::max<Position>(0, length - 80); target <= length; target++) {
      ASSERT_EQ(snapshot_truncatable_to(snapshot, kWords, pool.layout(), target),
                restored->can_truncate(target));
    }
    ASSERT_TRUE(extend(*restored, chain, length + 20));
    ASSERT_TRUE(holds_identities(*restored, chain));
  }
}

TEST(KvSnapshot, ExhaustedPoolIsNamed) {
  PagePool pool(tiny_layout({kStandard}), 3 * 4096);
  const auto chain = chain_of(128);
  const SequenceCache cache = sequence_of(pool, chain, 128);
  const auto restored = restore_sequence(snapshot_sequence(cache, kWords), kWords, pool);
  ASSERT_FALSE(restored.has_value());
  EXPECT_EQ(restored.error().code, Errc::exhausted);
  EXPECT_EQ(pool.used_bytes(), 2u * 4096);
}

struct ErrorCase {
  std::string says;
  Errc code;
  std::function<void(StateSnapshot&)> spoil;
};

void set_scalar(StateSnapshot& snapshot, const std::string& name, std::int32_t value) {
  tensor_of(snapshot, name) = scalar(name, value);
}

using S = StateSnapshot;
const std::string kFull = "layer0.standard.";
const std::string kRing = "layer1.rotating.";
const std::string kPart = "layer2.chunked.";

void cut(S& snapshot, const std::string& name, std::vector<std::int64_t> shape) {
  NamedTensor& tensor = tensor_of(snapshot, name);
  std::int64_t bytes = 2;
  for (const std::int64_t extent : shape) bytes *= extent;
  tensor.shape = std::move(shape);
  tensor.bytes.resize(static_cast<std::size_t>(bytes));
}

void poison(S& snapshot, const std::string& name) {
  const std::uint16_t infinity = 0x7c00;
  std::memcpy(tensor_of(snapshot, name).bytes.data() + 6, &infinity, sizeof(infinity));
}

std::vector<ErrorCase> general_errors() {
  return {
      {"cannot restore llama snapshot into gemma3", Errc::invalid_argument,
       [](S& s) { s.family = "llama"; }},
      {"token length -1", Errc::corrupt, [](S& s) { s.token_length = -1; }},
      {"token length 4294967336", Errc::corrupt, [](S& s) { s.token_length += 4294967296; }},
      {"offset 40 does not match its token length 41", Errc::corrupt,
       [](S& s) { s.token_length = 41; }},
      {"rotating snapshot offset 39 does not match its token length 40", Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "offset", 39); }},
      {"negative length: offset -5", Errc::corrupt,
       [](S& s) { set_scalar(s, kPart + "offset", -5); }},
      {"standard snapshot has only one of keys/values", Errc::corrupt,
       [](S& s) { erase_tensor(s, kFull + "keys"); }},
      {"rotating snapshot has only one of keys/values", Errc::corrupt,
       [](S& s) { erase_tensor(s, kRing + "values"); }},
      {"chunked snapshot has only one of keys/values", Errc::corrupt,
       [](S& s) { erase_tensor(s, kPart + "values"); }},
      {"missing its keys buffer: got 0 tokens, expected [25, 40)", Errc::corrupt,
       [](S& s) { erase_tensor(s, kRing + "keys"), erase_tensor(s, kRing + "values"); }},
      {"mode turbo4 (tag 4) is not supported", Errc::unsupported,
       [](S& s) { set_scalar(s, kFull + "mode", 4); }},
      {"unknown cache mode tag -1", Errc::corrupt, [](S& s) { set_scalar(s, kRing + "mode", -1); }},
  };
}

std::vector<ErrorCase> window_errors() {
  return {
      {"requires positive max_size; got 0", Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "max_size", 0); }},
      {"window 17 does not match configured window 16", Errc::invalid_argument,
       [](S& s) { set_scalar(s, kRing + "max_size", 17); }},
      {"non-negative buffer_size; got -1", Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "buffer_size", -1); }},
      {"got offset=40, start_position=-3, idx=16", Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "start_position", -3); }},
      {"start_position=0, idx=-1", Errc::corrupt, [](S& s) { set_scalar(s, kRing + "idx", -1); }},
      {"requires positive step; got 0", Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "step", 0); }},
      {"idx 17 exceeds physical length 16", Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "idx", 17); }},
      {"idx 0 of a wrapped ring with 16 slots", Errc::corrupt,
       [](S& s) { set_scalar(s, kRing + "idx", 0); }},
      {"buffered window [5, 21) does not end at offset 40", Errc::corrupt,
       [](S& s) {
         set_scalar(s, kRing + "buffer_size", 8), set_scalar(s, kRing + "start_position", 5);
       }},
      {"idx 12 of an unwrapped ring, expected offset 40", Errc::corrupt,
       [](S& s) {
         cut(s, kRing + "keys", {1, 2, 40, 16}), cut(s, kRing + "values", {1, 2, 40, 32});
         set_scalar(s, kRing + "idx", 12);
       }},
      {"keeps tokens [26, 40), expected [25, 40)", Errc::corrupt,
       [](S& s) {
         cut(s, kRing + "keys", {1, 2, 14, 16}), cut(s, kRing + "values", {1, 2, 14, 32});
         set_scalar(s, kRing + "idx", 14);
       }},
      {"chunk size 9 does not match configured chunk size 12", Errc::invalid_argument,
       [](S& s) { set_scalar(s, kPart + "chunk_size", 9); }},
      {"chunked snapshot window [41, 40) is not a valid range", Errc::corrupt,
       [](S& s) { set_scalar(s, kPart + "start_position", 41); }},
      {"declares 13 tokens but its buffer holds 12", Errc::corrupt,
       [](S& s) { set_scalar(s, kPart + "start_position", 27); }},
      {"keeps tokens [37, 40), expected [36, 40)", Errc::corrupt,
       [](S& s) { set_scalar(s, kPart + "start_position", 37); }},
  };
}

std::vector<ErrorCase> buffer_errors() {
  return {
      {"declares 40 tokens but its buffer holds 39", Errc::corrupt,
       [](S& s) {
         cut(s, kFull + "keys", {1, 2, 39, 16}), cut(s, kFull + "values", {1, 2, 39, 32});
       }},
      {"expected rank-4 standard keys, got shape [2, 40, 16]", Errc::corrupt,
       [](S& s) { cut(s, kFull + "keys", {2, 40, 16}); }},
      {"values have shape [1, 1, 40, 32], expected [1, 2, tokens, 32]", Errc::invalid_argument,
       [](S& s) { cut(s, kFull + "values", {1, 1, 40, 32}); }},
      {"keys have shape [2, 2, 40, 16]", Errc::invalid_argument,
       [](S& s) { cut(s, kFull + "keys", {2, 2, 40, 16}); }},
      {"values have shape [1, 2, 40, 16], expected [1, 2, tokens, 32]", Errc::invalid_argument,
       [](S& s) { cut(s, kFull + "values", {1, 2, 40, 16}); }},
      {"disagree on batch, heads or length", Errc::corrupt,
       [](S& s) { cut(s, kFull + "values", {1, 2, 39, 32}); }},
      {"keys are bf16, expected f16", Errc::invalid_argument,
       [](S& s) { tensor_of(s, kFull + "keys").dtype = SnapshotDtype::bf16; }},
      {"is f16 with shape [1], expected one i32", Errc::corrupt,
       [](S& s) {
         tensor_of(s, kFull + "offset").dtype = SnapshotDtype::f16;
         tensor_of(s, kFull + "offset").bytes.resize(2);
       }},
      {"expected one i32", Errc::corrupt,
       [](S& s) {
         tensor_of(s, kRing + "step").shape = {2};
         tensor_of(s, kRing + "step").bytes.resize(8);
       }},
      {"expected what f16 shape [1, 2, 40, 16] takes", Errc::corrupt,
       [](S& s) { tensor_of(s, kFull + "keys").bytes.pop_back(); }},
      {"shape [1, -2, 40, 16]", Errc::corrupt,
       [](S& s) { tensor_of(s, kFull + "keys").shape[1] = -2; }},
      {"got tensor layer0.standard.mode twice", Errc::corrupt,
       [](S& s) { s.tensors.push_back(scalar(kFull + "mode", 0)); }},
      {"got tensor layer3.standard.mode, expected only", Errc::corrupt,
       [](S& s) { s.tensors.push_back(scalar("layer3.standard.mode", 0)); }},
      {"layer0.standard.keys has a number that is not finite at head 0, position 0", Errc::corrupt,
       [](S& s) { poison(s, kFull + "keys"); }},
      {"layer1.rotating.values has a number that is not finite at head 0, position 24",
       Errc::corrupt, [](S& s) { poison(s, kRing + "values"); }},
  };
}

class SpoiledSnapshot : public testing::Test {
 protected:
  PagePool pool_{tiny_layout({kStandard, window(16), chunk(12)}, 2, 16, 32), kBudget};
  std::vector<std::uint64_t> chain_ = chain_of(40);
  StateSnapshot good_ = snapshot_sequence(sequence_of(pool_, chain_, 40), kWords);
};

TEST_F(SpoiledSnapshot, EveryErrorIsNamed) {
  ASSERT_TRUE(restore_sequence(good_, kWords, pool_).has_value());
  std::vector<ErrorCase> errors = general_errors();
  for (const auto& more : {window_errors(), buffer_errors()})
    errors.insert(errors.end(), more.begin(), more.end());
  for (const ErrorCase& error : errors) {
    StateSnapshot snapshot = good_;
    error.spoil(snapshot);
    const auto restored = restore_sequence(snapshot, kWords, pool_);
    ASSERT_FALSE(restored.has_value()) << error.says;
    EXPECT_EQ(restored.error().code, error.code) << restored.error().message;
    EXPECT_NE(restored.error().message.find(error.says), std::string::npos)
        << "got:      " << restored.error().message << "\nexpected: " << error.says;
    EXPECT_EQ(restored.error().message.find('\n'), std::string::npos);
    EXPECT_EQ(pool_.used_bytes(), 0u);
    if (error.says.find("not finite") != std::string::npos) continue;  // content is not looked at
    EXPECT_FALSE(snapshot_truncatable_to(snapshot, kWords, pool_.layout(), 40)) << error.says;
  }
}

// Any tensor dropped, reshaped or re-typed, any scalar moved: an error, or the same state.
TEST_F(SpoiledSnapshot, MutationsEndInAnErrorOrTheRightState) {
  int accepted = 0, refused = 0;
  const auto judge = [&](const StateSnapshot& snapshot, const std::string& what) {
    const auto restored = restore_sequence(snapshot, kWords, pool_);
    if (!restored) {
      refused++;
      return;
    }
    accepted++;
    ASSERT_EQ(restored->offset(), 40) << what;
    ASSERT_TRUE(holds_identities(*restored, chain_)) << what;
    for (std::size_t g = 0; g < 3; g++) {
      ASSERT_TRUE(
          restored->held(static_cast<int>(g)).contains(pool_.layout().groups[g].span.needed(40)))
          << what;
    }
  };
  for (std::size_t t = 0; t < good_.tensors.size(); t++) {
    const std::string& name = good_.tensors[t].name;
    StateSnapshot dropped = good_;
    dropped.tensors.erase(dropped.tensors.begin() + static_cast<std::ptrdiff_t>(t));
    judge(dropped, "dropped " + name);
    for (std::size_t axis = 0; axis < good_.tensors[t].shape.size(); axis++) {
      for (const std::int64_t change : {-1, 1, 7}) {
        StateSnapshot reshaped = good_;
        NamedTensor& tensor = reshaped.tensors[t];
        tensor.shape[axis] += change;
        std::size_t bytes = tensor.dtype == SnapshotDtype::i32 ? 4 : 2;
        for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::size_t>(extent);
        tensor.bytes.resize(bytes);
        judge(reshaped, "reshaped " + name);
      }
    }
    for (const auto dtype :
         {SnapshotDtype::f16, SnapshotDtype::bf16, SnapshotDtype::f32, SnapshotDtype::i32}) {
      StateSnapshot retyped = good_;
      retyped.tensors[t].dtype = dtype;
      judge(retyped, "re-typed " + name);
    }
    // A ring's idx and a chunk's start say where tokens lie: no check can tell that all of them
    // were moved consistently, so these two are covered by the table above.
    const bool says_where = name.ends_with(".idx") || name == "layer2.chunked.start_position";
    if (good_.tensors[t].dtype != SnapshotDtype::i32 || says_where) continue;
    for (const std::int32_t change : {-100, -1, 1, 3, 100}) {
      StateSnapshot moved = good_;
      set_scalar(moved, name, scalar_of(good_, name) + change);
      judge(moved, "moved " + name);
    }
  }
  EXPECT_GT(accepted, 10);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace reprise
