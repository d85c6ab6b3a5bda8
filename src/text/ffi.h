// Owners and conversions for text-ffi's C types. Internal to this room.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text_ffi.h"

namespace reprise::ffi {

inline TextSlice slice(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// A buffer that the library fills; given back at the end.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { text_buffer_free(&buffer_); }

  TextBuffer* out() { return &buffer_; }
  std::string text() const {
    return std::string(reinterpret_cast<const char*>(buffer_.data), buffer_.size);
  }

 private:
  TextBuffer buffer_{};
};

// An error of a failed call. `field` as in Error.
std::unexpected<Error> failure(TextStatus status, const Buffer& message, std::string field = {});

}  // namespace reprise::ffi
