// Text of unknown origin, made fit for a one-line message.
#include "base/printable.h"

#include <fmt/core.h>

namespace reprise {

std::string printable(std::string_view text, std::size_t bytes_max) {
  std::string shown;
  for (const char c : text.substr(0, bytes_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  if (text.size() > bytes_max) shown += "...";
  return shown;
}

}  // namespace reprise
