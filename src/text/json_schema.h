// JSON schemas of strangers, checked before a grammar is made of them: every keyword is either held
// to or refused by name, and sizes are bounded.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace reprise {

// The schema as llguidance is to read it: without what it would misread ($schema, x-guidance), with
// oneOf as anyOf where the alternatives exclude one another, and our rules for white space at its
// root. Errors: invalid_argument (no schema), unsupported (keyword, format), exhausted (limits);
// the message begins with the place, like "properties.a.items: ...".
Result<JsonObject> checked_schema(const JsonObject& schema);

// The same for a schema that is a hint: a keyword that cannot be held to, is not well-formed or
// beyond a limit is left out, and what it stands in takes more values. `dropped`: the first of
// them, as a message with its place; empty: none. Errors: as above, of the schema as a whole.
Result<JsonObject> checked_hints(const JsonObject& schema, std::string& dropped);

// What a $ref of `root`'s schemas points to ("#", "#/$defs/name"). Null: nothing.
const JsonValue* resolve_reference(const JsonValue& root, std::string_view reference);

}  // namespace reprise
