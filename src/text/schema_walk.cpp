// Kinds of values, assertions, and parts of JSON schemas.
#include "text/schema_walk.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "text/json_schema.h"

namespace reprise {
namespace {

constexpr int kStepsMax = 1000;
constexpr int kReferencesMax = 8;

// All that a checked schema may have and that is no annotation.
constexpr auto kAssertions = std::to_array<std::string_view>({"$ref",
                                                              "additionalItems",
                                                              "additionalProperties",
                                                              "allOf",
                                                              "anyOf",
                                                              "const",
                                                              "enum",
                                                              "exclusiveMaximum",
                                                              "exclusiveMinimum",
                                                              "format",
                                                              "items",
                                                              "maxItems",
                                                              "maxLength",
                                                              "maxProperties",
                                                              "maximum",
                                                              "minItems",
                                                              "minLength",
                                                              "minProperties",
                                                              "minimum",
                                                              "multipleOf",
                                                              "oneOf",
                                                              "pattern",
                                                              "patternProperties",
                                                              "prefixItems",
                                                              "properties",
                                                              "required",
                                                              "type"});
constexpr auto kSchemaMaps = std::to_array<std::string_view>({"patternProperties", "properties"});
constexpr auto kNoSchemas = std::to_array<std::string_view>({"const", "enum", "required", "type"});

bool is_one_of(std::string_view word, const auto& words) {
  return std::ranges::find(words, word) != std::ranges::end(words);
}

bool names_kind(const JsonValue& named, std::string_view kind) {
  return named.is_string() &&
         (named.get_string() == kind || (kind == "integer" && named.get_string() == "number"));
}

bool is_of_kind(const JsonValue& value, std::string_view kind) {
  return kind_of(value) == kind || (kind == "number" && kind_of(value) == "integer");
}

class KindWalk {
 public:
  KindWalk(const JsonValue& root, std::string_view kind) : root_(root), kind_(kind) {}

  bool may_be(const JsonValue& schema) {
    if (schema.is_bool()) return schema.get_bool();
    const JsonObject* object = schema.if_object();
    if (object == nullptr || ++steps_ > kStepsMax) return true;
    return fits_type(*object) && fits_constants(*object) && fits_others(*object);
  }

 private:
  bool fits_type(const JsonObject& schema) const {
    const JsonValue* type = schema.if_contains("type");
    if (type == nullptr) return true;
    const JsonValue* nullable = schema.if_contains("nullable");
    if (kind_ == "null" && nullable != nullptr && *nullable == true) return true;
    if (!type->is_array()) return names_kind(*type, kind_);
    return std::ranges::any_of(type->get_array(),
                               [this](const JsonValue& one) { return names_kind(one, kind_); });
  }
  bool fits_constants(const JsonObject& schema) const {
    const JsonValue* one = schema.if_contains("const");
    if (one != nullptr && !is_of_kind(*one, kind_)) return false;
    const JsonValue* values = schema.if_contains("enum");
    if (values == nullptr || !values->is_array()) return true;
    return std::ranges::any_of(values->get_array(),
                               [this](const JsonValue& value) { return is_of_kind(value, kind_); });
  }
  bool fits_others(const JsonObject& schema) {
    const JsonValue* reference = schema.if_contains("$ref");
    if (reference != nullptr && reference->is_string()) {
      const JsonValue* target = resolve_reference(root_, reference->get_string());
      if (target != nullptr && !may_be(*target)) return false;
    }
    const auto fits = [this](const JsonValue& one) { return may_be(one); };
    for (const std::string_view key : {"anyOf", "oneOf"}) {
      const JsonValue* list = schema.if_contains(key);
      if (list == nullptr || !list->is_array()) continue;
      if (!std::ranges::any_of(list->get_array(), fits)) return false;
    }
    const JsonValue* all = schema.if_contains("allOf");
    return all == nullptr || !all->is_array() || std::ranges::all_of(all->get_array(), fits);
  }

