// Patterns, formats and lengths of bare strings.
#include "text/bare_text.h"

#include <algorithm>
#include <cstdint>

#include <fmt/core.h>

#include "text/schema_walk.h"

namespace reprise {
namespace {

// As llguidance holds JSON's strings to them. Empty: a format that we do not write.
std::string pattern_of_format(std::string_view format) {
  constexpr std::string_view kDate =
      "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
      "02-(0[1-9]|1[0-9]|2[0-9]))";
  constexpr std::string_view kTime =
      "([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\\.[0-9]{1,9})?"
      "([zZ]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
  if (format == "date") return std::string(kDate);
  if (format == "time") return std::string(kTime);
  if (format == "date-time") return fmt::format("{}[tT]{}", kDate, kTime);
  if (format == "uuid") return "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
  return {};
}

// What follows a backslash. Empty: it is no character and no class.
std::string escape(char letter) {
  switch (letter) {
    case 'd':
      return "[0-9]";
    case 'D':
      return "[^0-9]";
    case 'w':
      return "[0-9a-zA-Z_]";
    case 'W':
      return "[^0-9a-zA-Z_]";
    case 's':
    case 'S':
    case 'n':
    case 'r':
    case 't':
      return {'\\', letter};
    default:
      break;
  }
  constexpr std::string_view kPunctuation = ".^$|()[]{}*+?\\/-\"'#&~ @%!=:;,<>_";
  const bool is_plain = kPunctuation.find(letter) != std::string_view::npos;
  if (!is_plain) return {};
  constexpr std::string_view kNeedNone = "\"' @%!=:;,<>_";
  return kNeedNone.find(letter) == std::string_view::npos ? std::string{'\\', letter}
                                                          : std::string{letter};
}

}  // namespace

std::string whole_pattern(std::string_view pattern) {
  if (pattern.size() < 2 || pattern.front() != '^' || pattern.back() != '$') return {};
  const std::string_view inner = pattern.substr(1, pattern.size() - 2);
  std::string whole;
  bool in_class = false;
  int depth = 0;
  for (std::size_t i = 0; i < inner.size(); i++) {
    const char letter = inner[i];
    if (letter == '\\') {
      if (++i == inner.size()) return {};  // the last $ was a character
      const std::string escaped = escape(inner[i]);
      // Classes in classes mean other things in other dialects.
      if (escaped.empty() || (in_class && escaped.front() == '[')) return {};
      whole += escaped;
      continue;
    }
    const bool looks_around = letter == '(' && i + 1 < inner.size() && inner[i + 1] == '?' &&
                              !inner.substr(i).starts_with("(?:");
    if (in_class) {
      if (letter == '[' || inner.substr(i).starts_with("&&") || inner.substr(i).starts_with("--") ||
          inner.substr(i).starts_with("~~"))
        return {};
      in_class = letter != ']';
    } else if (letter == '[') {
      in_class = true;
      whole += letter;
      if (i + 1 < inner.size() && inner[i + 1] == '^') whole += inner[++i];
      // []a] and [^]a]: dialects differ.
      if (i + 1 < inner.size() && inner[i + 1] == ']') return {};
      continue;
    } else if (letter == '^' || letter == '$' || looks_around || (letter == '|' && depth == 0)) {
      return {};
    }
    if (!in_class && letter == '(') depth++;
    if (!in_class && letter == ')') depth--;
    if (static_cast<unsigned char>(letter) < 0x20) return {};
    whole += letter == '/' ? std::string("\\/") : std::string{letter};
  }
  return in_class || depth != 0 ? std::string() : whole;
}

std::string bare_text(LarkWriter& writer, const JsonObject& schema, std::string_view mark,
                      std::string& loose) {
  std::string whole;
  const JsonValue* pattern = schema.if_contains("pattern");
  const JsonValue* format = schema.if_contains("format");
  if (pattern != nullptr) {
    whole = whole_pattern(pattern->get_string());
    if (whole.empty()) loose = "pattern";
  }
  if (format != nullptr && *format != "unknown") {
    const std::string known = pattern_of_format(format->get_string());
    if (known.empty() || pattern != nullptr) {
      loose = "format";
    } else {
      whole = known;
    }
  }
  const std::uint64_t least = count_of(schema, "minLength", 0);
  const std::uint64_t most = count_of(schema, "maxLength", 0);
  const bool has_most = schema.contains("maxLength");
  if (has_most && most == 0) {
    if (!whole.empty()) loose = "maxLength";
    return writer.mark(mark);
  }
  const std::string length = fmt::format("{{{},{}}}", std::max<std::uint64_t>(least, 1),
                                         has_most ? std::to_string(most) : "");
  const bool is_bounded = least > 0 || has_most;
  Without without;
  if (is_bounded) without.length = length;
  without.pattern = whole;
  return writer.up_to(mark, without, least > 0 || !whole.empty());
}

}  // namespace reprise
