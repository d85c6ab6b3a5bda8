// GGUF header: counts and sizes are checked against the bytes that are there before they are used.
// Source: ggml's docs/gguf.md. All views point into the file, so nothing large is copied.
#include "model/gguf_header.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/core.h>

#include "base/check.h"

namespace reprise::gguf {

namespace {

constexpr std::uint64_t kNameBytesMax = 65535;      // ggml's limit for keys
constexpr std::uint64_t kArrayItemsMax = 1u << 24;  // ten times the largest merge list
constexpr std::uint64_t kMetadataBytesMin = 14;     // one-letter key, type, one byte of value
constexpr std::uint64_t kTensorBytesMin = 33;       // one-letter name, one dimension
constexpr std::uint64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kDimensionsMax = 4;

enum class ValueType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  array,
  u64,
  i64,
  f64
};

// Well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF).
bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || text.size() - i < size) return false;
    for (std::size_t k = 1; k < size; k++) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      unsigned char low = 0x80, high = 0xBF;
      if (k == 1 && lead == 0xE0) low = 0xA0;
      if (k == 1 && lead == 0xED) high = 0x9F;
      if (k == 1 && lead == 0xF0) low = 0x90;
      if (k == 1 && lead == 0xF4) high = 0x8F;
      if (next < low || next > high) return false;
    }
    i += size;
  }
  return true;
}

}  // namespace

std::unexpected<Error> key_error(Errc code, std::string_view key, const std::string& what) {
  const std::string shown = printable(key);
  return fail(code, fmt::format("metadata key '{}': {}", shown, what), shown);
}

std::unexpected<Error> tensor_error(Errc code, std::string_view name, const std::string& what) {
  const std::string shown = printable(name);
  return fail(code, fmt::format("tensor '{}': {}", shown, what), shown);
}

Status HeaderReader::read_preamble(int& version, std::uint64_t& tensor_count,
                                   std::uint64_t& metadata_count) {
  const auto magic = reader_.read_text(4);
  if (!magic || *magic != "GGUF") {
    return fail(Errc::corrupt, fmt::format("not a GGUF file: it starts with '{}', expected 'GGUF'",
                                           printable(magic.value_or(""))));
  }
  const auto number = reader_.read<std::uint32_t>();
  if (!number) return fail(Errc::corrupt, "GGUF version: " + missing(4));
  if (*number != 2 && *number != 3) {
    const bool swapped = (*number & 0xFFFFu) == 0 && *number != 0;
    return fail(Errc::unsupported,
                fmt::format("GGUF version {}{}, expected 2 or 3 (little-endian)", *number,
                            swapped ? " (the file is big-endian)" : ""));
  }
  version = static_cast<int>(*number);
  const auto tensors = reader_.read<std::uint64_t>();
  const auto keys = tensors ? reader_.read<std::uint64_t>() : std::nullopt;
  if (!keys) return fail(Errc::corrupt, "GGUF tensor and key counts: " + missing(8));
  const std::uint64_t keys_max = reader_.remaining() / kMetadataBytesMin;
  if (*keys > keys_max) {
    return fail(Errc::corrupt, fmt::format("GGUF key count {}: the file has bytes for at most {}",
                                           *keys, keys_max));
  }
  const std::uint64_t tensors_max = reader_.remaining() / kTensorBytesMin;
  if (*tensors > tensors_max) {
    return fail(Errc::corrupt,
                fmt::format("GGUF tensor count {}: the file has bytes for at most {}", *tensors,
                            tensors_max));
  }
  tensor_count = *tensors;
  metadata_count = *keys;
  return {};
}

Result<std::string_view> HeaderReader::read_name(const char* what, std::uint64_t index) {
  const auto size = reader_.read<std::uint64_t>();
  if (!size) return fail(Errc::corrupt, fmt::format("name of {} {}: {}", what, index, missing(8)));
  if (*size == 0 || *size > kNameBytesMax) {
    return fail(Errc::corrupt, fmt::format("name of {} {}: {} bytes long, expected 1..{}", what,
                                           index, *size, kNameBytesMax));
  }
  const auto name = reader_.read_text(*size);
  if (!name) {
    return fail(Errc::corrupt, fmt::format("name of {} {}: {}", what, index, missing(*size)));
  }
  if (!is_utf8(*name)) {
    return fail(Errc::corrupt,
                fmt::format("name of {} {}: '{}' is not UTF-8", what, index, printable(*name)));
  }
  return *name;
}

