// Whether no value can satisfy two of a schema's alternatives (oneOf).
#pragma once
#include "base/json.h"

namespace reprise {

// By their types, by the constants that they are, or by a property that all have and that says
// which it is. False: it cannot be told so simply. `root` is what $ref refers to.
bool exclude_one_another(const JsonValue& root, const JsonArray& alternatives);

}  // namespace reprise
