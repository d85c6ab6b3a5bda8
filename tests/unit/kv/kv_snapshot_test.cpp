// The snapshot contract: round trips, truncation, modes, and the original's physical forms.
#include "kv/kv_snapshot.h"

#include <gtest/gtest.h>

#include "unit/kv/snapshot_support.h"

namespace reprise {
namespace {

using test::chain_of;
using test::chunk;
using test::erase_tensor;
using test::extend;
using test::holds_identities;
using test::identities;
using test::kStandard;
using test::push_buffers;
using test::range;
using test::scalar;
using test::scalar_of;
using test::sequence_of;
using test::set_scalar;
using test::snapshot_of;
using test::tiny_layout;
using test::window;

constexpr std::size_t kBudget = std::size_t{1} << 24;
const SnapshotWords kWords{.family = "gemma3"};

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
    const StateSnapshot snapshot = snapshot_of(original, kWords);
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

  const StateSnapshot ours = snapshot_of(*restored, kWords);
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
    return snapshot_truncatable_to(snapshot_of(sequence_of(pool, chain, length), kWords), kWords,
                                   pool.layout(), target);
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
  const StateSnapshot snapshot = snapshot_of(sequence_of(pool, chain, 20), kWords);
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
    return snapshot_truncatable_to(snapshot_of(sequence_of(pool, chain, length), kWords), kWords,
                                   pool.layout(), target);
  };
  EXPECT_TRUE(truncatable(6, 4));
  EXPECT_FALSE(truncatable(20, 4));
  EXPECT_FALSE(truncatable(20, 13));
  EXPECT_TRUE(truncatable(20, 16));
  // A restored sequence agrees, though its page could hold places before 12.
  const Result<SequenceCache> restored =
      restore_sequence(snapshot_of(sequence_of(pool, chain, 20), kWords), kWords, pool);
  ASSERT_TRUE(restored.has_value());
  EXPECT_FALSE(restored->can_truncate(13));
  EXPECT_TRUE(restored->can_truncate(16));
}

