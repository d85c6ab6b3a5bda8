// What `format` says in JSON schemas: which ones texts are held to, which only tell people more.
#pragma once
#include <optional>
#include <string_view>

#include "base/json.h"

namespace reprise {

// A text is held to it.
bool is_held_format(std::string_view format);
// OpenAPI's, .NET's and pydantic's names for what no grammar needs to know, or for a number's size.
bool is_annotation_format(std::string_view format);

struct IntegerBounds {
  double minimum = 0;
  double maximum = 0;
};
// Of a schema of integers whose format is a size in bits up to 32 (of 64 bits are all integers that
// replies may have).
std::optional<IntegerBounds> bounds_of_format(const JsonObject& schema);

}  // namespace reprise
