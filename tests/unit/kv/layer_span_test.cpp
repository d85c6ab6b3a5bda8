// The table of LayerSpan, every row of which can be checked by hand, and all small cases.
#include "kv/layer_span.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

constexpr LayerSpan kStandard{SpanKind::standard, 0};
constexpr LayerSpan kWindow{SpanKind::rotating, 16};
constexpr LayerSpan kChunk{SpanKind::chunked, 8};

TEST(LayerSpan, VisibleAndNeeded) {
  EXPECT_EQ(kStandard.needed(37), (PositionRange{0, 37}));
  EXPECT_EQ(kWindow.first_visible(15), 0);  // 16 keys, itself included
  EXPECT_EQ(kWindow.first_visible(16), 1);
  EXPECT_EQ(kWindow.needed(40), (PositionRange{25, 40}));  // W-1 keys
  EXPECT_TRUE(kChunk.needed(16).is_empty());
  EXPECT_EQ(kChunk.needed(20), (PositionRange{16, 20}));
  EXPECT_TRUE(kChunk.is_visible(16, 20));
  EXPECT_FALSE(kChunk.is_visible(15, 16));  // a decoded row respects the edge too
}

TEST(LayerSpan, Kept) {
  EXPECT_EQ(kWindow.kept(40), (PositionRange{24, 40}));
  EXPECT_EQ(kChunk.kept(20), (PositionRange{12, 20}));  // the contract's start 12, 8 tokens
  EXPECT_EQ(kWindow.kept(10), (PositionRange{0, 10}));
  EXPECT_EQ(kStandard.kept(1000), (PositionRange{0, 1000}));
}

TEST(LayerSpan, rotating_truncatable_only_while_unwrapped) {
  EXPECT_TRUE(kWindow.can_truncate(kWindow.kept(10), 7));  // not wrapped: any target
  EXPECT_FALSE(kWindow.can_truncate(kWindow.kept(40), 7));
  EXPECT_FALSE(kWindow.can_truncate(kWindow.kept(40), 38));
  // Needs [24, 39) and holds [24, 40): one back is as exact as staying, so an exact replay hits.
  EXPECT_TRUE(kWindow.can_truncate(kWindow.kept(40), 39));
  EXPECT_TRUE(kWindow.can_truncate(kWindow.kept(40), 40));
  EXPECT_FALSE(kWindow.can_truncate(kWindow.kept(40), 41));
}

TEST(LayerSpan, chunked_truncatable_only_before_front_trim) {
  EXPECT_TRUE(kChunk.can_truncate(kChunk.kept(6), 4));  // not trimmed: any target
  EXPECT_FALSE(kChunk.can_truncate(kChunk.kept(20), 4));
  EXPECT_FALSE(kChunk.can_truncate(kChunk.kept(20), 13));  // needs [8, 13), holds [12, 20)
  EXPECT_TRUE(kChunk.can_truncate(kChunk.kept(20), 16));
  EXPECT_TRUE(kChunk.can_truncate(kChunk.kept(20), 17));
  EXPECT_TRUE(kChunk.can_truncate(kChunk.kept(20), 8));  // an edge needs nothing of this layer
}

// can_truncate holds exactly when every key that row `target` sees before itself is held, and what
// is kept at an offset always suffices to go on from there.
TEST(LayerSpan, ExhaustiveSmallSizes) {
  for (const SpanKind kind : {SpanKind::standard, SpanKind::rotating, SpanKind::chunked}) {
    for (Position size = 1; size <= 17; size++) {
      const LayerSpan span{kind, size};
      for (Position offset = 0; offset <= 64; offset++) {
        EXPECT_TRUE(span.kept(offset).contains(span.needed(offset)));
        EXPECT_GE(span.kept(offset + 1).begin, span.kept(offset).begin);
        for (Position target = 0; target <= offset + 1; target++) {
          bool all_held = target <= offset;
          for (Position key = 0; key < target; key++) {
            if (span.is_visible(key, target))
              all_held = all_held && span.kept(offset).begin <= key && key < offset;
          }
          ASSERT_EQ(span.can_truncate(span.kept(offset), target), all_held)
              << "size " << size << " offset " << offset << " target " << target;
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise
