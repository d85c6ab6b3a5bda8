// Tiny layouts, and page content that says which tokens it stands for: a wrong page shows by
// content.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/types.h"
#include "kv/page_places.h"
#include "kv/sequence_cache.h"

namespace reprise::test {

inline constexpr LayerSpan kStandard{SpanKind::standard, 0};
inline LayerSpan window(Position size) {
  return {SpanKind::rotating, size};
}
inline LayerSpan chunk(Position size) {
  return {SpanKind::chunked, size};
}

// One layer a span, equal spans form one group. Small enough that thousands of pages cost nothing.
inline KvLayout tiny_layout(const std::vector<LayerSpan>& spans, int heads = 1, int head_dim = 16,
                            int value_dim = 16, kernels::KvType type = kernels::KvType::f16) {
  std::vector<std::optional<LayerKv>> layers;
  for (const LayerSpan& span : spans) layers.push_back(LayerKv{span, heads, head_dim, value_dim});
  return make_kv_layout(layers, type);
}

inline std::uint64_t mix(std::uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// What stands for (tokens[0..p]): each position's identity covers all tokens up to it.
inline std::uint64_t next_identity(std::uint64_t before, TokenId token) {
  return mix(before ^ mix(static_cast<std::uint64_t>(token) + 1));
}
inline std::vector<std::uint64_t> identities(std::span<const TokenId> tokens) {
  std::vector<std::uint64_t> chain;
  std::uint64_t last = 7;
  for (const TokenId token : tokens) chain.push_back(last = next_identity(last, token));
  return chain;
}

struct Rows {
  std::vector<std::byte> key, value;
};

// The key and value rows of an identity at one layer and head: a seeded byte stream.
inline Rows rows_of(const kernels::KvShape& shape, std::uint64_t identity, int layer, int head) {
  Rows rows{std::vector<std::byte>(shape.key_row_bytes()),
            std::vector<std::byte>(shape.value_row_bytes())};
  std::uint64_t state =
      mix(identity ^ (static_cast<std::uint64_t>(layer) * 64 + static_cast<std::uint64_t>(head)));
  for (std::vector<std::byte>* row : {&rows.key, &rows.value}) {
    for (std::size_t i = 0; i < row->size(); i += 8) {
      state = mix(state);
      const std::uint64_t finite = state & ~0x4000400040004000u;  // in every KV type
      std::memcpy(row->data() + i, &finite, std::min<std::size_t>(8, row->size() - i));
    }
  }
  return rows;
}

// Writes the reserved place of `position` in every group, layer and head.
inline void write_position(const SequenceCache& cache, Position position, std::uint64_t identity) {
  const KvLayout& layout = cache.layout();
  for (std::size_t g = 0; g < layout.groups.size(); g++) {
    const SpanGroup& group = layout.groups[g];
    std::uint8_t* page = cache.page_at(static_cast<int>(g), position);
    for (std::size_t i = 0; i < group.layers.size(); i++) {
      for (int head = 0; head < group.kv_heads; head++) {
        const Rows rows = rows_of(group.shape, identity, group.layers[i], head);
        write_place(group.shape, page + group.block_offset(static_cast<int>(i), head),
                    static_cast<int>(position % kPagePositions), rows.key.data(),
                    rows.value.data());
      }
    }
  }
}

// Whether the place holds what `identity` wrote there, in every layer and head of the group.
inline bool place_holds(const SpanGroup& group, const std::uint8_t* page, int place,
                        std::uint64_t identity) {
  for (std::size_t i = 0; i < group.layers.size(); i++) {
    for (int head = 0; head < group.kv_heads; head++) {
      const Rows want = rows_of(group.shape, identity, group.layers[i], head);
      Rows got = want;
      read_place(group.shape, page + group.block_offset(static_cast<int>(i), head), place,
                 got.key.data(), got.value.data());
      if (got.key != want.key || got.value != want.value) return false;
    }
  }
  return true;
}

// Whether all positions that the cache says it holds have the content of these tokens.
inline bool holds_identities(const SequenceCache& cache, std::span<const std::uint64_t> chain) {
  for (std::size_t g = 0; g < cache.layout().groups.size(); g++) {
    const PositionRange held = cache.held(static_cast<int>(g));
    for (Position p = held.begin; p < held.end; p++) {
      if (!place_holds(cache.layout().groups[g], cache.page_at(static_cast<int>(g), p),
                       static_cast<int>(p % kPagePositions), chain[static_cast<std::size_t>(p)]))
        return false;
    }
  }
  return true;
}

// Reserves, writes and commits positions up to `length`; false when the pool has no room.
inline bool extend(SequenceCache& cache, std::span<const std::uint64_t> chain, Position length) {
  if (!cache.reserve(length)) return false;
  for (Position p = cache.offset(); p < length; p++) {
    write_position(cache, p, chain[static_cast<std::size_t>(p)]);
  }
  cache.commit(length);
  return true;
}

// Random numbers that are the same with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::int64_t below(std::int64_t bound) {
    state_ = mix(state_);
    return static_cast<std::int64_t>(state_ % static_cast<std::uint64_t>(bound));
  }
  bool chance(int percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

}  // namespace reprise::test
