// Media types that mean JSON.
#include "api/content_type.h"

#include <algorithm>
#include <string>

namespace reprise {

bool is_json_content_type(std::string_view value) {
  value = value.substr(0, value.find(';'));
  const std::size_t begin = value.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return true;
  std::string type(value.substr(begin, value.find_last_not_of(" \t") - begin + 1));
  std::ranges::transform(type, type.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  if (type == "application/x-www-form-urlencoded") return true;
  const std::size_t slash = type.find('/');
  if (slash == std::string::npos || slash == 0) return false;
  const std::string_view subtype = std::string_view(type).substr(slash + 1);
  return subtype == "json" || (subtype.ends_with("+json") && subtype.size() > 5);
}

}  // namespace reprise
