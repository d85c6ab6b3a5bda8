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

namespace reprise {

enum class ValueSyntax : std::uint8_t {
  gemma4,  // {key:<|"|>text<|"|>,n:3}, keys in order
  python,  // {"key": "text", "n": 3}, True, None
};

// Holds to types, properties, required, items and their counts, enum, const, anyOf, oneOf, $ref and
// to what leaves say; other combinations (allOf of several, patterns of gemma4's texts) get the
// syntax of any value. The root outlives this.
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

 private:
  std::string value(const JsonValue& schema);
  std::string body(const JsonValue& schema);
  std::string body_of_type(const JsonObject& schema, std::string_view type);
  std::string constant(const JsonValue& value);
  std::string any();
  std::string text(const JsonObject& schema);
  std::string number(const JsonObject& schema, bool is_integer);
  std::string array(const JsonObject& schema);
  std::string object(const JsonObject& schema);
  std::string fields_of(const JsonObject& schema, std::string_view pair);
  std::string quoted(std::string_view text);
  std::string key(std::string_view name, std::string_view pair);
  std::string any_key(std::string_view pair);
  std::string comma();

  LarkWriter& writer_;
  ValueSyntax syntax_;
  const JsonValue& root_;
  std::map<const JsonValue*, std::string> names_;
  std::vector<const JsonValue*> open_;  // named, but not written
  std::string any_;
  std::string comma_;
};

}  // namespace reprise
