// Builds the span groups of a model and counts what sequences occupy.
#include "kv/kv_layout.h"

#include <algorithm>

#include "base/check.h"

namespace reprise {
namespace {

bool is_same_group(const SpanGroup& group, const LayerKv& layer) {
  return group.span == layer.span && group.kv_heads == layer.kv_heads &&
         group.shape.head_dim == layer.head_dim && group.shape.value_dim == layer.value_dim;
}

void check_layer(const LayerKv& layer) {
  CHECK(layer.kv_heads > 0);
  CHECK(layer.head_dim > 0 && layer.head_dim % 16 == 0 && layer.head_dim <= kernels::kHeadDimMax);
  CHECK(layer.value_dim > 0 && layer.value_dim % 16 == 0 &&
        layer.value_dim <= kernels::kHeadDimMax);
  CHECK(layer.span.kind == SpanKind::standard || layer.span.size > 0);
}

}  // namespace

std::size_t KvLayout::sequence_bytes(Position length) const {
  std::size_t bytes = 0;
  for (const SpanGroup& group : groups) {
    const Position first = group.span.kept(length).begin / kPagePositions;
    const Position end = (length + kPagePositions - 1) / kPagePositions;
    bytes += static_cast<std::size_t>(end - std::min(first, end)) * group.page_bytes();
  }
  return bytes;
}

KvLayout make_kv_layout(std::span<const std::optional<LayerKv>> layers, kernels::KvType type) {
  KvLayout layout;
  for (std::size_t index = 0; index < layers.size(); index++) {
    LayerPlace place;
    if (layers[index]) {
      LayerKv layer = *layers[index];
      check_layer(layer);
      if (layer.span.kind == SpanKind::standard) layer.span.size = 0;
      auto group = std::find_if(layout.groups.begin(), layout.groups.end(),
                                [&](const SpanGroup& it) { return is_same_group(it, layer); });
      if (group == layout.groups.end()) {
        layout.groups.push_back({.span = layer.span,
                                 .kv_heads = layer.kv_heads,
                                 .shape = {type, layer.head_dim, layer.value_dim},
                                 .layers = {}});
        group = layout.groups.end() - 1;
      }
      place.group = static_cast<int>(group - layout.groups.begin());
      place.index = static_cast<int>(group->layers.size());
      group->layers.push_back(static_cast<int>(index));
    }
    layout.layers.push_back(place);
  }
  return layout;
}

}  // namespace reprise
