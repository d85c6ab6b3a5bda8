// Moves the keys and values of single places in and out of a page's blocks (kernels/kv_block.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "kv/kv_layout.h"

namespace reprise {

// Copies places [0, places) of every layer and head; the rest of `to` stays as it is.
void copy_first_places(const SpanGroup& group, const std::uint8_t* from, std::uint8_t* to,
                       int places);

// The block of one layer and head, and the bytes of one place of it as rows [head_dim], [value_dim]
// of the group's KV type; in int8 each row's scale (f32) stands behind its elements.
void read_place(const kernels::KvShape& shape, const std::uint8_t* block, int place,
                std::byte* key_row, std::byte* value_row);
void write_place(const kernels::KvShape& shape, std::uint8_t* block, int place,
                 const std::byte* key_row, const std::byte* value_row);
// The place as floats; int8 is dequantised: element * scale.
void read_place_floats(const kernels::KvShape& shape, const std::uint8_t* block, int place,
                       std::span<float> key, std::span<float> value);

}  // namespace reprise
