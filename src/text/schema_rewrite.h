// References within JSON schemas, and changes to a schema that are made once it was read.
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace reprise {

// The names on the way of a reference ("#/$defs/a~1b": "$defs", "a/b"), without escapes. Empty for
// the root. Errors: invalid_argument (it begins otherwise, an escape is none).
Result<std::vector<std::string>> reference_path(std::string_view reference);

// What one schema is to say otherwise.
struct SchemaEdits {
  std::set<std::string, std::less<>> dropped;
  JsonObject changed;                   // and added
  bool has_alternatives_apart = false;  // its oneOf becomes anyOf
};

// Collects edits and makes a copy with all of them: the schema itself stays where it is, so that
// places in it can be pointed to.
class SchemaRewriter {
 public:
  // Must outlive this.
  explicit SchemaRewriter(const JsonValue& root) : root_(root) {}

  SchemaEdits& edits_of(const JsonObject& object) { return edits_[&object]; }

  // A reference's spelling in the copy, for llguidance, which knows no escapes: targets that it
  // cannot name get a second place there.
  std::string plain_reference(const std::vector<std::string>& path, const JsonValue& target);

  // Errors: exhausted (second places that are large).
  Result<JsonObject> rewritten(std::size_t bytes_max) const;

 private:
  JsonValue copy(const JsonValue& value) const;

  const JsonValue& root_;
  std::map<const JsonObject*, SchemaEdits> edits_;
  std::map<const JsonValue*, std::string> second_places_;
};

}  // namespace reprise
