// Drops keywords from schemas, where they stand as such.
#include "text/schema_hints.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "base/log.h"
#include "text/json_schema.h"

namespace reprise {
namespace {

// With patternProperties goes what is said about all other names.
constexpr auto kPatterns = std::to_array<std::string_view>(
    {"format", "maxProperties", "minProperties", "pattern", "patternProperties"});
constexpr auto kSizes = std::to_array<std::string_view>(
    {"exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maximum", "minItems",
     "minLength", "minimum", "multipleOf"});
constexpr auto kSchemas = std::to_array<std::string_view>(
    {"additionalItems", "additionalProperties", "allOf", "anyOf", "items", "oneOf", "prefixItems"});
constexpr auto kSchemaMaps =
    std::to_array<std::string_view>({"$defs", "definitions", "patternProperties", "properties"});

bool is_one_of(std::string_view word, const auto& words) {
  return std::ranges::find(words, word) != words.end();
}

// A schema, or a list of schemas. As deep as JSON may be nested.
JsonValue without(const JsonValue& schema, Looseness looseness) {
  if (const JsonArray* list = schema.if_array()) {
    JsonArray made;
    for (const JsonValue& one : *list) made.push_back(without(one, looseness));
    return made;
  }
  const JsonObject* object = schema.if_object();
  if (object == nullptr) return schema;
  JsonObject made;
  for (const auto& field : *object) {
    const std::string_view key = field.key();
    const JsonObject* map = is_one_of(key, kSchemaMaps) ? field.value().if_object() : nullptr;
    if (is_one_of(key, kPatterns)) continue;
    if (key == "additionalProperties" && object->contains("patternProperties")) continue;
    if (looseness != Looseness::patterns && is_one_of(key, kSizes)) continue;
    if (map != nullptr) {
      JsonObject inner;
      for (const auto& member : *map)
        inner.emplace(member.key(), without(member.value(), looseness));
      made.emplace(key, std::move(inner));
    } else {
      made.emplace(key,
                   is_one_of(key, kSchemas) ? without(field.value(), looseness) : field.value());
    }
  }
  // Also not by what closes objects that list properties.
  if (object->contains("patternProperties")) made["additionalProperties"] = true;
  return made;
}

}  // namespace

JsonObject schema_of_hints(std::string_view function, const JsonObject& schema) {
  std::string dropped;
  Result<JsonObject> checked = checked_hints(schema, dropped);
  if (!checked) {
    dropped = checked.error().message;
    checked = checked_schema({{"type", "object"}});
  }
  if (!dropped.empty()) spdlog::debug("function {}: not held to {}", function, dropped);
  return checked.value_or(JsonObject());
}

JsonObject loosened_schema(const JsonObject& schema, Looseness looseness) {
  if (looseness == Looseness::object) return {{"type", "object"}};
  return std::move(without(schema, looseness).get_object());
}

}  // namespace reprise
