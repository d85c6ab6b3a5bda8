// Which positions of one layer exist, are visible, and must be kept: pure arithmetic, no state.
// Masks, page dropping, restorability and truncation all derive from the one function
// first_visible(), so they cannot disagree.
//
// Positions are absolute and 0-based. `offset` is the number of tokens forwarded so far, i.e. the
// position of the next.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/types.h"

namespace reprise {

// The words of the snapshot contract.
enum class SpanKind : std::uint8_t { standard, rotating, chunked };

// Half-open range of positions [begin, end); empty when begin == end.
struct PositionRange {
  Position begin = 0, end = 0;
  bool is_empty() const { return begin >= end; }
  bool contains(PositionRange other) const {
    return other.is_empty() || (begin <= other.begin && other.end <= end);
  }
  bool operator==(const PositionRange&) const = default;
};

struct LayerSpan {
  SpanKind kind = SpanKind::standard;
  // rotating: window W (a row sees W keys, itself included); chunked: chunk C; standard: unused, 0.
  Position size = 0;

  // Earliest key that the row at `position` attends to. The row sees [first_visible(position),
  // position].
  Position first_visible(Position position) const {
    switch (kind) {
      case SpanKind::standard:
        return 0;
      case SpanKind::rotating:
        return std::max<Position>(0, position - size + 1);
      case SpanKind::chunked:
        return position / size * size;
    }
    return 0;
  }

  bool is_visible(Position key, Position row) const {
    return first_visible(row) <= key && key <= row;
  }

  // Keys that must exist to forward the token at `position`: nothing at a chunk edge, W-1 keys in a
  // full window.
  PositionRange needed(Position position) const { return {first_visible(position), position}; }

  // Keys that a cache with `offset` tokens keeps at least (the snapshot contract's live part: the
  // last W, or the last C).
  PositionRange kept(Position offset) const {
    if (kind == SpanKind::standard) return {0, offset};
    return {std::max<Position>(0, offset - size), offset};
  }

  // Whether a cache that still has `held` can resume at `target` exactly as a cold run would.
  bool can_truncate(PositionRange held, Position target) const {
    return 0 <= target && target <= held.end && held.contains(needed(target));
  }

  bool operator==(const LayerSpan&) const = default;
};

}  // namespace reprise