TEST(KvSnapshot, non_fp16_mode_is_rejected) {
  PagePool pool(tiny_layout({kStandard, window(8)}), kBudget);
  const auto chain = chain_of(10);
  const StateSnapshot good = snapshot_of(sequence_of(pool, chain, 10), kWords);
  for (const std::string name : {"layer0.standard.mode", "layer1.rotating.mode"}) {
    StateSnapshot snapshot = good;
    set_scalar(snapshot, name, 1);
    const auto int8 = restore_sequence(snapshot, kWords, pool);
    ASSERT_FALSE(int8.has_value());
    EXPECT_EQ(int8.error().code, Errc::unsupported);
    EXPECT_NE(int8.error().message.find("mode int8"), std::string::npos) << int8.error().message;
    set_scalar(snapshot, name, 6);
    const auto unknown = restore_sequence(snapshot, kWords, pool);
    ASSERT_FALSE(unknown.has_value());
    EXPECT_NE(unknown.error().message.find("mode tag 6"), std::string::npos);
  }
  EXPECT_EQ(pool.used_bytes(), 0u);

  // A live cache in int8 is refused when it is written (more in int8_kv_test.cpp).
  PagePool int8_pool(tiny_layout({kStandard, window(8)}, 1, 16, 16, kernels::KvType::int8),
                     kBudget);
  const SequenceCache live = sequence_of(int8_pool, chain, 10);
  const Result<StateSnapshot> refused = snapshot_sequence(live, kWords);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::unsupported);
  EXPECT_NE(refused.error().message.find("gemma3 snapshot layer0: standard cache mode int8"),
            std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(restore_sequence(good, kWords, int8_pool).has_value());
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
  const StateSnapshot empty = snapshot_of(SequenceCache(pool), glimmer);
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
    const StateSnapshot snapshot = snapshot_of(cache, kWords);
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

// Every physical form at every length of interest, into the canonical form and back: the live
// tokens are bitwise the same.
TEST(KvSnapshot, OriginalFormsRoundTripThroughTheCanonicalOne) {
  PagePool pool(tiny_layout({kStandard, window(16), chunk(12)}, 2, 16, 32), kBudget);
  const KvLayout& layout = pool.layout();
  const auto chain = chain_of(140);
  for (const Position offset : {1, 11, 12, 13, 15, 16, 17, 24, 40, 63, 64, 65, 128, 133}) {
    const StateSnapshot cold = snapshot_of(sequence_of(pool, chain, offset), kWords);
    for (int layer = 0; layer < 3; layer++) {
      for (const test::LayerForm& form :
           test::forms_of(layout.groups[static_cast<std::size_t>(layer)].span, offset)) {
        SCOPED_TRACE(testing::Message()
                     << "layer " << layer << " " << form.name << " at " << offset);
        StateSnapshot snapshot{"gemma3", offset, {}};
        for (int other = 0; other < 3; other++) {
          const LayerSpan& span = layout.groups[static_cast<std::size_t>(other)].span;
          const auto canonical = test::forms_of(span, offset).front();
          test::push_layer(snapshot, kWords, layout, other, other == layer ? form : canonical,
                           chain);
        }
        const Result<SequenceCache> restored = restore_sequence(snapshot, kWords, pool);
        ASSERT_TRUE(restored.has_value()) << restored.error().message;
        ASSERT_TRUE(holds_identities(*restored, chain));
        const PositionRange held = restored->held(layer);
        ASSERT_TRUE(
            held.contains(layout.groups[static_cast<std::size_t>(layer)].span.needed(offset)));
        const StateSnapshot ours = snapshot_of(*restored, kWords);
        if (form.name == "canonical" || form.name == "ring" || form.name == "untrimmed" ||
            form.name == "growth slack" || form.name == "long prefill" ||
            form.name == "no scalars") {
          for (const NamedTensor& tensor : cold.tensors)
            ASSERT_EQ(ours.find(tensor.name)->bytes, tensor.bytes) << tensor.name;
        }
        const Result<SequenceCache> again = restore_sequence(ours, kWords, pool);
        ASSERT_TRUE(again.has_value()) << again.error().message;
        ASSERT_EQ(again->held(layer), held);
        ASSERT_TRUE(holds_identities(*again, chain));
      }
    }
  }
}

// What the original allows, we allow: an unwrapped ring and an untrimmed chunk go to any target.
TEST(KvSnapshot, TruncationContainsTheOriginalsRules) {
  PagePool rings(tiny_layout({window(16)}), kBudget);
  PagePool chunks(tiny_layout({chunk(8)}), kBudget);
  const auto chain = chain_of(100);
  const StateSnapshot unwrapped = ring_snapshot(rings, chain, 14, {.idx = 14}, range(0, 14, 2));
  const StateSnapshot untrimmed = chunked_snapshot(chunks, chain, 20, 0, range(0, 20, 236));
  for (Position target = 0; target <= 20; target++) {
    EXPECT_EQ(snapshot_truncatable_to(unwrapped, kWords, rings.layout(), target), target <= 14);
    EXPECT_TRUE(snapshot_truncatable_to(untrimmed, kWords, chunks.layout(), target));
    const auto cut = restore_sequence_truncated(untrimmed, kWords, chunks, target);
    expect_held(cut, {std::max<Position>(0, target - 8), target}, chain);
  }
  EXPECT_FALSE(snapshot_truncatable_to(untrimmed, kWords, chunks.layout(), 21));
  EXPECT_FALSE(snapshot_truncatable_to(untrimmed, kWords, chunks.layout(), -1));
  // A prefill that is longer than the window still has its early tokens.
  const StateSnapshot prefill = ring_snapshot(rings, chain, 100, {.idx = 100}, range(0, 100));
  expect_held(restore_sequence_truncated(prefill, kWords, rings, 37), {21, 37}, chain);
}

// A truncated restore is the sequence that was never longer.
TEST(KvSnapshot, TruncatedRestoreEqualsAFreshSequence) {
  PagePool pool(tiny_layout({kStandard, window(8), chunk(24), kStandard}, 2), kBudget);
  const auto chain = chain_of(140);
  for (const Position length : {7, 30, 64, 130}) {
    const StateSnapshot snapshot = snapshot_of(sequence_of(pool, chain, length), kWords);
    int cuts = 0;
    for (Position target = 0; target <= length; target++) {
      auto cut = restore_sequence_truncated(snapshot, kWords, pool, target);
      ASSERT_EQ(cut.has_value(), snapshot_truncatable_to(snapshot, kWords, pool.layout(), target));
      if (!cut) {
        EXPECT_EQ(cut.error().code, Errc::unsupported);
        continue;
      }
      cuts++;
      ASSERT_EQ(cut->offset(), target);
      ASSERT_TRUE(holds_identities(*cut, chain));
      ASSERT_TRUE(extend(*cut, chain, std::min<Position>(length + 5, target + 20)));
      ASSERT_TRUE(holds_identities(*cut, chain));
    }
    EXPECT_EQ(cuts, length == 7 ? 8 : 3);  // 0 needs nothing; all kinds step back one token
    const std::size_t used = pool.used_bytes();
    EXPECT_FALSE(restore_sequence_truncated(snapshot, kWords, pool, length + 1).has_value());
    EXPECT_FALSE(restore_sequence_truncated(snapshot, kWords, pool, -1).has_value());
    EXPECT_EQ(pool.used_bytes(), used);
  }
}

// Layer by layer: the sequence forms are these four, over all layers.
TEST(KvSnapshot, OneLayerAtATime) {
  PagePool pool(tiny_layout({kStandard, window(16), chunk(8), kStandard}, 2), kBudget);
  const auto chain = chain_of(40);
  const SequenceCache cache = sequence_of(pool, chain, 40);
  StateSnapshot snapshot{"gemma3", 40, {}};
  for (int layer = 0; layer < 4; layer++)
    ASSERT_TRUE(snapshot_into(cache, layer, kWords, snapshot).has_value());
  const StateSnapshot whole = snapshot_of(cache, kWords);
  ASSERT_EQ(snapshot.tensors.size(), whole.tensors.size());
  for (std::size_t i = 0; i < whole.tensors.size(); i++) {
    EXPECT_EQ(snapshot.tensors[i].name, whole.tensors[i].name);
    EXPECT_EQ(snapshot.tensors[i].bytes, whole.tensors[i].bytes);
  }
  std::vector<LayerState> layers;
  for (int layer = 0; layer < 4; layer++) {
    Result<LayerState> state = restore_from(snapshot, layer, kWords, pool.layout());
    ASSERT_TRUE(state.has_value()) << state.error().message;
    EXPECT_EQ(state->offset(), 40);
    layers.push_back(*std::move(state));
  }
  EXPECT_EQ(layers[1].held(), (PositionRange{24, 40}));
  EXPECT_TRUE(layers[0].snapshot_truncatable_to(13));
  EXPECT_FALSE(layers[1].snapshot_truncatable_to(38));
  EXPECT_TRUE(layers[1].snapshot_truncatable_to(39));
  EXPECT_TRUE(layers[2].snapshot_truncatable_to(32));  // a chunk edge
  EXPECT_FALSE(layers[2].snapshot_truncatable_to(31));

  const Status wrapped = layers[1].truncate_to(38);
  ASSERT_FALSE(wrapped.has_value());
  EXPECT_EQ(wrapped.error().message,
            "gemma3 truncate layer1: rotating cache has wrapped and cannot be trimmed: target 38 "
            "needs tokens [23, 38), got [24, 40)");
  const Status trimmed = layers[2].truncate_to(31);
  ASSERT_FALSE(trimmed.has_value());
  EXPECT_EQ(trimmed.error().message,
            "gemma3 truncate layer2: chunked cache has trimmed its front and cannot be truncated: "
            "target 31 needs tokens [24, 31), got [32, 40)");
  EXPECT_EQ(layers[0].truncate_to(41).error().message,
            "gemma3 truncate layer0: standard target 41 exceeds cached offset 40");
  EXPECT_EQ(layers[0].truncate_to(-1).error().message,
            "gemma3 truncate layer0: standard target -1 is negative, expected 0 to 40");
  EXPECT_EQ(layers[1].offset(), 40);

  for (LayerState& layer : layers) ASSERT_TRUE(layer.truncate_to(39).has_value());
  const Result<SequenceCache> cut = build_sequence(layers, kWords, pool);
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->offset(), 39);
  EXPECT_TRUE(holds_identities(*cut, chain));
}

