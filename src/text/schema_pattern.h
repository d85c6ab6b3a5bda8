// Patterns of JSON schemas: what regular expressions of ECMAScript and of llguidance both have.
#pragma once
#include <string_view>

#include "base/error.h"

namespace reprise {

// Errors: invalid_argument (wrong in every syntax), unsupported (right in one syntax only, or it
// means another thing there; look-around), exhausted (too large); with the byte where it is.
Status check_pattern(std::string_view pattern);

}  // namespace reprise
