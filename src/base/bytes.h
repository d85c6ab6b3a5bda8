// Bounded little-endian reading and overflow-checked sizes, for bytes that come from outside.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace reprise {

static_assert(std::endian::native == std::endian::little, "file formats are read in place");

inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Reads values in order; every read says whether the bytes were there. Never reads past the span.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }

  template <class T>
    requires std::is_arithmetic_v<T>
  std::optional<T> read() {
    if (remaining() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  // A view of the next `size` bytes, valid as long as the underlying span.
  std::optional<std::span<const std::byte>> read_bytes(std::uint64_t size) {
    if (size > remaining()) return std::nullopt;
    const auto view = bytes_.subspan(position_, static_cast<std::size_t>(size));
    position_ += static_cast<std::size_t>(size);
    return view;
  }

  std::optional<std::string_view> read_text(std::uint64_t size) {
    const auto view = read_bytes(size);
    if (!view) return std::nullopt;
    return std::string_view(reinterpret_cast<const char*>(view->data()), view->size());
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

}  // namespace reprise
