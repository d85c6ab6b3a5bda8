// A validator of JSON schemas, keyword by keyword.
#include "schema_validity.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <gtest/gtest.h>

#include "text/json_schema.h"
#include "text/schema_numbers.h"

namespace reprise::test {
namespace {

bool is_of_type(const JsonValue& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_bool();
  if (type == "null") return value.is_null();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "integer") {
    if (!value.is_double()) return value.is_number();
    const double number = value.get_double();  // also of integers with more digits than 64 bits
    return number > 1e15 || number < -1e15 ||
           static_cast<double>(static_cast<std::int64_t>(number)) == number;
  }
  return value.is_number();
}

bool has_type(const JsonValue& type, const JsonValue& value) {
  if (type.is_string()) return is_of_type(value, type.get_string());
  return std::ranges::any_of(
      type.as_array(), [&](const JsonValue& one) { return is_of_type(value, one.as_string()); });
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

// What a value's size is to minLength, minItems and minProperties.
std::size_t size_of(const JsonValue& value) {
  if (value.is_string()) return characters(value.get_string());
  return value.is_array() ? value.get_array().size() : value.get_object().size();
}

// Tests know the patterns that they use.
bool matches(std::string_view pattern, std::string_view text) {
  if (pattern == "^a+$") return !text.empty() && text.find_first_not_of('a') == text.npos;
  if (pattern == "b") return text.find('b') != text.npos;
  if (pattern == R"(^[^"]*$)") return text.find('"') == text.npos;
  if (pattern == R"(^[^\\]*1$)") return text.ends_with('1') && text.find('\\') == text.npos;
  if (pattern == "^.{2}$") return characters(text) == 2 && text.find('\n') == text.npos;
  if (pattern == "^k") return text.starts_with('k');
  ADD_FAILURE() << "no such pattern: " << pattern;
  return false;
}

bool fits_object(const JsonValue& root, const JsonObject& schema, const JsonObject& value) {
  if (const JsonValue* required = schema.if_contains("required")) {
    for (const JsonValue& name : required->as_array()) {
      if (!value.contains(name.as_string())) return false;
    }
  }
  const JsonValue* properties = schema.if_contains("properties");
  const JsonValue* others = schema.if_contains("additionalProperties");
  const JsonValue* patterns = schema.if_contains("patternProperties");
  return std::ranges::all_of(value, [&](const auto& field) {
    const JsonValue* own =
        properties == nullptr ? nullptr : properties->as_object().if_contains(field.key());
    bool is_named = own != nullptr;
    if (is_named && !satisfies(root, *own, field.value())) return false;
    if (patterns != nullptr) {
      for (const auto& [pattern, schema_of_it] : patterns->as_object()) {
        if (!matches(pattern, field.key())) continue;
        is_named = true;
        if (!satisfies(root, schema_of_it, field.value())) return false;
      }
    }
    return is_named || others == nullptr || satisfies(root, *others, field.value());
  });
}

bool is_multiple(double number, double of) {
  const double times = number / of;
  const double whole = std::round(times);
  constexpr double kExact = 9e15;  // beyond it the reply's digits are not all there
  return number > kExact || number < -kExact || (times - whole < 1e-6 && whole - times < 1e-6);
}

bool fits_array(const JsonValue& root, const JsonObject& schema, const JsonArray& value) {
  const JsonValue* first = schema.if_contains("prefixItems");
  const JsonValue* items = schema.if_contains("items");
  for (std::size_t i = 0; i < value.size(); i++) {
    const bool is_first = first != nullptr && i < first->as_array().size();
    const JsonValue* own = is_first ? &first->as_array()[i] : items;
    if (own != nullptr && !satisfies(root, *own, value[i])) return false;
  }
  return true;
}

bool fits_bound(std::string_view keyword, const JsonValue& bound, const JsonValue& value) {
  if (value.is_number()) {
    const double number = value.to_number<double>();
    if (keyword == "exclusiveMinimum") return number > bound.to_number<double>();
    if (keyword == "exclusiveMaximum") return number < bound.to_number<double>();
    if (keyword == "multipleOf") return is_multiple(number, bound.to_number<double>());
    if (keyword == "minimum") return number >= bound.to_number<double>();
    if (keyword == "maximum") return number <= bound.to_number<double>();
    return true;
  }
  const bool is_own = value.is_string()   ? keyword.ends_with("Length")
                      : value.is_array()  ? keyword.ends_with("Items")
                      : value.is_object() ? keyword.ends_with("Properties")
                                          : false;
  if (!is_own || !bound.is_number()) return true;
  const auto count = bound.to_number<std::size_t>();
  return keyword.starts_with("min") ? size_of(value) >= count : size_of(value) <= count;
}

}  // namespace

bool satisfies(const JsonValue& root, const JsonValue& schema, const JsonValue& value) {
  if (schema.is_bool()) return schema.get_bool();
  const JsonObject& object = schema.as_object();
  const auto fits = [&](const JsonValue& one) { return satisfies(root, one, value); };
  for (const auto& field : object) {
    const std::string_view key = field.key();
    const JsonValue& what = field.value();
    if (key == "type" && !has_type(what, value)) return false;
    const auto equals = [&](const JsonValue& one) {
      return canonical_json(one) == canonical_json(value);
    };
    if (key == "const" && !equals(what)) return false;
    if (key == "enum" && std::ranges::none_of(what.as_array(), equals)) return false;
    if (key == "$ref" && !fits(*resolve_reference(root, what.as_string()))) return false;
    if (key == "pattern" && value.is_string() && !matches(what.as_string(), value.get_string()))
      return false;
    if (key == "anyOf" && std::ranges::none_of(what.as_array(), fits)) return false;
    if (key == "oneOf" && std::ranges::count_if(what.as_array(), fits) != 1) return false;
    if (key == "allOf" && !std::ranges::all_of(what.as_array(), fits)) return false;
    const bool is_bound = key.starts_with("min") || key.starts_with("max") ||
                          key.starts_with("exclusive") || key == "multipleOf";
    if (is_bound && !fits_bound(key, what, value)) return false;
  }
  if (value.is_array() && !fits_array(root, object, value.get_array())) return false;
  return !value.is_object() || fits_object(root, object, value.get_object());
}

}  // namespace reprise::test
