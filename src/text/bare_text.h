// Strings that stand without JSON's quotes and escapes, by their schemas, in grammars.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/lark_writer.h"

namespace reprise {

// What a schema says of a string (lengths, a pattern, a format) and the mark behind it, as an
// expression. `loose` gets the name of a keyword that this is not held to, where there is one.
std::string bare_text(LarkWriter& writer, const JsonObject& schema, std::string_view mark,
                      std::string& loose);

// A pattern of a JSON schema as a regular expression for the whole text, between Lark's slashes.
// Empty: it says more than that (it is not anchored at both ends, looks around ...).
std::string whole_pattern(std::string_view pattern);

}  // namespace reprise
