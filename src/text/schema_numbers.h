// Numbers in JSON schemas, so that llguidance, which reads them as doubles, holds to them.
#pragma once
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace reprise {

// A schema's minimum, maximum, exclusiveMinimum and exclusiveMaximum as {minimum, maximum} (those
// that there are), with those of a format like int32: an exclusive bound is moved by 1e-12 of
// itself (0: 1e-30); beyond 2^53 they are a little narrower than what was asked for. Errors:
// invalid_argument (no number, or none between), unsupported (beyond 64 bits).
Result<JsonObject> inclusive_bounds(const JsonObject& schema);

// Whether a number in a constant is beyond what a double says exactly (2^53).
bool has_inexact_number(const JsonValue& constant);

// JSON that is the same for equal values: keys in order, 1 for 1.0.
std::string canonical_json(const JsonValue& value);

}  // namespace reprise
