// Scalars of the families' calls in JSON's spelling.
#include "text/call_reader.h"

#include <fmt/core.h>

namespace reprise {

void append_json_byte(std::string& out, char byte) {
  switch (byte) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(byte);
  if (code < 0x20) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    out += byte;
  }
}

bool append_json_scalar(std::string& out, std::string_view word) {
  if (word == "true" || word == "True") {
    out += "true";
  } else if (word == "false" || word == "False") {
    out += "false";
  } else if (word == "null" || word == "None") {
    out += "null";
  } else {
    const auto number = parse_json(word);
    if (!number || !number->is_number()) return false;
    out += word;
  }
  return true;
}

}  // namespace reprise
