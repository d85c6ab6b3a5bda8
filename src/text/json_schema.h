// JSON schemas of strangers, checked before a grammar is made of them: every keyword is either held
// to or refused by name, and sizes are bounded.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace reprise {

enum class SchemaKeywords : std::uint8_t {
  refuse_unknown,  // a keyword that no grammar can hold is an error
  drop_unknown,    // it is ignored: the schema is a hint then
};

// The schema as llguidance is to read it: without what it would misread ($schema, x-guidance), with
// oneOf as anyOf where the alternatives exclude one another, and our rules for white space at its
// root. Errors: invalid_argument (no schema), unsupported (keyword, format), exhausted (limits);
// the message begins with the place, like "properties.a.items: ...".
Result<JsonObject> checked_schema(const JsonObject& schema, SchemaKeywords keywords);

// What a $ref of `root`'s schemas points to ("#", "#/$defs/name"). Null: nothing.
const JsonValue* resolve_reference(const JsonValue& root, std::string_view reference);

}  // namespace reprise