// Absent scalars mean what the original takes for them.
TEST(KvSnapshot, AbsentScalarsFallBack) {
  PagePool pool(tiny_layout({kStandard, window(16), chunk(8)}), kBudget);
  const auto chain = chain_of(40);
  for (const Position offset : {7, 16, 40}) {
    const StateSnapshot good = snapshot_of(sequence_of(pool, chain, offset), kWords);
    for (const std::string name :
         {"layer0.standard.offset", "layer0.standard.mode", "layer1.rotating.max_size",
          "layer1.rotating.buffer_size", "layer1.rotating.offset", "layer1.rotating.start_position",
          "layer1.rotating.step", "layer1.rotating.mode", "layer1.rotating.turbo_seed",
          "layer2.chunked.chunk_size", "layer2.chunked.offset"}) {
      StateSnapshot snapshot = good;
      erase_tensor(snapshot, name);
      const auto restored = restore_sequence(snapshot, kWords, pool);
      ASSERT_TRUE(restored.has_value()) << restored.error().message;
      EXPECT_TRUE(holds_identities(*restored, chain));
    }
    // idx falls back to the token length, a chunk's start to 0: right only while nothing is gone.
    StateSnapshot no_idx = good;
    erase_tensor(no_idx, "layer1.rotating.idx");
    EXPECT_EQ(restore_sequence(no_idx, kWords, pool).has_value(), offset <= 16);
    StateSnapshot no_start = good;
    erase_tensor(no_start, "layer2.chunked.start_position");
    EXPECT_EQ(restore_sequence(no_start, kWords, pool).has_value(), offset <= 8);
  }
}

}  // namespace
}  // namespace reprise