template <class T>
Result<GgufValue> HeaderReader::read_scalar(std::string_view key) {
  TRY_ASSIGN(const T value, read_number<T>(key));
  if constexpr (std::is_floating_point_v<T>) {
    return GgufValue(static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (value > kInt64Max) {
      return GgufValue(value);
    }
  }
  return GgufValue(static_cast<std::int64_t>(value));
}

Result<GgufValue> HeaderReader::read_bool(std::string_view key) {
  TRY_ASSIGN(const std::uint8_t value, read_number<std::uint8_t>(key));
  if (value > 1) {
    return key_error(Errc::corrupt, key, fmt::format("a bool of {}, expected 0 or 1", value));
  }
  return GgufValue(value == 1);
}

Result<std::string_view> HeaderReader::read_text(std::string_view key) {
  TRY_ASSIGN(const std::uint64_t size, read_number<std::uint64_t>(key));
  const auto text = reader_.read_text(size);
  if (!text) return key_error(Errc::corrupt, key, missing(size));
  return *text;
}

template <class T, class Item>
Result<GgufValue> HeaderReader::read_items(std::string_view key, std::uint64_t count) {
  const auto size = checked_multiply(count, sizeof(T));
  CHECK(size.has_value());  // count was checked against the bytes left
  const auto bytes = reader_.read_bytes(*size);
  CHECK(bytes.has_value());
  std::vector<Item> items(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < items.size(); i++) {
    T item;
    std::memcpy(&item, bytes->data() + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (item > kInt64Max) {
        return key_error(Errc::unsupported, key,
                         fmt::format("item {} is {}, expected less than 2^63", i, item));
      }
    }
    items[i] = static_cast<Item>(item);
  }
  return GgufValue(GgufArray{std::move(items)});
}

Result<GgufValue> HeaderReader::read_texts(std::string_view key, std::uint64_t count) {
  std::vector<std::string_view> items;
  items.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; i++) {
    const auto size = reader_.read<std::uint64_t>();
    const auto text = size ? reader_.read_text(*size) : std::nullopt;
    if (!text) {
      return key_error(Errc::corrupt, key,
                       fmt::format("item {} of {}: {}", i, count, missing(size.value_or(8))));
    }
    items.push_back(*text);
  }
  return GgufValue(GgufArray{std::move(items)});
}

Result<GgufValue> HeaderReader::read_bools(std::string_view key, std::uint64_t count) {
  TRY_ASSIGN(GgufValue value, read_items<std::uint8_t, std::int64_t>(key, count));
  const auto& items = std::get<0>(std::get<GgufArray>(value).items);
  for (std::size_t i = 0; i < items.size(); i++) {
    if (items[i] > 1) {
      return key_error(Errc::corrupt, key,
                       fmt::format("item {} is a bool of {}, expected 0 or 1", i, items[i]));
    }
  }
  return value;
}

// Bytes that one item takes in the file at least; 0 for types that an array cannot hold.
std::uint64_t item_bytes(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
    case ValueType::text:
      return 8;
    case ValueType::array:
      break;
  }
  return 0;
}

