// The spelling of places in schemas.
#include "text/schema_place.h"

#include <fmt/core.h>

namespace reprise {

std::string schema_place(std::string_view place, std::string_view key) {
  constexpr std::size_t kPlaceBytesMax = 200;
  if (place.size() > kPlaceBytesMax) return std::string(place);
  std::string shown(key.substr(0, 60));
  for (char& letter : shown) {
    if (static_cast<unsigned char>(letter) < 0x20 || static_cast<unsigned char>(letter) > 0x7e)
      letter = '?';
  }
  return place.empty() ? shown : fmt::format("{}.{}", place, shown);
}

std::unexpected<Error> schema_failure(Errc code, std::string_view place, std::string_view message) {
  if (place.empty()) return fail(code, fmt::format("schema: {}", message));
  return fail(code, fmt::format("{}: {}", place, message));
}

}  // namespace reprise
