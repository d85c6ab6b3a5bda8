// Whether a JSON value satisfies a schema: a plain validator for tests.
#pragma once
#include "base/json.h"

namespace reprise::test {

// Knows type, enum, const, properties, required, additionalProperties, items, prefixItems, counts,
// bounds, multipleOf, anyOf, oneOf, allOf and $ref.
bool satisfies(const JsonValue& root, const JsonValue& schema, const JsonValue& value);

}  // namespace reprise::test
