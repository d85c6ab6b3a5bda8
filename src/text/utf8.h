// Bytes that arrive in pieces to valid UTF-8.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace reprise {

// How the bytes at the front of a text begin.
struct Utf8Front {
  enum class Kind {
    character,   // a whole character of `size` bytes
    incomplete,  // all bytes there are, the beginning of a character
    invalid,     // `size` bytes that can never become a character together
  };
  Kind kind;
  std::size_t size;
};

// `bytes` must not be empty. Invalid bytes are cut as Unicode recommends (the maximal subpart),
// which is what Rust's and Python's lossy decoders do.
Utf8Front utf8_front(std::string_view bytes);

// Takes from `pending` what is decided: whole characters as they are, U+FFFD for invalid parts; the
// beginning of a character stays in `pending`.
std::string take_utf8(std::string& pending);

bool is_utf8(std::string_view text);

// How many characters begin in `text`: of valid UTF-8, all that it has.
std::size_t count_characters(std::string_view text);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace reprise
