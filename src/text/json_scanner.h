// JSON taken byte by byte, to find where a value ends and whether it can still become one.
#pragma once
#include <cstdint>
#include <string_view>

namespace reprise {

// Reads one JSON object, array or string (those tell by themselves where they end). Does not look
// at UTF-8, surrogates and repeated names: parse_json does, when the text is whole. Depth is
// limited to that of parse_json.
class JsonScanner {
 public:
  enum class Step : std::uint8_t {
    more,
    done,    // with this byte the value is whole
    failed,  // with this byte it can never be
  };
  Step push(char byte);

 private:
  enum class State : std::uint8_t {
    value,       // a value must follow
    first_item,  // after [: a value or ]
    first_key,   // after {: a name or }
    key,         // after a comma in an object
    colon,
    separator,  // after a value inside a container: comma or its end
    text,       // in a string
    escape,     // after a backslash
    hex,        // in the digits of \u
    minus,      // a digit must follow
    zero,       // a number that began with 0
    digits,     // in the digits before a point
    point,      // a digit must follow
    fraction,
    exponent,       // a sign or digit must follow
    exponent_sign,  // a digit must follow
    exponent_digits,
    word,  // in true, false, null
  };

  Step begin_value(char byte);
  Step in_text(char byte);
  Step in_number(char byte);
  Step in_word(char byte);
  Step end_number(char byte);
  Step open(bool is_object);
  Step close(bool is_object);
  Step end_value();
  bool in_object() const { return (objects_ >> (depth_ - 1) & 1) != 0; }

  State state_ = State::value;
  std::uint64_t objects_ = 0;  // bit d: the container of depth d + 1 is an object
  int depth_ = 0;
  bool is_key_ = false;  // of the string being read
  int hex_left_ = 0;
  std::string_view word_left_;
};

inline bool is_json_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

}  // namespace reprise
