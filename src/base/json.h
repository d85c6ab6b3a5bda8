// JSON, configured in one place: Boost.JSON values, with duplicate keys, depth, size, invalid UTF-8
// and NUL bytes as errors, but for what limits permit.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/error.h"

namespace reprise {

using JsonValue = boost::json::value;
using JsonObject = boost::json::object;
using JsonArray = boost::json::array;

struct JsonLimits {
  std::size_t depth_max = 64;
  std::size_t bytes_max = std::size_t{16} << 20;
  bool takes_duplicates = false;  // of several members with one name the last counts
  bool takes_nul = false;         // \u0000 in names and strings
};

// Errors: invalid_argument; says what and at which byte; sizes and depths with what was got and
// what is allowed. Nesting costs no stack.
Result<JsonValue> parse_json(std::string_view text, const JsonLimits& limits = {});

// What a client sent, for a line that quotes it: at most `bytes_max` bytes of it ("..." follows
// what was cut), cut between characters; quotes, control characters and what changes the direction
// of text as JSON escapes, bytes that are not UTF-8 as U+FFFD.
std::string quotable(std::string_view text, std::size_t bytes_max = 64);

// Compact, UTF-8 as it is. Numbers print so that reading them back gives the same bits.
std::string to_json(const JsonValue& value);

// The pieces of to_json, for code that writes JSON without building values first.
// `text` becomes a quoted string; bytes that are not UTF-8 become U+FFFD.
void append_json_text(std::string& out, std::string_view text);
// Shortest digits that read back as the same number of that type, always with a fraction or
// exponent; what JSON cannot say (NaN, infinities) becomes null.
void append_json_number(std::string& out, double number);
void append_json_number(std::string& out, float number);

}  // namespace reprise
