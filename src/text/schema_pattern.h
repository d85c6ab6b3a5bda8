// Patterns of JSON schemas: what regular expressions of ECMAScript and of llguidance both have.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"

namespace reprise {

// The pattern as llguidance is to read it: classes like [^"] get \x00 as well, for it lets quotes
// and backslashes into what has all control characters. Errors: invalid_argument (wrong in every
// syntax), unsupported (right in one syntax only, or it means another thing there; look-around),
// exhausted (too large); with the byte where it is.
Result<std::string> check_pattern(std::string_view pattern);

}  // namespace reprise
