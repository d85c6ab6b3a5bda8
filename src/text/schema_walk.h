// Walks over JSON schemas that grammars and parsers share: of which kind values may be, what stands
// beside a keyword, and a part as a schema of its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace reprise {

// "string", "boolean", "null", "array", "object", "integer" or "number".
std::string_view kind_of(const JsonValue& value);

// Whether values of a kind may satisfy `schema`, a part of `root`, as far as types, constants,
// references and alternatives tell. Any JSON will do for a schema. Bounded; gives up with true.
bool may_be(const JsonValue& root, const JsonValue& schema, std::string_view kind);

// What a schema that is a reference and nothing else refers to, over several; else itself.
const JsonValue& without_references(const JsonValue& root, const JsonValue& schema);

// The first of a checked schema's keywords that values are held to, but for those given. Empty:
// there is none.
std::string_view assertion_beside(const JsonObject& schema,
                                  std::initializer_list<std::string_view> but_for);

// The object that a function's checked schema describes, over references; `place` names it.
// `unheld` of this and of what follows: a keyword that they leave out; empty: there is none.
struct RootObject {
  const JsonObject* schema;
  std::string place;
  std::string unheld;
};
RootObject root_object(const JsonValue& root);

// The properties that an object's value may have in calls: those that its checked schema lists, and
// others that it requires.
struct ObjectField {
  std::string_view name;
  const JsonValue* schema;  // null: any value
  bool is_required;
};
struct ObjectFields {
  std::vector<ObjectField> fields;
  std::string unheld;
};
ObjectFields object_fields(const JsonObject& schema);

// The values of a checked schema with const or enum.
struct Constants {
  std::vector<const JsonValue*> values;  // never empty
  std::string unheld;
};
Constants constants_of(const JsonObject& schema);

// A count ("minItems") of a checked schema.
std::uint64_t count_of(const JsonObject& schema, std::string_view key, std::uint64_t otherwise);

inline bool is_false(const JsonValue& schema) {
  return schema.is_bool() && !schema.get_bool();
}

// Parts of one checked schema, each as a schema of its own for llguidance: with the definitions
// that it needs and no others, without descriptions.
class SchemaParts {
 public:
  // The root outlives this.
  explicit SchemaParts(const JsonValue& root) : root_(root) {}

  // What the part itself says; its definitions have the same names in all of `root`'s parts.
  JsonValue alone(const JsonValue& schema) { return part(schema).schema; }
  JsonValue with_definitions(const JsonValue& schema);

 private:
  struct Part {
    JsonValue schema;
    std::vector<const JsonValue*> named;  // what it refers to
  };

  const Part& part(const JsonValue& schema);
  JsonValue rewritten(const JsonValue& schema, Part& into);
  std::string name_of(const JsonValue& target);

  const JsonValue& root_;
  std::map<const JsonValue*, Part> parts_;
  std::map<const JsonValue*, std::size_t> names_;
};

}  // namespace reprise
