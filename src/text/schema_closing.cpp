// A walk that tells objects that stand alone from parts of a combination.
#include "text/schema_closing.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "text/json_schema.h"
#include "text/schema_rewrite.h"
#include "text/schema_walk.h"

namespace reprise {
namespace {

constexpr int kStepsMax = 100'000;
constexpr int kNamesDepthMax = 16;

constexpr auto kLists = std::to_array<std::string_view>({"allOf", "anyOf", "oneOf"});
// What is said about an object's properties.
constexpr auto kOfObjects = std::to_array<std::string_view>(
    {"additionalProperties", "minProperties", "patternProperties", "properties", "required"});

class Closing {
 public:
  explicit Closing(const JsonValue& root) : root_(root), rewriter_(root) {}

  JsonObject closed() {
    later(root_, false);
    while (!open_.empty()) {
      const auto [schema, is_joined] = open_.back();
      open_.pop_back();
      const JsonObject* object = schema->if_object();
      if (object == nullptr || !seen_.emplace(object, is_joined).second) continue;
      if (++steps_ > kStepsMax) return root_.get_object();
      walk(*object, is_joined);
    }
    // Some were found alone first, and within a combination later.
    for (const auto& [object, is_joined] : seen_) {
      if (is_joined || seen_.contains({object, true}) || !can_close(*object)) continue;
      rewriter_.edits_of(*object).changed["additionalProperties"] = false;
    }
    return rewriter_.rewritten(0).value_or(root_.get_object());
  }

 private:
  using Names = std::set<std::string_view>;

  void later(const JsonValue& schema, bool is_joined) { open_.emplace_back(&schema, is_joined); }

  void walk(const JsonObject& object, bool is_joined) {
    std::size_t parts = 0;  // that one value has to satisfy together
    parts += std::ranges::any_of(kOfObjects, [&](auto key) { return object.contains(key); });
    parts += target_of(object) != nullptr ? 1 : 0;
    for (const std::string_view key : kLists) {
      if (const JsonArray* list = list_of(object, key)) parts += key == "allOf" ? list->size() : 1;
    }
    const bool are_joined = is_joined || parts > 1;
    // Of a value inside: two parts may say something about the same one.
    const bool are_inner_joined = is_joined || (parts > 1 && others_list_properties(object));
    if (const JsonValue* target = target_of(object)) later(*target, are_joined);
    for (const std::string_view key : kLists) {
      if (const JsonArray* list = list_of(object, key))
        for (const JsonValue& one : *list) later(one, are_joined);
    }
    for (const std::string_view key : {"properties", "patternProperties"}) {
      if (const JsonObject* map = object_at(object, key))
        for (const auto& field : *map) later(field.value(), are_inner_joined);
    }
    for (const std::string_view key : {"additionalProperties", "items"}) {
      if (const JsonValue* inner = object.if_contains(key)) later(*inner, are_inner_joined);
    }
    for (const std::string_view key : {"items", "prefixItems"}) {
      if (const JsonArray* list = list_of(object, key))
        for (const JsonValue& one : *list) later(one, are_inner_joined);
    }
  }

  // Whether what stands beside an object's own keywords says something about values in it.
  bool others_list_properties(const JsonObject& object) {
    const JsonValue* target = target_of(object);
    if (target != nullptr && lists_properties(*target, kNamesDepthMax)) return true;
    return std::ranges::any_of(kLists, [&](std::string_view key) {
      const JsonArray* list = list_of(object, key);
      return list != nullptr && std::ranges::any_of(*list, [&](const JsonValue& one) {
               return lists_properties(one, kNamesDepthMax);
             });
    });
  }

  bool lists_properties(const JsonValue& schema, int depth) {
    const JsonObject* object = schema.if_object();
    if (object == nullptr) return false;
    if (depth == 0 || ++steps_ > kStepsMax) return true;
    for (const std::string_view key : {"properties", "items", "prefixItems"})
      if (object->contains(key)) return true;
    for (const std::string_view key : {"additionalProperties", "patternProperties"}) {
      const JsonValue* inner = object->if_contains(key);
      if (inner != nullptr && inner->is_object()) return true;
    }
    const JsonValue* target = target_of(*object);
    if (target != nullptr && lists_properties(*target, depth - 1)) return true;
    return std::ranges::any_of(kLists, [&](std::string_view key) {
      const JsonArray* list = list_of(*object, key);
      return list != nullptr && std::ranges::any_of(*list, [&](const JsonValue& one) {
               return lists_properties(one, depth - 1);
             });
    });
  }

  // Of an object that is no part of another combination.
  bool can_close(const JsonObject& object) {
    const JsonObject* listed = object_at(object, "properties");
    if (listed == nullptr) return false;
    const auto says = [&](std::string_view key) {
      const JsonValue* value = object.if_contains(key);
      return value != nullptr && !value->is_null();
    };
    const JsonValue* unevaluated = object.if_contains("unevaluatedProperties");
    const bool is_closed_late = unevaluated != nullptr && is_false(*unevaluated);
    if (says("additionalProperties") || says("patternProperties")) return false;
    if (says("unevaluatedProperties") && !is_closed_late) return false;
    if (count_of(object, "minProperties", 0) > listed->size()) return false;
    Names names;
    for (const auto& field : *listed) names.insert(field.key());
    return names_no_others(object, names, kNamesDepthMax);
  }

  // Whether the object and all that is combined with it speak of these properties only.
  bool names_no_others(const JsonObject& object, const Names& names, int depth) {
    if (depth == 0 || ++steps_ > kStepsMax) return false;
    if (const JsonObject* listed = object_at(object, "properties")) {
      for (const auto& field : *listed)
        if (!names.contains(field.key())) return false;
    }
    if (const JsonArray* required = list_of(object, "required")) {
      for (const JsonValue& name : *required)
        if (name.is_string() && !names.contains(name.get_string())) return false;
    }
    if (depth < kNamesDepthMax && object.contains("minProperties")) return false;
    const auto fits = [&](const JsonValue& schema) {
      const JsonObject* part = schema.if_object();
      return part == nullptr || names_no_others(*part, names, depth - 1);
    };
    if (const JsonValue* target = target_of(object); target != nullptr && !fits(*target))
      return false;
    return std::ranges::all_of(kLists, [&](std::string_view key) {
      const JsonArray* list = list_of(object, key);
      return list == nullptr || std::ranges::all_of(*list, fits);
    });
  }

  const JsonValue* target_of(const JsonObject& object) const {
    const JsonValue* reference = object.if_contains("$ref");
    if (reference == nullptr || !reference->is_string()) return nullptr;
    return resolve_reference(root_, reference->get_string());
  }
  static const JsonArray* list_of(const JsonObject& object, std::string_view key) {
    const JsonValue* list = object.if_contains(key);
    return list == nullptr ? nullptr : list->if_array();
  }
  static const JsonObject* object_at(const JsonObject& object, std::string_view key) {
    const JsonValue* inner = object.if_contains(key);
    return inner == nullptr ? nullptr : inner->if_object();
  }

  const JsonValue& root_;
  SchemaRewriter rewriter_;
  std::vector<std::pair<const JsonValue*, bool>> open_;
  std::set<std::pair<const JsonObject*, bool>> seen_;
  int steps_ = 0;
};

}  // namespace

JsonObject with_closed_objects(const JsonObject& schema) {
  const JsonValue root = schema;
  return Closing(root).closed();
}

}  // namespace reprise
