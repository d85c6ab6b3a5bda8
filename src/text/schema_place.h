// Places in JSON schemas, as errors name them: "properties.a.items: ...".
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"

namespace reprise {

// A place within a place; the empty one is the root. Short, and without what logs could not show.
std::string schema_place(std::string_view place, std::string_view key);

std::unexpected<Error> schema_failure(Errc code, std::string_view place, std::string_view message);

}  // namespace reprise
