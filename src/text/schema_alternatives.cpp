// Pairs of JSON schemas that no value satisfies both of.
#include "text/schema_alternatives.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "text/json_schema.h"

namespace reprise {
namespace {

constexpr std::size_t kAlternativesMax = 100;
constexpr int kReferencesMax = 8;

// The schema itself where it is a reference and nothing else.
const JsonObject* resolved(const JsonValue& root, const JsonValue& schema) {
  const JsonObject* object = schema.if_object();
  for (int i = 0; i < kReferencesMax && object != nullptr; i++) {
    const JsonValue* reference = object->if_contains("$ref");
    if (reference == nullptr) return object;
    if (!reference->is_string()) return nullptr;
    const JsonValue* target = resolve_reference(root, reference->get_string());
    object = target == nullptr ? nullptr : target->if_object();
  }
  return nullptr;
}

// Nothing: any type.
std::vector<std::string_view> types_of(const JsonObject& schema) {
  std::vector<std::string_view> types;
  const auto add = [&types](const JsonValue& name) {
    if (!name.is_string()) return;
    const std::string_view type = name.get_string();
    types.push_back(type == "integer" ? "number" : type);
  };
  const JsonValue* type = schema.if_contains("type");
  if (type == nullptr) return types;
  if (const JsonArray* list = type->if_array()) {
    std::ranges::for_each(*list, add);
  } else {
    add(*type);
  }
  return types;
}

// What the schema allows where it lists its values.
std::optional<JsonArray> constants_of(const JsonObject& schema) {
  if (const JsonValue* constant = schema.if_contains("const")) return JsonArray{*constant};
  const JsonValue* list = schema.if_contains("enum");
  if (list == nullptr || !list->is_array()) return std::nullopt;
  return list->get_array();
}

bool have_nothing_in_common(const auto& left, const auto& right) {
  return std::ranges::none_of(
      left, [&right](const auto& value) { return std::ranges::find(right, value) != right.end(); });
}

bool differ_as_values(const JsonObject& left, const JsonObject& right) {
  const auto left_types = types_of(left), right_types = types_of(right);
  if (!left_types.empty() && !right_types.empty() &&
      have_nothing_in_common(left_types, right_types))
    return true;
  const auto left_values = constants_of(left), right_values = constants_of(right);
  return left_values && right_values && have_nothing_in_common(*left_values, *right_values);
}

bool requires_property(const JsonObject& schema, std::string_view name) {
  const JsonValue* required = schema.if_contains("required");
  if (required == nullptr || !required->is_array()) return false;
  return std::ranges::any_of(required->get_array(), [name](const JsonValue& listed) {
    return listed.is_string() && std::string_view(listed.get_string()) == name;
  });
}

bool exclude(const JsonValue& root, const JsonValue& left_schema, const JsonValue& right_schema) {
  const JsonObject* left = resolved(root, left_schema);
  const JsonObject* right = resolved(root, right_schema);
  if (left == nullptr || right == nullptr) return false;
  if (differ_as_values(*left, *right)) return true;
  // What is no object satisfies `properties`.
  const std::vector<std::string_view> object = {"object"};
  if (types_of(*left) != object || types_of(*right) != object) return false;
  const JsonValue* left_properties = left->if_contains("properties");
  const JsonValue* right_properties = right->if_contains("properties");
  if (left_properties == nullptr || right_properties == nullptr) return false;
  const JsonObject* left_fields = left_properties->if_object();
  const JsonObject* right_fields = right_properties->if_object();
  if (left_fields == nullptr || right_fields == nullptr) return false;
  return std::ranges::any_of(*left_fields, [&](const auto& field) {
    const JsonValue* other = right_fields->if_contains(field.key());
    if (other == nullptr || !field.value().is_object() || !other->is_object()) return false;
    if (!requires_property(*left, field.key()) && !requires_property(*right, field.key()))
      return false;
    return differ_as_values(field.value().get_object(), other->get_object());
  });
}

}  // namespace

bool exclude_one_another(const JsonValue& root, const JsonArray& alternatives) {
  if (alternatives.size() > kAlternativesMax) return false;
  for (std::size_t i = 0; i < alternatives.size(); i++) {
    for (std::size_t j = 0; j < i; j++) {
      if (!exclude(root, alternatives[i], alternatives[j])) return false;
    }
  }
  return true;
}

}  // namespace reprise
