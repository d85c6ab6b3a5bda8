// The only code above the kernels that knows how places interleave inside a page.
#include "kv/page_places.h"

#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/math.h"

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

// The scales of the first places, behind the elements.
void copy_scales(const kernels::KvShape& shape, const std::uint8_t* from, std::uint8_t* to,
                 int places) {
  const std::size_t bytes = shape.scale_bytes() * static_cast<std::size_t>(places);
  for (const std::size_t start : {shape.key_scale_offset(0), shape.value_scale_offset(0)})
    std::memcpy(to + start, from + start, bytes);
}

// `count` elements of a row of the type, as floats; the row's scale is behind them.
void widen(kernels::KvType type, const std::byte* row, int count, float* out) {
  const auto at = [&]<class T>(T, int i) {
    T element;
    std::memcpy(&element, row + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return element;
  };
  float scale = 0.0f;
  if (type == kernels::KvType::int8) std::memcpy(&scale, row + count, sizeof(scale));
  for (int i = 0; i < count; i++) {
    switch (type) {
      case kernels::KvType::f16:
        out[i] = kernels::half_to_float(at(std::uint16_t{}, i));
        break;
      case kernels::KvType::bf16:
        out[i] = kernels::bfloat_to_float(at(std::uint16_t{}, i));
        break;
      case kernels::KvType::f32:
        out[i] = at(float{}, i);
        break;
      case kernels::KvType::int8:
        out[i] = static_cast<float>(at(std::int8_t{}, i)) * scale;
        break;
    }
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
    copy_scales(shape, from + start, to + start, places);
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
  std::memcpy(key_row, block + shape.key_scale_offset(place), shape.scale_bytes());
  std::memcpy(value_row, block + shape.value_scale_offset(place), shape.scale_bytes());
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
  std::memcpy(block + shape.key_scale_offset(place), key_row, shape.scale_bytes());
  std::memcpy(block + shape.value_scale_offset(place), value_row, shape.scale_bytes());
}

void read_place_floats(const kernels::KvShape& shape, const std::uint8_t* block, int place,
                       std::span<float> key, std::span<float> value) {
  CHECK(key.size() == static_cast<std::size_t>(shape.head_dim));
  CHECK(value.size() == static_cast<std::size_t>(shape.value_dim));
  std::vector<std::byte> key_row(shape.key_row_bytes());
  std::vector<std::byte> value_row(shape.value_row_bytes());
  read_place(shape, block, place, key_row.data(), value_row.data());
  widen(shape.type, key_row.data(), shape.head_dim, key.data());
  widen(shape.type, value_row.data(), shape.value_dim, value.data());
}

}  // namespace reprise
