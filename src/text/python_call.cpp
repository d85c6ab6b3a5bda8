// PythonCallReader: Python's literals to JSON's as they arrive.
#include "text/python_call.h"

#include <cctype>

#include <fmt/core.h>

#include "text/json_scanner.h"

namespace reprise {
namespace {

bool is_word_byte(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) != 0 || byte == '_' || byte == '.' ||
         byte == '-' || byte == '+';
}

int hex_value(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

// A character in JSON's escapes. False: there is no such character.
bool append_character(std::string& out, std::uint32_t code) {
  if (code > 0x10FFFF) return false;
  if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    const std::uint32_t rest = code - 0x10000;
    out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  }
  return true;
}

}  // namespace

CallReader::Step PythonCallReader::push(char byte) {
  switch (place_) {
    case Place::text:
      return in_text(byte);
    case Place::escape:
      return in_escape(byte);
    case Place::hex:
      return in_hex(byte);
    case Place::scalar:
      return in_scalar(byte);
    case Place::name:
      return in_name(byte);
    case Place::in_argument:
      return in_argument(byte);
    default:
      break;
  }
  if (is_json_space(byte)) return Step::more;
  switch (place_) {
    case Place::first_argument:
      if (byte == ')') return close(byte);
      [[fallthrough]];
    case Place::argument:
      return begin_argument(byte);
    case Place::first_item:
      if (byte == ']') return close(byte);
      return begin_value(byte);
    case Place::first_key:
      if (byte == '}') return close(byte);
      [[fallthrough]];
    case Place::key:
      return begin_text(byte, true);
    case Place::colon:
      place_ = Place::value;
      arguments_ += ": ";
      return byte == ':' ? Step::more : Step::failed;
    case Place::next:
      return next(byte);
    default:
      return begin_value(byte);
  }
}

CallReader::Step PythonCallReader::in_name(char byte) {
  if (name_.empty() && is_json_space(byte)) return Step::more;
  if (byte == '(' && !name_.empty()) {
    has_name_ = true;
    arguments_ = '{';
    place_ = Place::first_argument;
    return Step::more;
  }
  name_ += byte;
  return is_word_byte(byte) && name_.size() <= kNameBytesMax ? Step::more : Step::failed;
}

CallReader::Step PythonCallReader::begin_argument(char byte) {
  place_ = Place::in_argument;
  word_.clear();
  return in_argument(byte);
}

CallReader::Step PythonCallReader::in_argument(char byte) {
  if (byte == '=' && !word_.empty()) {
    append_json_text(arguments_, word_);
    arguments_ += ": ";
    place_ = Place::value;
    return Step::more;
  }
  word_ += byte;
  return is_word_byte(byte) && word_.size() <= kNameBytesMax ? Step::more : Step::failed;
}

CallReader::Step PythonCallReader::begin_value(char byte) {
  if (byte == '[' || byte == '{') {
    arguments_ += byte;
    place_ = byte == '{' ? Place::first_key : Place::first_item;
    return containers_.open(byte == '{') ? Step::more : Step::failed;
  }
  if (byte == '"' || byte == '\'') return begin_text(byte, false);
  place_ = Place::scalar;
  word_ = byte;
  return is_word_byte(byte) ? Step::more : Step::failed;
}

CallReader::Step PythonCallReader::begin_text(char byte, bool is_key) {
  quote_ = byte;
  is_key_ = is_key;
  arguments_ += '"';
  place_ = Place::text;
  return byte == '"' || byte == '\'' ? Step::more : Step::failed;
}

CallReader::Step PythonCallReader::in_text(char byte) {
  if (byte == quote_) return end_text();
  if (byte == '\\') {
    place_ = Place::escape;
  } else {
    append_json_byte(arguments_, byte);
  }
  return Step::more;
}

CallReader::Step PythonCallReader::in_escape(char byte) {
  constexpr std::string_view kNames = "abfnrtv0";
  constexpr std::string_view kBytes{"\a\b\f\n\r\t\v\0", 8};
  place_ = Place::text;
  if (byte == 'x' || byte == 'u' || byte == 'U') {
    place_ = Place::hex;
    hex_left_ = byte == 'x' ? 2 : byte == 'u' ? 4 : 8;
    code_ = 0;
  } else if (const std::size_t index = kNames.find(byte); index != std::string_view::npos) {
    append_json_byte(arguments_, kBytes[index]);
  } else if (byte == '\\' || byte == '\'' || byte == '"') {
    append_json_byte(arguments_, byte);
  } else if (byte != '\n') {  // a line that goes on; else Python keeps both characters
    append_json_byte(arguments_, '\\');
    append_json_byte(arguments_, byte);
  }
  return Step::more;
}

CallReader::Step PythonCallReader::in_hex(char byte) {
  const int digit = hex_value(byte);
  if (digit < 0) return Step::failed;
  code_ = code_ << 4 | static_cast<std::uint32_t>(digit);
  if (--hex_left_ > 0) return Step::more;
  place_ = Place::text;
  return append_character(arguments_, code_) ? Step::more : Step::failed;
}

CallReader::Step PythonCallReader::end_text() {
  arguments_ += '"';
  place_ = is_key_ ? Place::colon : Place::next;
  return Step::more;
}

// A number or word ends with the byte behind it, which is its container's.
CallReader::Step PythonCallReader::in_scalar(char byte) {
  if (is_word_byte(byte)) {
    word_ += byte;
    return word_.size() <= kScalarBytesMax ? Step::more : Step::failed;
  }
  if (!append_json_scalar(arguments_, word_)) return Step::failed;
  place_ = Place::next;
  return is_json_space(byte) ? Step::more : next(byte);
}

CallReader::Step PythonCallReader::next(char byte) {
  if (byte != ',') return close(byte);
  arguments_ += ", ";
  const bool in_call = containers_.depth() == 0;
  place_ = in_call ? Place::argument : containers_.in_object() ? Place::key : Place::value;
  return Step::more;
}

CallReader::Step PythonCallReader::close(char byte) {
  if (containers_.depth() == 0) {
    arguments_ += '}';
    return byte == ')' ? Step::done : Step::failed;
  }
  if (byte != (containers_.in_object() ? '}' : ']')) return Step::failed;
  arguments_ += byte;
  containers_.close();
  place_ = Place::next;
  return Step::more;
}

}  // namespace reprise
