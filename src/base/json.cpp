// JSON over Boost.JSON's event parser: our own builder sees every key, so that duplicates are
// errors.
#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>
#include <fmt/core.h>

#include "base/json_syntax.h"

namespace reprise {
namespace {

namespace json = boost::json;
using json::error_code;

std::string_view view(json::string_view text) {
  return {text.data(), text.size()};
}

// Receives the parser's events. Its own complaints are kept in `complaint`; the parser then stops.
class Builder {
 public:
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);

  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  JsonValue result;
  std::string complaint;

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_array_begin(error_code&) { return open(JsonArray()); }
  bool on_array_end(std::size_t, error_code&) { return close(); }
  bool on_object_begin(error_code&) { return open(JsonObject()); }
  bool on_object_end(std::size_t, error_code&) { return close(); }
  bool on_key_part(json::string_view part, std::size_t, error_code&) { return collect(part); }
  bool on_string_part(json::string_view part, std::size_t, error_code&) { return collect(part); }
  bool on_number_part(json::string_view part, error_code&) { return collect(part); }
  bool on_comment_part(json::string_view, error_code&) { return true; }
  bool on_comment(json::string_view, error_code&) { return true; }
  bool on_bool(bool flag, error_code&) { return add(flag); }
  bool on_null(error_code&) { return add(nullptr); }

  bool on_key(json::string_view rest, std::size_t, error_code& error) {
    std::string key = take(rest);
    if (has_nul(key)) return complain("a NUL character in a name", error);
    Frame& frame = frames_.back();
    if (!limits_.takes_duplicates && frame.value.get_object().contains(key)) {
      return complain(fmt::format("the name \"{}\" twice in one object", quotable(key)), error);
    }
    frame.key = std::move(key);
    return true;
  }

  bool on_string(json::string_view rest, std::size_t, error_code& error) {
    const std::string text = take(rest);
    if (has_nul(text)) return complain("a NUL character in a string", error);
    return add(json::string(text));
  }

  bool on_int64(std::int64_t number, json::string_view, error_code&) {
    pending_.clear();
    return add(number);
  }
  bool on_uint64(std::uint64_t number, json::string_view, error_code&) {
    pending_.clear();
    return add(number);
  }
  // The parser's own double may be off by an ulp; the digits are read again.
  bool on_double(double rough, json::string_view rest, error_code& error) {
    const std::string digits = take(rest);
    double number = 0;
    const auto [end, trouble] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (trouble == std::errc::result_out_of_range) {
      if (!(std::abs(rough) < 1)) return complain("a number beyond double precision", error);
      number = std::copysign(0.0, rough);
    } else if (trouble != std::errc() || end != digits.data() + digits.size()) {
      return complain("a number that cannot be read", error);
    }
    return add(number);
  }

 private:
  struct Frame {
    JsonValue value;
    std::string key;  // of the member that comes next
  };

  bool has_nul(const std::string& text) const {
    return !limits_.takes_nul && text.find('\0') != std::string::npos;
  }
  bool complain(std::string what, error_code& error) {
    complaint = std::move(what);
    error = json::make_error_code(json::error::exception);
    return false;
  }
  bool collect(json::string_view part) {
    pending_.append(part.data(), part.size());
    return true;
  }
  std::string take(json::string_view rest) {
    pending_.append(rest.data(), rest.size());
    return std::exchange(pending_, {});
  }
  bool open(JsonValue container) {
    frames_.push_back({std::move(container), {}});
    return true;
  }
  bool close() {
    JsonValue done = std::move(frames_.back().value);
    frames_.pop_back();
    return add(std::move(done));
  }
  bool add(JsonValue value) {
    if (frames_.empty()) {
      result = std::move(value);
    } else if (Frame& frame = frames_.back(); frame.value.is_array()) {
      frame.value.get_array().push_back(std::move(value));
    } else {
      frame.value.get_object().insert_or_assign(frame.key, std::move(value));
    }
    return true;
  }

