// Which objects of a function's schema take no other properties than those that they list.
#pragma once
#include "base/json.h"

namespace reprise {

// The schema with "additionalProperties": false in every object that lists `properties` and does
// not say whether there may be others: a function is called with what it lists. JSON Schema's own
// meaning stays where a value has to satisfy several schemas at once (allOf, $ref or anyOf beside
// properties) that list different ones, and where `required` or minProperties ask for more than is
// listed. Any JSON will do for a schema; what is none, or has too many parts, stays as it is.
JsonObject with_closed_objects(const JsonObject& schema);

}  // namespace reprise
