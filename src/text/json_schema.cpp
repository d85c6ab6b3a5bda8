// Checks and rewrites of JSON schemas before llguidance reads them.
#include "text/json_schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "text/schema_alternatives.h"
#include "text/schema_counts.h"
#include "text/schema_formats.h"
#include "text/schema_multiples.h"
#include "text/schema_numbers.h"
#include "text/schema_pattern.h"
#include "text/schema_place.h"
#include "text/schema_rewrite.h"

namespace reprise {
namespace {

constexpr std::size_t kBytesMax = std::size_t{256} << 10;
constexpr int kDepthMax = 64;
constexpr std::size_t kPropertiesMax = 1000;  // of one object: work grows with their square
constexpr int kPassesMax = 4;                 // over a schema of hints

template <std::size_t n>
bool is_one_of(std::string_view word, const std::array<std::string_view, n>& words) {
  return std::ranges::find(words, word) != words.end();
}

// Say nothing about which values are valid.
constexpr auto kAnnotations = std::to_array<std::string_view>({"$anchor",
                                                               "$comment",
                                                               "$defs",
                                                               "$id",
                                                               "$schema",
                                                               "$vocabulary",
                                                               "contentEncoding",
                                                               "contentMediaType",
                                                               "default",
                                                               "definitions",
                                                               "deprecated",
                                                               "description",
                                                               "discriminator",
                                                               "enumDescriptions",
                                                               "enumNames",
                                                               "errorMessage",
                                                               "example",
                                                               "examples",
                                                               "externalDocs",
                                                               "id",
                                                               "markdownDescription",
                                                               "propertyOrdering",
                                                               "readOnly",
                                                               "strict",
                                                               "title",
                                                               "writeOnly",
                                                               "xml"});
constexpr auto kTypes = std::to_array<std::string_view>(
    {"array", "boolean", "integer", "null", "number", "object", "string"});
constexpr auto kBounds =
    std::to_array<std::string_view>({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"});
constexpr auto kCounts = std::to_array<std::string_view>(
    {"maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"});
constexpr auto kSchemas =
    std::to_array<std::string_view>({"additionalItems", "additionalProperties", "items"});
constexpr auto kSchemaLists =
    std::to_array<std::string_view>({"allOf", "anyOf", "oneOf", "prefixItems"});
constexpr auto kSchemaMaps = std::to_array<std::string_view>({"patternProperties", "properties"});
// Models put one space after a colon or comma, or a line break and an indent. More would let them
// go on with spaces until their tokens run out.
constexpr std::string_view kWhiteSpace = R"( |\n[ ]{0,24}|\n\t{1,8})";

bool is_deeper_than(const JsonObject& object, int depth);

bool is_deeper_than(const JsonValue& value, int depth) {
  if (const JsonObject* object = value.if_object()) return is_deeper_than(*object, depth);
  const JsonArray* array = value.if_array();
  if (array == nullptr || depth == 0) return array != nullptr;
  return std::ranges::any_of(
      *array, [depth](const JsonValue& inner) { return is_deeper_than(inner, depth - 1); });
}

bool is_deeper_than(const JsonObject& object, int depth) {
  if (depth == 0) return true;
  return std::ranges::any_of(
      object, [depth](const auto& field) { return is_deeper_than(field.value(), depth - 1); });
}

enum class SchemaKeywords : std::uint8_t {
  refuse,  // a keyword that no grammar can hold is an error
  drop,    // the schema is a hint: it goes on without that keyword
};

// Walks a schema and all that it refers to.
class Checker {
 public:
  Checker(const JsonValue& root, SchemaKeywords keywords)
      : root_(root), keywords_(keywords), rewriter_(root), faults_(root), multiples_(root) {}

  // After checked() of hints: keywords at fault were dropped before anything was read of them, and
  // what is left is to be checked again.
  bool has_faults() const { return has_faults_; }
  // What was dropped first, with its place. Empty: nothing.
  const std::string& first_dropped() const { return first_dropped_; }

  // The schema with all that is to be otherwise.
  Result<JsonObject> checked() {
    open_.push_back({&root_, {}});
    while (!open_.empty()) {
      const auto [schema, place] = std::move(open_.back());
      open_.pop_back();
      if (!seen_.insert(schema).second) continue;
      TRY(check(*schema, place));
    }
    if (has_faults_) return faults_.rewritten(0);
    TRY(check_identities());
    TRY(check_alternatives());
    TRY(check_multiples());
    return rewriter_.rewritten(kBytesMax);
  }

 private:
  Status check(const JsonValue& schema, const std::string& place) {
    if (schema.is_bool()) return {};
    const JsonObject* object = schema.if_object();
    if (object == nullptr)
      return schema_failure(Errc::invalid_argument, place,
                            "expected a schema (an object or a boolean)");
    objects_.emplace_back(object, place);
    bool is_right = true;
    for (const auto& field : *object) {
      const Status checked = check_field(*object, field.key(), field.value(), place);
      is_right = is_right && checked.has_value();
      TRY(forgive(*object, {field.key()}, checked));
    }
    // What follows reads several fields. Hints at fault are read in the next pass.
    return is_right ? check_together(*object, place) : Status();
  }

  Status check_together(const JsonObject& object, const std::string& place) {
    allow_null(object);
    TRY(forgive(object, kBounds, check_bounds(object, place)));
    const bool is_hint = keywords_ == SchemaKeywords::drop;
    for (const auto& [least, most] : kCountRanges) {
      const Status checked = check_range(object, least, most, !is_hint);
      TRY(forgive(object, {least, most}, placed(checked, place)));
    }
    TRY(forgive(object, {"pattern"}, placed(check_length_of_pattern(object), place)));
    TRY(forgive(object, {"minProperties"}, placed(check_least_properties(object), place)));
    // To others llguidance says so itself.
    if (!is_hint || counts_properties(object)) return {};
    return forgive(object, {"minProperties", "maxProperties"},
                   schema_failure(Errc::unsupported, place,
                                  "counts of properties beside optional ones are not supported"));
  }

  // What is wrong with a hint is dropped, with what would mean more without it.
  Status forgive(const JsonObject& object, std::span<const std::string_view> keys,
                 const Status& checked) {
    if (checked || keywords_ == SchemaKeywords::refuse) return checked;
    has_faults_ = true;
    note(checked.error().message);
    std::set<std::string, std::less<>>& dropped = faults_.edits_of(object).dropped;
    for (const std::string_view key : keys) {
      dropped.emplace(key);
      const bool is_map = key == "patternProperties" || key == "properties";
      if (is_map) dropped.emplace("additionalProperties");
      if (key == "prefixItems" || key == "items") dropped.emplace("additionalItems");
      if (key == "prefixItems") dropped.emplace("items");
    }
    return {};
  }
  Status forgive(const JsonObject& object, std::initializer_list<std::string_view> keys,
                 const Status& checked) {
    return forgive(object, std::span(keys.begin(), keys.size()), checked);
  }

  void note(std::string_view dropped) {
    if (first_dropped_.empty()) first_dropped_ = dropped;
  }

  Status check_field(const JsonObject& object, std::string_view key, const JsonValue& value,
                     const std::string& place) {
    if (value.is_null() && keywords_ == SchemaKeywords::drop && key != "const") {
      if (is_one_of(key, kAnnotations)) return {};
      return schema_failure(Errc::invalid_argument, place,
                            fmt::format("{} is null", schema_place({}, key)));
    }
    if (key == "$schema" || key == "x-guidance" || key == "nullable") {
      drop(object, key);
    } else if (key == "$id" && &object != root_.if_object()) {
      identities_.emplace_back(&object, place);
    } else if (is_one_of(key, kAnnotations) || key.starts_with("x-")) {
      // No grammar is held to them.
    } else if (key == "$ref") {
      return check_reference(object, value, place);
    } else if (is_one_of(key, kCounts)) {
      return check_count(object, key, value, place);
    } else if (is_one_of(key, kSchemas)) {
      return check_schemas(key, value, place);
    } else if (is_one_of(key, kSchemaLists)) {
      return check_list(object, key, value, place);
    } else if (is_one_of(key, kSchemaMaps)) {
      return check_map(key, value, place);
    } else if (key == "pattern") {
      return check_pattern_of(object, value, place);
    } else if (key == "format") {
      return check_format(object, value, place);
    } else if (key == "enum" || key == "const") {
      return check_constant(object, key, value, place);
    } else if (key == "type" || key == "required") {
      return check_names(key, value, place);
    } else if (is_one_of(key, kBounds)) {
      // All of them together: check_bounds.
    } else if (key == "multipleOf") {
      return check_multiple(object, value, place);
    } else if (asks_nothing(key, value)) {
      drop(object, key);
    } else {
      return refuse(object, key, place, fmt::format("keyword \"{}\"", schema_place({}, key)));
    }
    return {};
  }

  // What every value satisfies.
  static bool asks_nothing(std::string_view key, const JsonValue& value) {
    if (key == "uniqueItems") return value.is_bool() && !value.get_bool();
    if (key != "propertyNames") return false;
    if (value.is_bool()) return value.get_bool();
    const JsonObject* names = value.if_object();
    if (names == nullptr) return false;
    return std::ranges::all_of(*names, [](const auto& field) {
      return is_one_of(field.key(), kAnnotations) ||
             (field.key() == "type" && field.value() == "string");
    });
  }

  void drop(const JsonObject& object, std::string_view key) {
    rewriter_.edits_of(object).dropped.emplace(key);
  }

  Status refuse(const JsonObject& object, std::string_view key, const std::string& place,
                const std::string& what) {
    const auto refused = schema_failure(Errc::unsupported, place, what + " is not supported");
    if (keywords_ == SchemaKeywords::refuse) return refused;
    note(refused.error().message);
    drop(object, key);
    return {};
  }

  void later(const JsonValue& schema, std::string place) {
    open_.emplace_back(&schema, std::move(place));
  }

  Status check_reference(const JsonObject& object, const JsonValue& value,
                         const std::string& place) {
    if (!value.is_string())
      return schema_failure(Errc::invalid_argument, place, "$ref is no string");
    const std::string_view reference = value.get_string();
    const JsonValue* target = resolve_reference(root_, reference);
    if (target == nullptr) {
      return schema_failure(
          Errc::invalid_argument, place,
          fmt::format("$ref \"{}\" names nothing in this schema", schema_place({}, reference)));
    }
    has_reference_ = true;
    TRY_ASSIGN(const std::vector<std::string> path, reference_path(reference));
    rewriter_.edits_of(object).changed["$ref"] = rewriter_.plain_reference(path, *target);
    later(*target, std::string(reference.substr(0, 100)));
    return {};
  }

  // A reference below it would be meant relative to it.
  Status check_identities() {
    if (!has_reference_) return {};
    for (const auto& [object, place] : identities_)
      TRY(refuse(*object, "$id", place, "$id in a schema with $ref"));
    return {};
  }

  Status check_multiple(const JsonObject& object, const JsonValue& value,
                        const std::string& place) {
    const Result<Multiple> multiple = read_multiple(value);
    if (!multiple) return schema_failure(multiple.error().code, place, multiple.error().message);
    multiples_.add(object, *multiple);
    return {};
  }

  // Only after the walk, as the next ones.
  Status check_multiples() {
    const Status checked = multiples_.check(objects_);
    if (checked || keywords_ == SchemaKeywords::refuse) return checked;
    note(checked.error().message);
    for (const auto& [object, place] : objects_) drop(*object, "multipleOf");
    return {};
  }

  // Only after the walk: by then all types are known.
  Status check_alternatives() {
    SchemaAlternatives alternatives(root_);
    for (const auto& [object, place] : one_of_) {
      bool are_apart = keywords_ == SchemaKeywords::drop;
      if (!are_apart) {
        Result<bool> found = alternatives.exclude_one_another(object->at("oneOf").get_array());
        if (!found) return schema_failure(found.error().code, place, found.error().message);
        are_apart = *found;
      }
      if (are_apart) rewriter_.edits_of(*object).has_alternatives_apart = true;
    }
    return {};
  }

  Status check_count(const JsonObject& object, std::string_view key, const JsonValue& value,
                     const std::string& place) {
    const Result<std::uint64_t> count = read_count(key, value);
    if (!count) return placed(count.error(), place);
    if (value.is_double()) rewriter_.edits_of(object).changed[key] = *count;
    return {};
  }

  // As inclusive ones, which llguidance holds to exactly.
  Status check_bounds(const JsonObject& object, const std::string& place) {
    const Result<JsonObject> bounds = inclusive_bounds(object);
    if (!bounds) return placed(bounds.error(), place);
    if (bounds->empty()) return {};
    drop(object, "exclusiveMinimum");
    drop(object, "exclusiveMaximum");
    for (const auto& bound : *bounds)
      rewriter_.edits_of(object).changed[bound.key()] = bound.value();
    return {};
  }

  static Status placed(const Status& checked, const std::string& place) {
    return checked ? checked : Status(placed(checked.error(), place));
  }
  static std::unexpected<Error> placed(const Error& error, const std::string& place) {
    return schema_failure(error.code, place, error.message);
  }

  Status check_schemas(std::string_view key, const JsonValue& value, const std::string& place) {
    const JsonArray* list = key == "items" ? value.if_array() : nullptr;
    TRY(check_are_schemas(list, value, key, place));
    if (list != nullptr) {
      for (const JsonValue& schema : *list) later(schema, schema_place(place, key));
    } else {
      later(value, schema_place(place, key));
    }
    return {};
  }

  // Of hints the keyword is at fault, not what stands in it.
  Status check_are_schemas(const JsonArray* list, const JsonValue& value, std::string_view key,
                           const std::string& place) const {
    if (keywords_ == SchemaKeywords::refuse) return {};
    if (list == nullptr ? is_schema(value) : std::ranges::all_of(*list, is_schema)) return {};
    return schema_failure(Errc::invalid_argument, place, fmt::format("{} is no schema", key));
  }

  Status check_list(const JsonObject& object, std::string_view key, const JsonValue& value,
                    const std::string& place) {
    const JsonArray* list = value.if_array();
    if (list == nullptr || (list->empty() && key != "prefixItems"))
      return schema_failure(Errc::invalid_argument, place,
                            fmt::format("{} must be an array of schemas", key));
    TRY(check_are_schemas(list, value, key, place));
    for (std::size_t i = 0; i < list->size(); i++)
      later((*list)[i], schema_place(place, fmt::format("{}[{}]", key, i)));
    if (key == "oneOf" && !object.contains("anyOf")) one_of_.emplace_back(&object, place);
    return {};
  }

  Status check_map(std::string_view key, const JsonValue& value, const std::string& place) {
    const JsonObject* map = value.if_object();
    if (map == nullptr)
      return schema_failure(Errc::invalid_argument, place,
                            fmt::format("{} must be an object", key));
    properties_work_ += map->size() * map->size();
    if (properties_work_ > kPropertiesMax * kPropertiesMax) {
      return schema_failure(
          Errc::exhausted, place,
          fmt::format("{} properties after those before, expected at most {} in one "
                      "object, or fewer in several",
                      map->size(), kPropertiesMax));
    }
    for (const auto& field : *map) {
      if (key == "patternProperties") {
        const Result<std::string> checked = check_pattern(field.key());
        if (!checked) return schema_failure(checked.error().code, place, checked.error().message);
        if (*checked != field.key()) {
          return schema_failure(
              Errc::unsupported, place,
              "a class without quotes or backslashes in a property's pattern is not "
              "supported");
        }
      }
      if (keywords_ == SchemaKeywords::drop && !is_schema(field.value())) {
        has_faults_ = true;
        faults_.edits_of(*map).changed[field.key()] = true;
        continue;
      }
      later(field.value(), schema_place(schema_place(place, key), field.key()));
    }
    return {};
  }

  static bool is_schema(const JsonValue& value) { return value.is_object() || value.is_bool(); }

  Status check_pattern_of(const JsonObject& object, const JsonValue& value,
                          const std::string& place) {
    if (!value.is_string())
      return schema_failure(Errc::invalid_argument, place, "pattern is no string");
    const Result<std::string> checked = check_pattern(value.get_string());
    if (checked) {
      if (*checked != value.get_string()) rewriter_.edits_of(object).changed["pattern"] = *checked;
      return {};
    }
    return schema_failure(checked.error().code, place, checked.error().message);
  }

  Status check_format(const JsonObject& object, const JsonValue& value, const std::string& place) {
    if (!value.is_string())
      return schema_failure(Errc::invalid_argument, place, "format is no string");
    const std::string_view format = value.get_string();
    if (is_held_format(format)) return {};
    if (is_annotation_format(format)) {
      drop(object, "format");
      return {};
    }
    return refuse(object, "format", place, fmt::format("format \"{}\"", schema_place({}, format)));
  }

  Status check_constant(const JsonObject& object, std::string_view key, const JsonValue& value,
                        const std::string& place) {
    const JsonArray* list = value.if_array();
    if (key == "enum" && (list == nullptr || list->empty()))
      return schema_failure(Errc::invalid_argument, place,
                            "enum must be an array with a value in it");
    if (!has_inexact_number(value)) return {};
    return refuse(object, key, place, fmt::format("{} with a number beyond 2^53 - 1", key));
  }

  static Status check_names(std::string_view key, const JsonValue& value,
                            const std::string& place) {
    const auto is_type = [](const JsonValue& name) {
      return name.is_string() && is_one_of(name.get_string(), kTypes);
    };
    if (key == "type" && value.is_string()) {
      if (is_type(value)) return {};
      return schema_failure(
          Errc::invalid_argument, place,
          fmt::format("type \"{}\" is none", schema_place({}, value.get_string())));
    }
    const JsonArray* list = value.if_array();
    if (list == nullptr ||
        !std::ranges::all_of(*list, [](const JsonValue& name) { return name.is_string(); }))
      return schema_failure(Errc::invalid_argument, place,
                            fmt::format("{} must be an array of names", key));
    return {};
  }

  // OpenAPI's way to say that null is a value, too.
  void allow_null(const JsonObject& object) {
    const JsonValue* nullable = object.if_contains("nullable");
    const JsonValue* type = object.if_contains("type");
    if (nullable == nullptr || *nullable != true || type == nullptr || !type->is_string()) return;
    rewriter_.edits_of(object).changed["type"] = JsonArray{*type, "null"};
  }

  const JsonValue& root_;
  SchemaKeywords keywords_;
  SchemaRewriter rewriter_;
  SchemaRewriter faults_;  // of hints: to be done before anything else
  std::vector<std::pair<const JsonValue*, std::string>> open_;
  std::set<const JsonValue*> seen_;
  std::vector<std::pair<const JsonObject*, std::string>> one_of_;
  std::vector<std::pair<const JsonObject*, std::string>> identities_;
  std::vector<std::pair<const JsonObject*, std::string>> objects_;  // all, and their places
  JoinedMultiples multiples_;
  bool has_reference_ = false;
  bool has_faults_ = false;
  std::string first_dropped_;
  std::size_t properties_work_ = 0;
};

Status check_size(const JsonObject& schema) {
  if (is_deeper_than(schema, kDepthMax)) {
    return fail(Errc::exhausted, fmt::format("schema: nested deeper than {} levels", kDepthMax));
  }
  const std::size_t bytes = to_json(JsonValue(schema)).size();
  if (bytes <= kBytesMax) return {};
  return fail(Errc::exhausted,
              fmt::format("schema: {} bytes, expected at most {}", bytes, kBytesMax));
}

// Our rules for white space and escapes. `text`: the schema's.
void add_spelling(JsonObject& checked, std::string_view text) {
  // "\u0061" must not pass for a name that "a" may not have; only control characters need \u.
  const bool needs_escapes = text.find("\\u00") != std::string_view::npos;
  checked["x-guidance"] =
      JsonObject{{"whitespace_pattern", kWhiteSpace},
                 {"json_allowed_escapes", needs_escapes ? "nrbtf\\\"u" : "nrbtf\\\""}};
}

}  // namespace

const JsonValue* resolve_reference(const JsonValue& root, std::string_view reference) {
  const Result<std::vector<std::string>> path = reference_path(reference);
  if (!path) return nullptr;
  const JsonValue* value = &root;
  for (const std::string& name : *path) {
    if (const JsonObject* object = value->if_object()) {
      value = object->if_contains(name);
    } else if (const JsonArray* array = value->if_array()) {
      std::size_t index = array->size();
      const char* end = name.data() + name.size();
      const auto [last, trouble] = std::from_chars(name.data(), end, index);
      const bool is_index = trouble == std::errc{} && last == end && index < array->size();
      value = is_index ? &(*array)[index] : nullptr;
    } else {
      value = nullptr;
    }
    if (value == nullptr) return nullptr;
  }
  return value;
}

Result<JsonObject> checked_schema(const JsonObject& schema) {
  TRY(check_size(schema));
  const JsonValue root = schema;
  TRY_ASSIGN(JsonObject checked, Checker(root, SchemaKeywords::refuse).checked());
  add_spelling(checked, to_json(root));
  return checked;
}

Result<JsonObject> checked_hints(const JsonObject& schema, std::string& dropped) {
  TRY(check_size(schema));
  JsonValue root = schema;
  for (int pass = 0; pass < kPassesMax; pass++) {
    Checker checker(root, SchemaKeywords::drop);
    TRY_ASSIGN(JsonObject checked, checker.checked());
    if (dropped.empty()) dropped = checker.first_dropped();
    if (!checker.has_faults()) {
      add_spelling(checked, to_json(root));
      return checked;
    }
    root = std::move(checked);
  }
  return fail(Errc::invalid_argument, "schema: more faults than are looked for");
}

}  // namespace reprise