Result<GgufValue> HeaderReader::read_array(std::string_view key) {
  TRY_ASSIGN(const std::uint32_t type_id, read_number<std::uint32_t>(key));
  TRY_ASSIGN(const std::uint64_t count, read_number<std::uint64_t>(key));
  const auto type = static_cast<ValueType>(type_id);
  if (type == ValueType::array) {
    return key_error(Errc::unsupported, key,
                     fmt::format("an array of {} arrays, expected plain values", count));
  }
  const std::uint64_t bytes = item_bytes(type);
  if (bytes == 0) {
    return key_error(Errc::unsupported, key,
                     fmt::format("array items of value type {}, expected 0..12", type_id));
  }
  if (count > reader_.remaining() / bytes) {
    return key_error(Errc::corrupt, key,
                     fmt::format("an array of {} items of at least {} bytes, but {} bytes are left",
                                 count, bytes, reader_.remaining()));
  }
  if (count > kArrayItemsMax) {
    return key_error(
        Errc::unsupported, key,
        fmt::format("an array of {} items, expected at most {}", count, kArrayItemsMax));
  }
  switch (type) {
    case ValueType::u8:
      return read_items<std::uint8_t, std::int64_t>(key, count);
    case ValueType::i8:
      return read_items<std::int8_t, std::int64_t>(key, count);
    case ValueType::u16:
      return read_items<std::uint16_t, std::int64_t>(key, count);
    case ValueType::i16:
      return read_items<std::int16_t, std::int64_t>(key, count);
    case ValueType::u32:
      return read_items<std::uint32_t, std::int64_t>(key, count);
    case ValueType::i32:
      return read_items<std::int32_t, std::int64_t>(key, count);
    case ValueType::u64:
      return read_items<std::uint64_t, std::int64_t>(key, count);
    case ValueType::i64:
      return read_items<std::int64_t, std::int64_t>(key, count);
    case ValueType::f32:
      return read_items<float, double>(key, count);
    case ValueType::f64:
      return read_items<double, double>(key, count);
    case ValueType::boolean:
      return read_bools(key, count);
    case ValueType::text:
      return read_texts(key, count);
    case ValueType::array:
      break;
  }
  CHECK(false);
}

Result<GgufValue> HeaderReader::read_value(std::string_view key) {
  TRY_ASSIGN(const std::uint32_t type_id, read_number<std::uint32_t>(key));
  switch (static_cast<ValueType>(type_id)) {
    case ValueType::u8:
      return read_scalar<std::uint8_t>(key);
    case ValueType::i8:
      return read_scalar<std::int8_t>(key);
    case ValueType::u16:
      return read_scalar<std::uint16_t>(key);
    case ValueType::i16:
      return read_scalar<std::int16_t>(key);
    case ValueType::u32:
      return read_scalar<std::uint32_t>(key);
    case ValueType::i32:
      return read_scalar<std::int32_t>(key);
    case ValueType::u64:
      return read_scalar<std::uint64_t>(key);
    case ValueType::i64:
      return read_scalar<std::int64_t>(key);
    case ValueType::f32:
      return read_scalar<float>(key);
    case ValueType::f64:
      return read_scalar<double>(key);
    case ValueType::boolean:
      return read_bool(key);
    case ValueType::array:
      return read_array(key);
    case ValueType::text: {
      TRY_ASSIGN(const std::string_view text, read_text(key));
      return GgufValue(text);
    }
  }
  return key_error(Errc::unsupported, key, fmt::format("value type {}, expected 0..12", type_id));
}

// Shape, type and offset (still relative to the data section); the bytes come later.
Result<GgufTensor> HeaderReader::read_tensor(std::string_view name) {
  GgufTensor tensor;
  tensor.name = name;
  const auto dimensions = reader_.read<std::uint32_t>();
  if (!dimensions) return tensor_error(Errc::corrupt, name, missing(4));
  if (*dimensions < 1 || *dimensions > kDimensionsMax) {
    return tensor_error(Errc::corrupt, name,
                        fmt::format("{} dimensions, expected 1..{}", *dimensions, kDimensionsMax));
  }
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < *dimensions; i++) {
    const auto dim = reader_.read<std::uint64_t>();
    if (!dim) return tensor_error(Errc::corrupt, name, missing(8));
    if (*dim == 0) {
      return tensor_error(Errc::corrupt, name,
                          fmt::format("dimension {} is 0, expected at least 1", i));
    }
    const auto product = checked_multiply(elements, *dim);
    if (!product || *product > kInt64Max) {
      return tensor_error(
          Errc::corrupt, name,
          fmt::format("{} times {} elements, expected less than 2^63", elements, *dim));
    }
    elements = *product;
    tensor.dims.push_back(static_cast<std::int64_t>(*dim));
  }
  const auto type_id = reader_.read<std::uint32_t>();
  if (!type_id) return tensor_error(Errc::corrupt, name, missing(4));
  const auto offset = reader_.read<std::uint64_t>();
  if (!offset) return tensor_error(Errc::corrupt, name, missing(8));
  tensor.type_id = *type_id;
  tensor.offset = *offset;
  return tensor;
}

}  // namespace reprise::gguf
