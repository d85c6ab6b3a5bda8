// Values inside and outside a JSON schema, and which of them they are: for as much of JSON schema
// as /openapi.json is written in.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "api/field_reader.h"
#include "base/json.h"

namespace reprise::testing {

// ---- whether a value is inside

bool is_inside(const JsonObject& schema, const JsonValue& value);

inline bool has_type(const JsonValue& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_bool();
  if (type == "number") return value.is_number();
  if (type == "integer") {
    return value.is_number() &&
           (!value.is_double() || std::trunc(value.get_double()) == value.get_double());
  }
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

// The patterns that the tables have.
inline bool has_pattern(std::string_view text, std::string_view pattern) {
  const auto all_of = [&](std::string_view letters) {
    return text.find_first_not_of(letters) == std::string_view::npos;
  };
  const bool is_long_name = pattern == "^[a-zA-Z0-9_-]{1,128}$";
  if (is_long_name || pattern == "^[a-zA-Z0-9_-]{1,64}$") {
    return !text.empty() && text.size() <= (is_long_name ? 128 : 64) &&
           all_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
  }
  EXPECT_EQ(pattern, "^(0|[1-9][0-9]{0,9})$");
  return !text.empty() && text.size() <= 10 && all_of("0123456789") &&
         (text == "0" || text[0] != '0');
}

inline bool is_inside_string(const JsonObject& schema, std::string_view text) {
  std::size_t characters = 0;
  for (const char byte : text) characters += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  const JsonValue* least = schema.if_contains("minLength");
  const JsonValue* most = schema.if_contains("maxLength");
  const JsonValue* pattern = schema.if_contains("pattern");
  return !(least && characters < least->to_number<std::size_t>()) &&
         !(most && characters > most->to_number<std::size_t>()) &&
         !(pattern && !has_pattern(text, text_of(*pattern)));
}

inline bool is_inside_number(const JsonObject& schema, double number) {
  const JsonValue* least = schema.if_contains("minimum");
  const JsonValue* most = schema.if_contains("maximum");
  const JsonValue* above = schema.if_contains("exclusiveMinimum");
  return !(least && number < least->to_number<double>()) &&
         !(most && number > most->to_number<double>()) &&
         !(above && number <= above->to_number<double>());
}

inline bool is_inside_array(const JsonObject& schema, const JsonArray& list) {
  const JsonValue* least = schema.if_contains("minItems");
  const JsonValue* most = schema.if_contains("maxItems");
  if (least && list.size() < least->to_number<std::size_t>()) return false;
  if (most && list.size() > most->to_number<std::size_t>()) return false;
  const JsonValue* prefix = schema.if_contains("prefixItems");
  const JsonValue* items = schema.if_contains("items");
  for (std::size_t index = 0; index < list.size(); index++) {
    const bool is_first = prefix && index < prefix->as_array().size();
    const JsonValue* item = is_first ? &prefix->as_array()[index] : items;
    if (item && !is_inside(item->as_object(), list[index])) return false;
  }
  return true;
}

inline bool is_inside_object(const JsonObject& schema, const JsonObject& object) {
  const JsonValue* most = schema.if_contains("maxProperties");
  if (most && object.size() > most->to_number<std::size_t>()) return false;
  if (const JsonValue* required = schema.if_contains("required")) {
    for (const JsonValue& name : required->as_array()) {
      if (!object.contains(text_of(name))) return false;
    }
  }
  const JsonValue* properties = schema.if_contains("properties");
  const JsonValue* names = schema.if_contains("propertyNames");
  const JsonValue* others = schema.if_contains("additionalProperties");
  for (const auto& member : object) {
    if (names && !is_inside(names->as_object(), JsonValue(member.key()))) return false;
    const JsonValue* own = properties ? properties->as_object().if_contains(member.key()) : nullptr;
    if (!own) own = others;
    if (own && !is_inside(own->as_object(), member.value())) return false;
  }
  return true;
}

inline bool is_any(const JsonArray& values, const JsonValue& value) {
  return std::any_of(values.begin(), values.end(),
                     [&](const JsonValue& other) { return is_same(value, other); });
}

inline bool has_any_type(const JsonValue& types, const JsonValue& value) {
  if (types.is_string()) return has_type(value, text_of(types));
  const JsonArray& list = types.as_array();
  return std::any_of(list.begin(), list.end(),
                     [&](const JsonValue& type) { return has_type(value, text_of(type)); });
}

inline bool is_inside(const JsonObject& schema, const JsonValue& value) {
  for (const auto& member : schema) {
    const std::string_view key = member.key();
    const JsonValue& rule = member.value();
    if (key == "type" && !has_any_type(rule, value)) return false;
    if (key == "const" && !is_same(rule, value)) return false;
    if (key == "enum" && !is_any(rule.as_array(), value)) return false;
    if (key == "anyOf") {
      const JsonArray& forms = rule.as_array();
      if (std::none_of(forms.begin(), forms.end(),
                       [&](const JsonValue& form) { return is_inside(form.as_object(), value); })) {
        return false;
      }
    }
  }
  if (value.is_string()) return is_inside_string(schema, text_of(value));
  if (value.is_number()) return is_inside_number(schema, value.to_number<double>());
  if (value.is_array()) return is_inside_array(schema, value.get_array());
  if (value.is_object()) return is_inside_object(schema, value.get_object());
  return true;
}

// ---- values at its bounds

std::vector<JsonValue> values_around(const JsonObject& schema);

// Of every kind, whatever the schema.
inline std::vector<JsonValue> any_values() {
  std::vector<JsonValue> values;
  for (const char* json : {"null",        "true",       "false",     "0",
                           "1",           "-1",         "-2",        "0.5",
                           "2.0",         "1e9",        "1e300",     "\"\"",
                           "\"f\"",       "[]",         "[null]",    "[1]",
                           "[0.5]",       "[-1]",       "[[]]",      "[[1]]",
                           "[\"\"]",      "{}",         "[{}]",      "[5,\"f\"]",
                           "[\"f\",[1]]", "{\"f\":1}",  "{\"5\":1}", "{\"type\":\"f\"}",
                           "[\"f\"]",     "\"\\u00e9\""}) {
    values.push_back(parse_json(json).value());
  }
  return values;
}

// One that is inside; the schemas here all have one among those around them.
inline JsonValue value_inside(const JsonObject& schema) {
  for (JsonValue& value : values_around(schema)) {
    if (!value.is_null() && is_inside(schema, value)) return std::move(value);
  }
  ADD_FAILURE() << "no value for " << to_json(schema);
  return {};
}

inline void add_list_values(const JsonObject& schema, std::vector<JsonValue>& values) {
  if (const JsonValue* prefix = schema.if_contains("prefixItems")) {
    JsonArray good;
    for (const JsonValue& item : prefix->as_array()) {
      good.push_back(value_inside(item.as_object()));
    }
    for (std::size_t index = 0; index < good.size(); index++) {
      for (JsonValue& other : values_around(prefix->as_array()[index].as_object())) {
        JsonArray list = good;
        list[index] = std::move(other);
        values.emplace_back(std::move(list));
      }
    }
    good.push_back(good.back());
    values.emplace_back(std::move(good));
  }
  const JsonValue* items = schema.if_contains("items");
  if (!items || !items->as_object().size()) return;
  for (JsonValue& item : values_around(items->as_object())) {
    values.emplace_back(JsonArray{std::move(item)});
  }
  const JsonValue* most = schema.if_contains("maxItems");
  if (!most) return;
  const JsonValue item = value_inside(items->as_object());
  JsonArray list(most->to_number<std::size_t>(), item);
  values.emplace_back(list);
  list.push_back(item);
  values.emplace_back(std::move(list));
}

inline void add_object_values(const JsonObject& schema, std::vector<JsonValue>& values) {
  if (const JsonValue* most = schema.if_contains("maxProperties")) {
    JsonObject object;
    const JsonValue item = value_inside(schema.at("additionalProperties").as_object());
    const std::size_t count = most->to_number<std::size_t>();
    for (std::size_t index = 0; index < count; index++) object[fmt::format("{}", index)] = item;
    values.emplace_back(object);
    object[fmt::format("{}", count)] = item;
    values.emplace_back(std::move(object));
  }
  if (const JsonValue* others = schema.if_contains("additionalProperties")) {
    for (const char* name : {"0", "5", "05", "-1", "f", "4294967296"}) {
      for (JsonValue& item : values_around(others->as_object())) {
        values.emplace_back(JsonObject{{name, std::move(item)}});
      }
    }
  }
  const JsonValue* properties = schema.if_contains("properties");
  if (!properties) return;
  JsonObject good;
  const JsonValue* required = schema.if_contains("required");
  for (const auto& member : properties->as_object()) {
    if (required && is_any(required->as_array(), JsonValue(member.key()))) {
      good[member.key()] = value_inside(member.value().as_object());
    }
  }
  values.emplace_back(good);
  for (const auto& member : properties->as_object()) {
    JsonObject without = good;
    if (without.erase(member.key()) > 0) values.emplace_back(std::move(without));
    for (JsonValue& other : values_around(member.value().as_object())) {
      JsonObject object = good;
      object[member.key()] = std::move(other);
      values.emplace_back(std::move(object));
    }
  }
}

inline std::vector<JsonValue> values_around(const JsonObject& schema) {
  constexpr std::size_t kLongest = 5000;  // longer texts than that are left to other tests
  std::vector<JsonValue> values = any_values();
  for (const auto& member : schema) {
    const std::string_view key = member.key();
    const JsonValue& rule = member.value();
    if (key == "const") values.push_back(rule);
    if (key == "enum") {
      for (const JsonValue& value : rule.as_array()) values.push_back(value);
    }
    if (key == "minimum" || key == "maximum" || key == "exclusiveMinimum") {
      const double bound = rule.to_number<double>();
      if (std::abs(bound) < 1e15) {
        for (const double step : {-1.0, -0.001, 0.0, 0.001, 1.0}) values.emplace_back(bound + step);
      }
    }
    if (key == "maxLength" && rule.to_number<std::size_t>() <= kLongest) {
      values.emplace_back(boost::json::string(rule.to_number<std::size_t>(), 'f'));
      values.emplace_back(boost::json::string(rule.to_number<std::size_t>() + 1, 'f'));
    }
    if (key == "anyOf") {
      for (const JsonValue& form : rule.as_array()) {
        for (JsonValue& value : values_around(form.as_object())) values.push_back(std::move(value));
      }
    }
  }
  add_list_values(schema, values);
  add_object_values(schema, values);
  return values;
}

}  // namespace reprise::testing
