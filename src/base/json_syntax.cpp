// A second look at the text up to where the parser stopped.
#include "base/json_syntax.h"

#include <string>

namespace reprise {
namespace {

bool is_one_of(char letter, std::string_view letters) {
  return letters.find(letter) != std::string_view::npos;
}
bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}
bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}
bool is_beyond_ascii(char letter) {
  return static_cast<unsigned char>(letter) >= 0x80;
}

// Where the parser was: what it had read is well-formed.
struct Place {
  std::string open;  // brackets that are open
  char before = 0;   // the last byte outside of strings that is no space; a string's end: "
  bool in_string = false;
  bool in_escape = false;   // right behind a backslash
  bool behind_key = false;  // the last string is a member's name
};

Place place_at(std::string_view text, std::size_t at) {
  Place place;
  for (const char letter : text.substr(0, at)) {
    if (place.in_escape) {
      place.in_escape = false;
    } else if (place.in_string) {
      if (letter == '\\') place.in_escape = true;
      if (letter == '"') place.in_string = false;
    } else if (!is_one_of(letter, " \t\r\n")) {
      if (letter == '"') {
        place.in_string = true;
        place.behind_key = place.open.ends_with('{') && is_one_of(place.before, "{,");
      }
      if (is_one_of(letter, "{[")) place.open += letter;
      if (is_one_of(letter, "}]") && !place.open.empty()) place.open.pop_back();
      place.before = letter;
    }
  }
  return place;
}

std::string_view trouble_in_string(std::string_view text, std::size_t at, const Place& place) {
  constexpr std::size_t kEscapeBytes = 6;  // backslash, u, four digits
  if (place.in_escape) return "an unknown escape in a string";
  if (static_cast<unsigned char>(text[at]) < 0x20) {
    return "a control character in a string, expected an escape such as \\n";
  }
  if (is_beyond_ascii(text[at])) return "bytes that are not UTF-8";
  if (at >= kEscapeBytes && text.substr(at - kEscapeBytes, 2) == "\\u") {
    return "a lone surrogate, expected a pair";
  }
  return "syntax error";
}

}  // namespace

std::string_view json_syntax_trouble(std::string_view text, std::size_t at) {
  const Place place = place_at(text, at);
  if (place.in_string) return trouble_in_string(text, at, place);
  const char found = text[at], before = place.before, beside = at > 0 ? text[at - 1] : '\0';
  const bool wants_key = place.open.ends_with('{') && is_one_of(before, "{,");
  if (text.substr(at).starts_with("\xEF\xBB\xBF")) return "a byte order mark";
  if (found == '\'') return "a single quote, expected double quotes";
  if (found == '/' || found == '#') return "a comment, which JSON does not have";
  if (is_one_of(found, "}]") && before == ',') return "a comma before a closing bracket";
  const bool is_exponent = is_one_of(beside, "eE") && at > 1 && is_digit(text[at - 2]);
  if (is_one_of(found, ".+") || is_one_of(beside, "-.+") || is_exponent ||
      (beside == '0' && is_digit(found))) {
    return "a number in a form that JSON does not have";
  }
  if (wants_key && found != '"') return "expected a name in double quotes";
  if (before == '"' && place.behind_key) return "expected a colon behind the name";
  if (is_one_of(before, ":[,") || before == 0) {
    return is_letter(found) ? "a word other than true, false and null" : "expected a value";
  }
  return place.open.empty() ? "syntax error" : "expected a comma or a closing bracket";
}

}  // namespace reprise
