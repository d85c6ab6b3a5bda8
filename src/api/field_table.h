// Tables of the fields that a request may have: what each is called, what it may hold and where it
// goes. Requests are read by them, and the schemas of /openapi.json are written from them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "api/api_error.h"
#include "api/field_reader.h"
#include "api/limits.h"
#include "base/json.h"

namespace reprise {

// A bound of a number or of a text's bytes: fixed, or one of the limits.
class Bound {
 public:
  constexpr Bound(double fixed) : value_(fixed) {}
  constexpr Bound(int fixed) : value_(static_cast<double>(fixed)) {}
  constexpr Bound(std::size_t Limits::* limit) : value_(limit) {}
  constexpr Bound(std::int64_t Limits::* limit) : value_(limit) {}
  constexpr Bound(int Limits::* limit) : value_(limit) {}
  double of(const Limits& limits) const;

 private:
  std::variant<double, std::size_t Limits::*, std::int64_t Limits::*, int Limits::*> value_;
};
inline constexpr int kIntegerMax = 2'147'483'647;

enum class FieldType : std::uint8_t { number, integer, boolean, text, word, composite };

// What is to be said about a field.
struct FieldSpec {
  std::string_view name;
  FieldType type = FieldType::composite;
  Bound low = 0, high = 0;                       // number, integer; text: bytes
  std::span<const std::string_view> words = {};  // word
  std::string_view fallback = {};  // what holds when it is absent, as JSON; empty: nothing to say
  std::string_view description = {};  // one line
  std::string_view alias = {};        // another name for it; both only when equal
  bool required = false;
  // composite: the JSON schema of its value, as text or built.
  std::string_view schema = {};
  JsonObject (*build_schema)(const Limits&) = nullptr;
};

// Where a value stands while it is read.
struct FieldPlace {
  std::string param;  // "messages[2].content"
  const Limits* limits = nullptr;
  std::vector<std::string>* unknown = nullptr;  // takes the names of members that nobody knows

  FieldPlace member(std::string_view name) const;
  FieldPlace item(std::size_t index) const;
};

// A field that goes into a Target. Values that are null never get here.
template <class Target>
struct Field : FieldSpec {
  ApiStatus (*read)(const FieldSpec&, const FieldPlace&, const JsonValue&, Target&) = nullptr;

