// Which layers share pages: span groups, and where each layer's keys and values lie inside a page.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kv_block.h"
#include "kv/layer_span.h"

namespace reprise {

inline constexpr Position kPagePositions = kernels::kPagePositions;

// The keys and values of one layer that owns some.
struct LayerKv {
  LayerSpan span;
  int kv_heads = 0;
  int head_dim = 0;
  int value_dim = 0;
};

// All layers of one kind, size and KV shape. A page of the group holds 64 absolute positions
// [64k, 64k + 64) of all of them: layer after layer, head after head, keys then values.
struct SpanGroup {
  LayerSpan span;
  int kv_heads = 0;
  kernels::KvShape shape;
  std::vector<int> layers;  // model layer indices, ascending

  std::size_t layer_bytes() const {
    return static_cast<std::size_t>(kv_heads) * shape.block_bytes();
  }
  std::size_t page_bytes() const { return layers.size() * layer_bytes(); }
  // Bytes from a page's start to the block of `head` in the layer at `index` within the group.
  std::size_t block_offset(int index, int head) const {
    return static_cast<std::size_t>(index) * layer_bytes() +
           static_cast<std::size_t>(head) * shape.block_bytes();
  }
};

struct LayerPlace {
  int group = -1;  // -1: the layer owns no keys and values
  int index = -1;  // among the group's layers
};

struct KvLayout {
  std::vector<SpanGroup> groups;   // in order of their first layer
  std::vector<LayerPlace> layers;  // one per model layer

  // Bytes that a sequence of `length` tokens occupies when it keeps what its groups keep.
  std::size_t sequence_bytes(Position length) const;
};

// The layout of a model whose layers own these keys and values (nullopt: shares another layer's).
KvLayout make_kv_layout(std::span<const std::optional<LayerKv>> layers, kernels::KvType type);

}  // namespace reprise
