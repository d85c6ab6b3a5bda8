// Schemas of functions that are not strict: what calls cannot be held to is a hint for the model.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/json.h"

namespace reprise {

// The checked schema (text/json_schema.h) of a function's parameters without the keywords at fault;
// at worst that of any object. What was left out first goes to the log at debug.
JsonObject schema_of_hints(std::string_view function, const JsonObject& schema);

// How much a schema goes on saying.
enum class Looseness : std::uint8_t {
  patterns,  // all but patterns, formats and counts of properties
  sizes,     // also no counts, lengths and bounds: types, names, constants
  object,    // that the arguments are an object
};
// A schema that takes all that this one takes, for one that no grammar could be made of.
JsonObject loosened_schema(const JsonObject& schema, Looseness looseness);

}  // namespace reprise