  constexpr Field also(std::string_view other_name) const {
    Field copy = *this;
    copy.alias = other_name;
    return copy;
  }
  constexpr Field needed() const {
    Field copy = *this;
    copy.required = true;
    return copy;
  }
};

// ---- rows
// ----------------------------------------------------------------------------------------- Each is
// made from the member that the value goes to: number_field<&SamplingParams::top_p>(...).

namespace field_detail {
template <class Member>
struct MemberOf;
template <class Value, class Owner>
struct MemberOf<Value Owner::*> {
  using Target = Owner;
  using Stored = Value;
};
template <class Value>
struct Unwrapped {
  using Type = Value;
};
template <class Value>
struct Unwrapped<std::optional<Value>> {
  using Type = Value;
};
template <auto Member>
using TargetOf = typename MemberOf<decltype(Member)>::Target;
template <auto Member>
using ValueOf = typename Unwrapped<typename MemberOf<decltype(Member)>::Stored>::Type;

template <auto Member, auto Check>
ApiStatus store(const FieldSpec& spec, const FieldPlace& place, const JsonValue& value,
                TargetOf<Member>& target) {
  TRY_ASSIGN(auto checked, Check(spec, place, value));
  if constexpr (std::is_arithmetic_v<decltype(checked)> || std::is_enum_v<ValueOf<Member>>) {
    target.*Member = static_cast<ValueOf<Member>>(checked);
  } else {
    target.*Member = std::move(checked);
  }
  return {};
}

ApiResult<double> check_number(const FieldSpec& spec, const FieldPlace& place,
                               const JsonValue& value);
ApiResult<std::int64_t> check_integer(const FieldSpec& spec, const FieldPlace& place,
                                      const JsonValue& value);
ApiResult<bool> check_boolean(const FieldSpec& spec, const FieldPlace& place,
                              const JsonValue& value);
ApiResult<std::string> check_text(const FieldSpec& spec, const FieldPlace& place,
                                  const JsonValue& value);
ApiResult<std::string> check_word(const FieldSpec& spec, const FieldPlace& place,
                                  const JsonValue& value);
ApiResult<std::size_t> check_word_index(const FieldSpec& spec, const FieldPlace& place,
                                        const JsonValue& value);
// For ignored fields: takes anything.
template <class Target>
ApiStatus ignore(const FieldSpec&, const FieldPlace&, const JsonValue&, Target&) {
  return {};
}
template <class Target, ApiStatus (*parse)(const FieldPlace&, const JsonValue&, Target&)>
ApiStatus call(const FieldSpec&, const FieldPlace& place, const JsonValue& value, Target& target) {
  return parse(place, value, target);
}
}  // namespace field_detail

template <auto Member>
constexpr auto number_field(std::string_view name, Bound low, Bound high, std::string_view fallback,
                            std::string_view description) {
  return Field<field_detail::TargetOf<Member>>{
      {name, FieldType::number, low, high, {}, fallback, description},
      field_detail::store<Member, field_detail::check_number>};
}

// 5 and 5.0 are integers.
template <auto Member>
constexpr auto integer_field(std::string_view name, Bound low, Bound high,
                             std::string_view fallback, std::string_view description) {
  return Field<field_detail::TargetOf<Member>>{
      {name, FieldType::integer, low, high, {}, fallback, description},
      field_detail::store<Member, field_detail::check_integer>};
}

template <auto Member>
constexpr auto boolean_field(std::string_view name, std::string_view fallback,
                             std::string_view description) {
  return Field<field_detail::TargetOf<Member>>{
      {name, FieldType::boolean, 0, 0, {}, fallback, description},
      field_detail::store<Member, field_detail::check_boolean>};
}

template <auto Member>
constexpr auto text_field(std::string_view name, Bound bytes_low, Bound bytes_high,
                          std::string_view description) {
  return Field<field_detail::TargetOf<Member>>{
      {name, FieldType::text, bytes_low, bytes_high, {}, {}, description},
      field_detail::store<Member, field_detail::check_text>};
}

// One of some words. Of an enum the value is the word's index.
template <auto Member>
constexpr auto word_field(std::string_view name, std::span<const std::string_view> words,
                          std::string_view fallback, std::string_view description) {
  FieldSpec spec{name, FieldType::word, 0, 0, words, fallback, description};
  if constexpr (std::is_enum_v<field_detail::ValueOf<Member>>) {
    return Field<field_detail::TargetOf<Member>>{
        spec, field_detail::store<Member, field_detail::check_word_index>};
  } else {
    return Field<field_detail::TargetOf<Member>>{
        spec, field_detail::store<Member, field_detail::check_word>};
  }
}

// A value with a structure of its own, read by `parse`. `schema` is its JSON schema.
template <class Target, ApiStatus (*parse)(const FieldPlace&, const JsonValue&, Target&)>
constexpr Field<Target> composite_field(std::string_view name, std::string_view schema,
                                        std::string_view description) {
  return {{name, FieldType::composite, 0, 0, {}, {}, description, {}, false, schema},
          field_detail::call<Target, parse>};
}
// The same, with a schema made from other tables.
template <class Target, ApiStatus (*parse)(const FieldPlace&, const JsonValue&, Target&)>
constexpr Field<Target> composite_field(std::string_view name,
                                        JsonObject (*build_schema)(const Limits&),
                                        std::string_view description) {
  return {{name, FieldType::composite, 0, 0, {}, {}, description, {}, false, {}, build_schema},
          field_detail::call<Target, parse>};
}

// Accepted, without effect.
template <class Target>
constexpr Field<Target> ignored_field(std::string_view name, std::string_view description) {
  return {{name, FieldType::composite, 0, 0, {}, {}, description, {}, false, "{}"},
          field_detail::ignore<Target>};
}

// ---- reading

// The field's value under its name or its alias; null when it has neither. `name` becomes the one
// that it has. Errors: missing_required_parameter; invalid_value when both are there and differ.
ApiResult<const JsonValue*> find_field(FieldReader& reader, const FieldSpec& spec,
                                       std::string_view& name);

// Reads the table's fields from the reader's object; absent ones leave the target as it is.
// Errors: what find_field and the rows say, with the field's path.
template <class Target>
ApiStatus read_fields(FieldReader& reader,
                      std::span<const Field<std::type_identity_t<Target>>> table,
                      const Limits& limits, std::vector<std::string>& unknown, Target& target) {
  for (const Field<Target>& field : table) {
    std::string_view name = field.name;
    TRY_ASSIGN(const JsonValue* value, find_field(reader, field, name));
    if (!value) continue;
    TRY(field.read(field, FieldPlace{reader.path(name), &limits, &unknown}, *value, target));
  }
  return {};
}

// An object all of whose members are one table's. What else it has goes to place.unknown.
template <class Target>
ApiStatus read_object(const FieldPlace& place, const JsonValue& value,
                      std::span<const Field<std::type_identity_t<Target>>> table, Target& target) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  FieldReader reader(value.get_object(), place.param + ".");
  TRY(read_fields<Target>(reader, table, *place.limits, *place.unknown, target));
  add_unknown(reader, *place.unknown);
  return {};
}

// The items of a list, each read by `read_item(place, item)`. Errors: invalid_type,
// invalid_value when there are fewer or more than allowed ("messages: got 0 messages, expected at
// least 1"; `items` is their name in it).
template <class ReadItem>
ApiStatus read_list(const FieldPlace& place, const JsonValue& value, std::string_view items,
                    std::size_t least, std::size_t most, ReadItem read_item) {
  const JsonArray* list = value.if_array();
  if (!list) return wrong_type(place.param, "a list", value);
  TRY(check_count(place.param, list->size(), items, least, most));
  for (std::size_t index = 0; index < list->size(); index++) {
    TRY(read_item(place.item(index), (*list)[index]));
  }
  return {};
}

// ---- schemas

// JSON that the program itself has written down; anything else is a bug.
JsonValue own_json(std::string_view json);

// {"type": "number", "minimum": 0 ...} with description and default.
JsonObject field_schema(const FieldSpec& spec, const Limits& limits);

// Adds a field (and its alias) to an object's schema: "properties" and, when it must be there,
// "required". Optional fields may be null.
void add_field(JsonObject& object_schema, const FieldSpec& spec, const Limits& limits);

template <class Table>
void add_fields(JsonObject& object_schema, const Table& table, const Limits& limits) {
  for (const FieldSpec& field : table) add_field(object_schema, field, limits);
}

// The schema of an object with these fields.
template <class Table>
JsonObject table_schema(const Table& table, const Limits& limits) {
  JsonObject schema{{"type", "object"}};
  add_fields(schema, table, limits);
  return schema;
}

}  // namespace reprise
