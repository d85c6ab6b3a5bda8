// The only code above the kernels that knows how places interleave inside a page.
#include "kv/page_places.h"

#include <cstring>

namespace reprise {
namespace {

constexpr int kTile = 16;  // positions of keys, or dimensions of values, side by side

void copy_keys(const kernels::KvShape& shape, const std::uint8_t* from, std::uint8_t* to,
               int places) {
  const std::size_t element = shape.element_bytes();
  const std::size_t whole = shape.key_index(places / kTile * kTile, 0) * element;
  std::memcpy(to, from, whole);
  const std::size_t rest = static_cast<std::size_t>(places % kTile) * element;
  if (rest == 0) return;
  for (int d = 0; d < shape.head_dim; d++) {
    const std::size_t start = whole + static_cast<std::size_t>(d) * kTile * element;
    std::memcpy(to + start, from + start, rest);
  }
}

void copy_values(const kernels::KvShape& shape, const std::uint8_t* from, std::uint8_t* to,
                 int places) {
  const std::size_t element = shape.element_bytes();
  const std::size_t size = static_cast<std::size_t>(places) * kTile * element;
  for (int d = 0; d < shape.value_dim; d += kTile) {
    const std::size_t start = kernels::KvShape::value_index(0, d) * element;
    std::memcpy(to + start, from + start, size);
  }
}

}  // namespace

void copy_first_places(const SpanGroup& group, const std::uint8_t* from, std::uint8_t* to,
                       int places) {
  const kernels::KvShape& shape = group.shape;
  const std::size_t blocks = group.page_bytes() / shape.block_bytes();
  for (std::size_t block = 0; block < blocks; block++) {
    const std::size_t start = block * shape.block_bytes();
    copy_keys(shape, from + start, to + start, places);
    copy_values(shape, from + start + shape.keys_bytes(), to + start + shape.keys_bytes(), places);
  }
}

void read_place(const kernels::KvShape& shape, const std::uint8_t* block, int place,
                std::byte* key_row, std::byte* value_row) {
  const std::size_t element = shape.element_bytes();
  for (int d = 0; d < shape.head_dim; d++) {
    std::memcpy(key_row, block + shape.key_index(place, d) * element, element);
    key_row += element;
  }
  const std::uint8_t* values = block + shape.keys_bytes();
  for (int d = 0; d < shape.value_dim; d += kTile) {
    const std::size_t start = kernels::KvShape::value_index(place, d) * element;
    std::memcpy(value_row, values + start, kTile * element);
    value_row += kTile * element;
  }
}

void write_place(const kernels::KvShape& shape, std::uint8_t* block, int place,
                 const std::byte* key_row, const std::byte* value_row) {
  const std::size_t element = shape.element_bytes();
  for (int d = 0; d < shape.head_dim; d++) {
    std::memcpy(block + shape.key_index(place, d) * element, key_row, element);
    key_row += element;
  }
  std::uint8_t* values = block + shape.keys_bytes();
  for (int d = 0; d < shape.value_dim; d += kTile) {
    const std::size_t start = kernels::KvShape::value_index(place, d) * element;
    std::memcpy(values + start, value_row, kTile * element);
    value_row += kTile * element;
  }
}

}  // namespace reprise
