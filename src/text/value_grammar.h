// Rules for values by a JSON schema in the syntax of families that do not write JSON.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/lark_writer.h"
#include "text/schema_walk.h"

namespace reprise {

enum class ValueSyntax : std::uint8_t {
  gemma4,  // {key:<|"|>text<|"|>,n:3}, keys in order, None
  python,  // {"key": "text", "n": 3}, True, None
  json,    // {"key": "text", "n": 3}, true, null; as Python's json.dumps spells it
};

// Holds to types, properties, required, items and their counts, enum, const, anyOf, oneOf, $ref and
// to what leaves say; of other combinations (allOf of several, minProperties ...) it says which the
// first was, and writes the syntax of more values. The root outlives this.
class ValueGrammar {
 public:
  // `root`: what checked_schema gave.
  ValueGrammar(LarkWriter& writer, ValueSyntax syntax, const JsonValue& root)
      : writer_(writer), syntax_(syntax), root_(root) {}

  // The root's fields between an object's brackets, as a rule's name; `pair` as below.
  // Python's keyword arguments: key=value.
  std::string fields(std::string_view pair);

  // Writes the rules that others named. Last.
  void finish();

  // After finish: what the grammar is not held to, with its place, like "properties.a: pattern".
  // Empty: it is held to all of the schema.
  const std::string& loose() const { return loose_; }
  // After finish: a field cannot be a keyword argument.
  bool has_odd_names() const { return has_odd_names_; }
  // After finish: a value can be a number with a fraction, whose spelling is the template's here.
  bool has_fractions() const { return has_fractions_; }

 private:
  struct Open {
    const JsonValue* schema;
    std::string place;
  };

  std::string value(const JsonValue& schema, const std::string& place);
  std::string body(const JsonValue& schema, const std::string& place);
  std::string alternatives_of(const JsonArray& list, std::string_view key,
                              const std::string& place);
  std::string by_type(const JsonObject& schema, const std::string& place);
  std::string body_of_type(const JsonObject& schema, std::string_view type,
                           const std::string& place);
  std::string constants(const JsonObject& schema, const std::string& place);
  std::string constant(const JsonValue& value);
  std::string any();
  std::string text(const JsonObject& schema, const std::string& place);
  std::string number(const JsonObject& schema, bool is_integer);
  std::string array(const JsonObject& schema, const std::string& place);
  std::string fields_of(const JsonObject& schema, std::string_view pair, const std::string& place);
  JsonObject leaf(const JsonObject& schema, std::string_view type) const;
  std::string quoted(std::string_view text);
  std::string key(std::string_view name, std::string_view pair);
  std::string any_key(std::string_view pair);
  std::string other_fields(const JsonObject& schema, const std::vector<ObjectField>& listed,
                           const std::string& place);
  std::string_view comma() const;
  // Nothing, where there is no keyword.
  void loosen(const std::string& place, std::string_view key);
  void loosen_beside(const JsonObject& schema, std::string_view key, const std::string& place);

  LarkWriter& writer_;
  ValueSyntax syntax_;
  const JsonValue& root_;
  std::map<const JsonValue*, std::string> names_;
  std::vector<Open> open_;  // named, but not written
  std::string any_;
  std::string loose_;
  bool has_odd_names_ = false;
  bool has_fractions_ = false;
};

// A place in a schema and one within it, like "properties.a"; cut where it is long.
std::string place_inside(const std::string& place, std::string_view key);
// A place and what is there, for a line about it.
std::string at_place(const std::string& place, std::string_view key);

}  // namespace reprise