  const JsonValue& root_;
  std::string_view kind_;
  int steps_ = 0;
};

}  // namespace

std::string_view kind_of(const JsonValue& value) {
  if (value.is_string()) return "string";
  if (value.is_bool()) return "boolean";
  if (value.is_null()) return "null";
  if (value.is_array()) return "array";
  if (value.is_object()) return "object";
  return value.is_double() ? "number" : "integer";
}

bool may_be(const JsonValue& root, const JsonValue& schema, std::string_view kind) {
  return KindWalk(root, kind).may_be(schema);
}

const JsonValue& without_references(const JsonValue& root, const JsonValue& schema) {
  const JsonValue* value = &schema;
  for (int i = 0; i < kReferencesMax; i++) {
    const JsonObject* object = value->if_object();
    const JsonValue* reference = object == nullptr ? nullptr : object->if_contains("$ref");
    if (reference == nullptr || !reference->is_string()) break;
    if (!assertion_beside(*object, {"$ref"}).empty()) break;
    const JsonValue* target = resolve_reference(root, reference->get_string());
    if (target == nullptr) break;
    value = target;
  }
  return *value;
}

std::string_view assertion_beside(const JsonObject& schema,
                                  std::initializer_list<std::string_view> but_for) {
  for (const auto& field : schema) {
    const std::string_view key = field.key();
    if (is_one_of(key, kAssertions) && !is_one_of(key, but_for)) return key;
  }
  return {};
}

std::uint64_t count_of(const JsonObject& schema, std::string_view key, std::uint64_t otherwise) {
  const JsonValue* count = schema.if_contains(key);
  if (count == nullptr || !count->is_number()) return otherwise;
  boost::system::error_code trouble;  // 3.0 is a count, too
  const auto number = count->to_number<std::uint64_t>(trouble);
  return trouble ? otherwise : number;
}

RootObject root_object(const JsonValue& root) {
  RootObject found{root.if_object(), {}, {}};
  for (int i = 0; i < kReferencesMax; i++) {
    const JsonValue* reference = found.schema->if_contains("$ref");
    const JsonObject* target = reference == nullptr
                                   ? nullptr
                                   : resolve_reference(root, reference->get_string())->if_object();
    if (target == nullptr) break;
    // Every function's schema got a type.
    const auto beside = assertion_beside(*found.schema, {"$ref", "type"});
    if (!beside.empty()) found.unheld = fmt::format("{} beside $ref", beside);
    found.schema = target;
    found.place = quotable(reference->get_string());
  }
  for (const std::string_view key : {"$ref", "allOf", "anyOf", "const", "enum", "oneOf"}) {
    if (found.schema->contains(key)) found.unheld = key;
  }
  if (const JsonValue* type = found.schema->if_contains("type")) {
    const bool is_object =
        type->is_array() ? std::ranges::find(type->get_array(), "object") != type->get_array().end()
                         : *type == "object";
    if (!is_object) found.unheld = "type";  // arguments are an object
  }
  return found;
}

ObjectFields object_fields(const JsonObject& schema) {
  ObjectFields made;
  std::set<std::string_view> required, names;
  if (const JsonValue* list = schema.if_contains("required")) {
    for (const JsonValue& name : list->get_array()) required.insert(name.get_string());
  }
  if (const JsonValue* listed = schema.if_contains("properties")) {
    for (const auto& field : listed->get_object()) {
      const bool is_required = required.contains(field.key());
      names.insert(field.key());
      if (!is_false(field.value())) {
        made.fields.push_back({field.key(), &field.value(), is_required});
      } else if (is_required) {
        made.unheld = "required";
      }
    }
  }
  const JsonValue* others = schema.if_contains("additionalProperties");
  for (const std::string_view name : required) {
    if (names.contains(name)) continue;
    if (others != nullptr && is_false(*others)) made.unheld = "required";
    made.fields.push_back({name, others, true});
  }
  constexpr std::uint64_t kUnbounded = ~std::uint64_t{0};
  const std::uint64_t most = count_of(schema, "maxProperties", kUnbounded);
  if (schema.contains("patternProperties")) made.unheld = "patternProperties";
  if (count_of(schema, "minProperties", 0) > required.size()) made.unheld = "minProperties";
  const bool is_open = others == nullptr || !is_false(*others);  // nobody counts what else comes
  if (most < made.fields.size() || (is_open && most < kUnbounded)) made.unheld = "maxProperties";
  return made;
}

Constants constants_of(const JsonObject& schema) {
  Constants made;
  if (const auto beside = assertion_beside(schema, {"const", "enum", "type"}); !beside.empty())
    made.unheld = fmt::format("{} beside constants", beside);
  const JsonValue* one = schema.if_contains("const");
  const JsonValue* list = schema.if_contains("enum");
  if (one != nullptr && list != nullptr) made.unheld = "enum beside const";
  std::vector<const JsonValue*> all;
  if (one != nullptr) {
    all.push_back(one);
  } else {
    for (const JsonValue& each : list->get_array()) all.push_back(&each);
  }
  JsonValue of_type = JsonObject();
  if (const JsonValue* type = schema.if_contains("type")) of_type.get_object()["type"] = *type;
  for (const JsonValue* each : all) {
    if (may_be(of_type, of_type, kind_of(*each))) made.values.push_back(each);
  }
  if (!made.values.empty()) return made;
  made.unheld = "type";  // no value satisfies it
  made.values = std::move(all);
  return made;
}

std::string SchemaParts::name_of(const JsonValue& target) {
  return fmt::format("d{}", names_.try_emplace(&target, names_.size()).first->second);
}

const SchemaParts::Part& SchemaParts::part(const JsonValue& schema) {
  const auto place = parts_.find(&schema);
  if (place != parts_.end()) return place->second;
  Part made;
  made.schema = rewritten(schema, made);
  return parts_.emplace(&schema, std::move(made)).first->second;
}

JsonValue SchemaParts::rewritten(const JsonValue& schema, Part& into) {
  if (const JsonArray* list = schema.if_array()) {
    JsonArray made;
    for (const JsonValue& one : *list) made.push_back(rewritten(one, into));
    return made;
  }
  const JsonObject* object = schema.if_object();
  if (object == nullptr) return schema;
  JsonObject made;
  for (const auto& field : *object) {
    const std::string_view key = field.key();
    const JsonValue& value = field.value();
    if (!is_one_of(key, kAssertions)) continue;
    if (key == "$ref" && value.is_string()) {
      const JsonValue* target = resolve_reference(root_, value.get_string());
      if (target == nullptr) continue;  // checked before
      into.named.push_back(target);
      made["$ref"] = "#/$defs/" + name_of(*target);
    } else if (is_one_of(key, kSchemaMaps) && value.is_object()) {
      JsonObject map;
      for (const auto& member : value.get_object())
        map.emplace(member.key(), rewritten(member.value(), into));
      made.emplace(key, std::move(map));
    } else {
      made.emplace(key, is_one_of(key, kNoSchemas) ? value : rewritten(value, into));
    }
  }
  return made;
}

JsonValue SchemaParts::with_definitions(const JsonValue& schema) {
  JsonValue made = part(schema).schema;
  std::vector<const JsonValue*> open = part(schema).named;
  if (open.empty() || !made.is_object()) return made;
  JsonObject definitions;
  std::set<const JsonValue*> seen;
  while (!open.empty()) {
    const JsonValue* target = open.back();
    open.pop_back();
    if (!seen.insert(target).second) continue;
    const Part& definition = part(*target);
    definitions.emplace(name_of(*target), definition.schema);
    open.insert(open.end(), definition.named.begin(), definition.named.end());
  }
  made.get_object()["$defs"] = std::move(definitions);
  return made;
}

}  // namespace reprise
