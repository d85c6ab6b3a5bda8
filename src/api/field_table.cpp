// Checks of values against a table's row, and the JSON schema of a row.
#include "api/field_table.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/check.h"

namespace reprise {
namespace {

// "a, b or c", each quoted.
std::string listed(std::span<const std::string_view> words) {
  std::string out;
  for (std::size_t index = 0; index < words.size(); index++) {
    if (index > 0) out += index + 1 == words.size() ? " or " : ", ";
    out += fmt::format("\"{}\"", words[index]);
  }
  return out;
}

JsonArray words_of(std::span<const std::string_view> words) {
  JsonArray list;
  for (const std::string_view word : words) list.emplace_back(boost::json::string(word));
  return list;
}

std::int64_t whole(double number) {
  return static_cast<std::int64_t>(number);
}

// Without what all kinds of fields have.
JsonObject type_schema(const FieldSpec& spec, const Limits& limits) {
  const double low = spec.low.of(limits), high = spec.high.of(limits);
  switch (spec.type) {
    case FieldType::number:
      return {{"type", "number"}, {"minimum", low}, {"maximum", high}};
    case FieldType::integer:
      return {{"type", "integer"}, {"minimum", whole(low)}, {"maximum", whole(high)}};
    case FieldType::boolean:
      return {{"type", "boolean"}};
    case FieldType::text: {
      JsonObject schema{{"type", "string"}};
      if (low > 0) schema["minLength"] = whole(low);
      // Bytes bound characters, not the other way round.
      if (high < kIntegerMax) schema["maxLength"] = whole(high);
      return schema;
    }
    case FieldType::word:
      return {{"type", "string"}, {"enum", words_of(spec.words)}};
    case FieldType::composite:
      if (spec.build_schema) return spec.build_schema(limits);
      return own_json(spec.schema.empty() ? "{}" : spec.schema).get_object();
  }
  return {};
}

JsonObject or_null(JsonObject schema) {
  JsonValue* type = schema.if_contains("type");
  if (type && type->is_string() && !schema.contains("enum")) {
    if (text_of(*type) != "null") *type = JsonArray{*type, "null"};
    return schema;
  }
  if (schema.empty()) return schema;
  return {{"anyOf", JsonArray{std::move(schema), JsonObject{{"type", "null"}}}}};
}

}  // namespace

JsonValue own_json(std::string_view json) {
  Result<JsonValue> value = parse_json(json);
  CHECK(value);  // the tables are ours
  return std::move(*value);
}

double Bound::of(const Limits& limits) const {
  return std::visit(
      [&](auto value) -> double {
        if constexpr (std::is_same_v<decltype(value), double>) {
          return value;
        } else {
          return static_cast<double>(limits.*value);
        }
      },
      value_);
}

FieldPlace FieldPlace::member(std::string_view name) const {
  return {fmt::format("{}.{}", param, name), limits, unknown};
}

FieldPlace FieldPlace::item(std::size_t index) const {
  return {fmt::format("{}[{}]", param, index), limits, unknown};
}

namespace field_detail {

ApiResult<double> check_number(const FieldSpec& spec, const FieldPlace& place,
                               const JsonValue& value) {
  return read_number(place.param, value, spec.low.of(*place.limits), spec.high.of(*place.limits));
}

ApiResult<std::int64_t> check_integer(const FieldSpec& spec, const FieldPlace& place,
                                      const JsonValue& value) {
  return read_integer(place.param, value, whole(spec.low.of(*place.limits)),
                      whole(spec.high.of(*place.limits)));
}

ApiResult<bool> check_boolean(const FieldSpec&, const FieldPlace& place, const JsonValue& value) {
  return read_boolean(place.param, value);
}

ApiResult<std::string> check_text(const FieldSpec& spec, const FieldPlace& place,
                                  const JsonValue& value) {
  return read_text(place.param, value, static_cast<std::size_t>(spec.low.of(*place.limits)),
                   static_cast<std::size_t>(spec.high.of(*place.limits)));
}

ApiResult<std::size_t> check_word_index(const FieldSpec& spec, const FieldPlace& place,
                                        const JsonValue& value) {
  if (!value.is_string()) return wrong_type(place.param, listed(spec.words), value);
  const auto word = std::find(spec.words.begin(), spec.words.end(), text_of(value));
  if (word != spec.words.end()) return static_cast<std::size_t>(word - spec.words.begin());
  return wrong_value(place.param, fmt::format("got \"{}\", expected {}", clipped(text_of(value)),
                                              listed(spec.words)));
}

ApiResult<std::string> check_word(const FieldSpec& spec, const FieldPlace& place,
                                  const JsonValue& value) {
  TRY_ASSIGN(const std::size_t index, check_word_index(spec, place, value));
  return std::string(spec.words[index]);
}

}  // namespace field_detail

ApiResult<const JsonValue*> find_field(FieldReader& reader, const FieldSpec& spec,
                                       std::string_view& name) {
  const JsonValue* value = reader.find(spec.name);
  const JsonValue* other = spec.alias.empty() ? nullptr : reader.find(spec.alias);
  if (value && other && !is_same(*value, *other)) {
    const bool are_numbers = value->is_number() && other->is_number();
    return wrong_value(reader.path(spec.alias),
                       are_numbers ? fmt::format("got {}, but {} is {}", to_json(*other),
                                                 reader.path(spec.name), to_json(*value))
                                   : fmt::format("got another value than {}, expected the same",
                                                 reader.path(spec.name)));
  }
  if (!value && other) name = spec.alias;
  if (!value && !other && spec.required) return missing(reader.path(spec.name));
  return value ? value : other;
}

JsonObject field_schema(const FieldSpec& spec, const Limits& limits) {
  JsonObject schema = type_schema(spec, limits);
  if (!spec.required) schema = or_null(std::move(schema));
  if (!spec.description.empty()) schema["description"] = boost::json::string(spec.description);
  if (!spec.fallback.empty()) schema["default"] = own_json(spec.fallback);
  return schema;
}

void add_field(JsonObject& object_schema, const FieldSpec& spec, const Limits& limits) {
  JsonValue& properties = object_schema["properties"];
  if (!properties.is_object()) properties = JsonObject();
  properties.get_object()[spec.name] = field_schema(spec, limits);
  if (!spec.alias.empty()) {
    FieldSpec alias = spec;
    const std::string description = fmt::format("The same as {}; both only when equal.", spec.name);
    alias.description = description;
    alias.fallback = {};
    properties.get_object()[spec.alias] = field_schema(alias, limits);
  }
  if (!spec.required) return;
  JsonValue& required = object_schema["required"];
  if (!required.is_array()) required = JsonArray();
  required.get_array().emplace_back(boost::json::string(spec.name));
}

}  // namespace reprise