  const JsonLimits& limits_;
  std::vector<Frame> frames_;
  std::string pending_;  // parts of the text or number being read
};

// Brackets that are open at once, at most, outside strings.
std::size_t nesting_depth(std::string_view text) {
  std::size_t depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); at++) {
    const char letter = text[at];
    if (letter == '"') in_string = !in_string;
    if (in_string) {
      if (letter == '\\') ++at;
    } else if (letter == '[' || letter == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((letter == ']' || letter == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

std::string describe(const error_code& error, const Builder& builder, std::string_view text,
                     std::size_t read, const JsonLimits& limits) {
  if (!builder.complaint.empty()) return builder.complaint;
  if (error == json::error::too_deep) {
    return fmt::format("got {} levels of nesting, expected at most {}", nesting_depth(text),
                       limits.depth_max);
  }
  if (error == json::error::incomplete) return "the text ends too early";
  if (error == json::error::illegal_leading_surrogate ||
      error == json::error::illegal_trailing_surrogate) {
    return "a lone surrogate, expected a pair";
  }
  if (error != json::error::syntax || read >= text.size()) return error.message();
  return std::string(json_syntax_trouble(text, read));
}

// Length of the UTF-8 character that `text` begins with; 0 when it begins with none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t index) {
    return index < text.size() ? static_cast<unsigned char>(text[index]) : 0u;
  };
  const auto follows = [&](std::size_t index) { return (byte(index) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (first == 0xE0 && byte(1) < 0xA0) return 0;   // overlong
    if (first == 0xED && byte(1) >= 0xA0) return 0;  // surrogates
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (first == 0xF0 && byte(1) < 0x90) return 0;   // overlong
    if (first == 0xF4 && byte(1) >= 0x90) return 0;  // beyond U+10FFFF
    return follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

// The code point of a character that JSON prints as it is, but that moves or hides what stands
// beside it: DEL, C1 controls, line separators, changes of direction. 0 of all others.
unsigned invisible_character(std::string_view character) {
  const auto byte = [&](std::size_t index) {
    return static_cast<unsigned>(static_cast<unsigned char>(character[index]));
  };
  unsigned code = 0;
  if (character.size() == 1) code = byte(0);
  if (character.size() == 2) code = (byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
  if (character.size() == 3) {
    code = (byte(0) & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
  }
  const bool is_control = code >= 0x7F && code < 0xA0;
  const bool moves_text = (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return is_control || moves_text ? code : 0;
}

template <class Number>
void append_shortest(std::string& out, Number number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  char digits[64];
  const auto [end, trouble] = std::to_chars(digits, digits + sizeof digits, number);
  static_cast<void>(trouble);  // 64 characters hold any shortest form
  const std::string_view text(digits, static_cast<std::size_t>(end - digits));
  out += text;
  // "-0" and "1" would come back as integers from many readers.
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void append_value(std::string& out, const JsonValue& value);

void append_array(std::string& out, const JsonArray& array) {
  out += '[';
  bool first = true;
  for (const JsonValue& item : array) {
    if (!std::exchange(first, false)) out += ',';
    append_value(out, item);
  }
  out += ']';
}

void append_object(std::string& out, const JsonObject& object) {
  out += '{';
  bool first = true;
  for (const auto& member : object) {
    if (!std::exchange(first, false)) out += ',';
    append_json_text(out, view(member.key()));
    out += ':';
    append_value(out, member.value());
  }
  out += '}';
}

void append_value(std::string& out, const JsonValue& value) {
  switch (value.kind()) {
    case json::kind::null:
      out += "null";
      return;
    case json::kind::bool_:
      out += value.get_bool() ? "true" : "false";
      return;
    case json::kind::int64:
      out += fmt::format("{}", value.get_int64());
      return;
    case json::kind::uint64:
      out += fmt::format("{}", value.get_uint64());
      return;
    case json::kind::double_:
      append_json_number(out, value.get_double());
      return;
    case json::kind::string:
      append_json_text(out, view(value.get_string()));
      return;
    case json::kind::array:
      append_array(out, value.get_array());
      return;
    case json::kind::object:
      append_object(out, value.get_object());
      return;
  }
}

}  // namespace

Result<JsonValue> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return fail(Errc::invalid_argument, fmt::format("JSON text: got {} bytes, expected at most {}",
                                                    text.size(), limits.bytes_max));
  }
  json::parse_options options;
  options.max_depth = limits.depth_max;
  json::basic_parser<Builder> parser(options, limits);
  error_code error;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), error);
  const Builder& builder = parser.handler();
  if (error) {
    return fail(Errc::invalid_argument, fmt::format("invalid JSON at byte {}: {}", read,
                                                    describe(error, builder, text, read, limits)));
  }
  if (read != text.size()) {
    return fail(Errc::invalid_argument,
                fmt::format("invalid JSON at byte {}: more text after the value", read));
  }
  return std::move(parser.handler().result);
}

std::string to_json(const JsonValue& value) {
  std::string out;
  append_value(out, value);
  return out;
}

void append_json_text(std::string& out, std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  out += '"';
  while (!text.empty()) {
    const unsigned char first = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    if (first == '"' || first == '\\') {
      out += '\\';
      out += text.front();
    } else if (first == '\n') {
      out += "\\n";
    } else if (first == '\r') {
      out += "\\r";
    } else if (first == '\t') {
      out += "\\t";
    } else if (first < 0x20) {
      out += fmt::format("\\u{:04x}", first);
    } else {
      out += length == 0 ? kReplacement : text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

std::string quotable(std::string_view text, std::size_t bytes_max) {
  std::size_t end = std::min(text.size(), bytes_max);
  if (end < text.size()) {
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  }
  std::string quoted;
  append_json_text(quoted, text.substr(0, end));
  std::string_view rest(quoted);
  rest = rest.substr(1, rest.size() - 2);
  std::string out;
  while (!rest.empty()) {
    const std::size_t length = std::max<std::size_t>(utf8_length(rest), 1);
    if (const unsigned code = invisible_character(rest.substr(0, length)); code != 0) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += rest.substr(0, length);
    }
    rest.remove_prefix(length);
  }
  if (end < text.size()) out += "...";
  return out;
}

void append_json_number(std::string& out, double number) {
  append_shortest(out, number);
}
void append_json_number(std::string& out, float number) {
  append_shortest(out, number);
}

}  // namespace reprise
