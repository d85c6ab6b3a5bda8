// Pairs of JSON schemas that no value satisfies both of.
#include "text/schema_alternatives.h"

#include <algorithm>

#include <fmt/core.h>

#include "text/json_schema.h"
#include "text/schema_numbers.h"

namespace reprise {
namespace {

constexpr std::size_t kAlternativesMax = 100;
constexpr int kReferencesMax = 8;
constexpr std::size_t kStepsMax = 3'000'000;

std::vector<std::string_view> types_of(const JsonObject& schema) {
  std::vector<std::string_view> types;
  const auto add = [&types](const JsonValue& name) {
    if (!name.is_string()) return;
    const std::string_view type = name.get_string();
    types.push_back(type == "integer" ? "number" : type);
  };
  const JsonValue* type = schema.if_contains("type");
  if (type == nullptr) return types;
  const JsonValue* nullable = schema.if_contains("nullable");
  if (nullable != nullptr && *nullable == true) types.emplace_back("null");
  if (const JsonArray* list = type->if_array()) {
    std::ranges::for_each(*list, add);
  } else {
    add(*type);
  }
  std::ranges::sort(types);
  return types;
}

}  // namespace

bool SchemaAlternatives::is_exhausted() const {
  return steps_ > kStepsMax;
}

// The schema itself where it is a reference and nothing else.
const JsonObject* SchemaAlternatives::resolved(const JsonValue& schema) {
  const auto [known, is_new] = targets_.try_emplace(&schema, nullptr);
  if (!is_new) return known->second;
  const JsonObject* object = schema.if_object();
  for (int i = 0; i < kReferencesMax && object != nullptr; i++) {
    const JsonValue* reference = object->if_contains("$ref");
    if (reference == nullptr) return known->second = object;
    if (!reference->is_string()) return nullptr;
    spend(reference->get_string().size());
    const JsonValue* target = resolve_reference(root_, reference->get_string());
    object = target == nullptr ? nullptr : target->if_object();
  }
  return nullptr;
}

const SchemaAlternatives::Facts& SchemaAlternatives::facts_of(const JsonObject& schema) {
  const auto [known, is_new] = facts_.try_emplace(&schema);
  Facts& facts = known->second;
  if (!is_new) return facts;
  facts.types = types_of(schema);
  const JsonValue* list = schema.if_contains("enum");
  if (const JsonValue* constant = schema.if_contains("const")) {
    facts.has_constants = true;
    facts.constants = {canonical_json(*constant)};
  } else if (list != nullptr && list->is_array()) {
    facts.has_constants = true;
    for (const JsonValue& value : list->get_array())
      facts.constants.push_back(canonical_json(value));
    std::ranges::sort(facts.constants);
  }
  const JsonValue* required = schema.if_contains("required");
  if (required != nullptr && required->is_array()) {
    for (const JsonValue& name : required->get_array()) {
      if (name.is_string()) facts.required.insert(name.get_string());
    }
  }
  const JsonValue* properties = schema.if_contains("properties");
  if (properties != nullptr) facts.properties = properties->if_object();
  return facts;
}

// Of two lists in order.
bool SchemaAlternatives::have_nothing_in_common(const auto& left, const auto& right) {
  auto at = left.begin();
  auto other = right.begin();
  while (at != left.end() && other != right.end()) {
    spend(1);
    if (*at == *other) return false;
    if (*at < *other) {
      ++at;
    } else {
      ++other;
    }
  }
  return true;
}

bool SchemaAlternatives::differ_as_values(const JsonObject& left_schema,
                                          const JsonObject& right_schema) {
  const Facts& left = facts_of(left_schema);
  const Facts& right = facts_of(right_schema);
  if (!left.types.empty() && !right.types.empty() &&
      have_nothing_in_common(left.types, right.types))
    return true;
  return left.has_constants && right.has_constants &&
         have_nothing_in_common(left.constants, right.constants);
}

bool SchemaAlternatives::differ_by_property(const Facts& left, const Facts& right) {
  // What is no object satisfies `properties`.
  const std::vector<std::string_view> object = {"object"};
  if (left.types != object || right.types != object) return false;
  if (left.properties == nullptr || right.properties == nullptr) return false;
  return std::ranges::any_of(*left.properties, [&](const auto& field) {
    spend(1);
    const JsonValue* other = right.properties->if_contains(field.key());
    if (other == nullptr || !field.value().is_object() || !other->is_object()) return false;
    if (!left.required.contains(field.key()) && !right.required.contains(field.key())) return false;
    return differ_as_values(field.value().get_object(), other->get_object());
  });
}

bool SchemaAlternatives::exclude(const JsonObject& left, const JsonObject& right) {
  spend(1);
  const auto [known, is_new] = known_.try_emplace(std::pair(&left, &right), false);
  if (is_new) {
    known->second =
        differ_as_values(left, right) || differ_by_property(facts_of(left), facts_of(right));
  }
  return known->second;
}

Result<bool> SchemaAlternatives::exclude_one_another(const JsonArray& alternatives) {
  if (alternatives.size() > kAlternativesMax) return false;
  for (std::size_t i = 0; i < alternatives.size(); i++) {
    const JsonObject* left = resolved(alternatives[i]);
    if (left == nullptr) return false;
    for (std::size_t j = 0; j < i; j++) {
      const JsonObject* right = resolved(alternatives[j]);
      const bool are_apart = right != nullptr && exclude(*left, *right);
      if (is_exhausted()) {
        return fail(Errc::exhausted, fmt::format("oneOf: more than {} steps to tell whether its "
                                                 "alternatives exclude one another",
                                                 kStepsMax));
      }
      if (!are_apart) return false;
    }
  }
  return true;
}

}  // namespace reprise
