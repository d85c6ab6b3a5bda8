// Checks and rewrites of JSON schemas before llguidance reads them.
#include "text/json_schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "text/schema_alternatives.h"
#include "text/schema_multiples.h"
#include "text/schema_numbers.h"
#include "text/schema_pattern.h"
#include "text/schema_rewrite.h"

namespace reprise {
namespace {

constexpr std::size_t kBytesMax = std::size_t{256} << 10;
constexpr int kDepthMax = 64;
constexpr std::uint64_t kCountMax = 100'000;  // of items, properties, characters
constexpr std::size_t kPropertiesMax = 1000;  // of one object: work grows with their square
// A pattern is a machine of so many states, and the count of minLength multiplies them.
constexpr std::uint64_t kPatternWorkMax = 20'000;

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
constexpr auto kBounds =
    std::to_array<std::string_view>({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"});
constexpr auto kCounts = std::to_array<std::string_view>(
    {"maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"});
constexpr auto kSchemas =
    std::to_array<std::string_view>({"additionalItems", "additionalProperties", "items"});
constexpr auto kSchemaLists =
    std::to_array<std::string_view>({"allOf", "anyOf", "oneOf", "prefixItems"});
constexpr auto kSchemaMaps = std::to_array<std::string_view>({"patternProperties", "properties"});
constexpr auto kFormats =
    std::to_array<std::string_view>({"date", "date-time", "duration", "email", "hostname", "ipv4",
                                     "ipv6", "time", "unknown", "uri", "uuid"});

// Models put one space after a colon or comma, or a line break and an indent. More would let them
// go on with spaces until their tokens run out.
constexpr std::string_view kWhiteSpace = R"( |\n[ ]{0,24}|\n\t{1,8})";

std::unexpected<Error> fail_at(Errc code, std::string_view place, std::string_view message) {
  if (place.empty()) return fail(code, fmt::format("schema: {}", message));
  return fail(code, fmt::format("{}: {}", place, message));
}

std::string inside(std::string_view place, std::string_view key) {
  constexpr std::size_t kPlaceBytesMax = 200;
  if (place.size() > kPlaceBytesMax) return std::string(place);
  std::string shown(key.substr(0, 60));
  for (char& letter : shown) {
    if (static_cast<unsigned char>(letter) < 0x20 || static_cast<unsigned char>(letter) > 0x7e)
      letter = '?';
  }
  return place.empty() ? shown : fmt::format("{}.{}", place, shown);
}

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

// Walks a schema and all that it refers to.
class Checker {
 public:
  Checker(const JsonValue& root, SchemaKeywords keywords)
      : root_(root), keywords_(keywords), rewriter_(root), multiples_(root) {}

  // The schema with all that is to be otherwise.
  Result<JsonObject> checked() {
    open_.push_back({&root_, {}});
    while (!open_.empty()) {
      const auto [schema, place] = std::move(open_.back());
      open_.pop_back();
      if (!seen_.insert(schema).second) continue;
      TRY(check(*schema, place));
    }
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
      return fail_at(Errc::invalid_argument, place, "expected a schema (an object or a boolean)");
    objects_.emplace_back(object, place);
    for (const auto& field : *object) TRY(check_field(*object, field.key(), field.value(), place));
    allow_null(*object);
    TRY(check_bounds(*object, place));
    TRY(check_length_of_pattern(*object, place));
    return check_least_properties(*object, place);
  }

  Status check_field(const JsonObject& object, std::string_view key, const JsonValue& value,
                     const std::string& place) {
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
      return refuse(object, key, place, fmt::format("keyword \"{}\"", inside({}, key)));
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
    if (keywords_ == SchemaKeywords::drop_unknown) {
      drop(object, key);
      return {};
    }
    return fail_at(Errc::unsupported, place, what + " is not supported");
  }

  void later(const JsonValue& schema, std::string place) {
    open_.emplace_back(&schema, std::move(place));
  }

  Status check_reference(const JsonObject& object, const JsonValue& value,
                         const std::string& place) {
    if (!value.is_string()) return fail_at(Errc::invalid_argument, place, "$ref is no string");
    const std::string_view reference = value.get_string();
    const JsonValue* target = resolve_reference(root_, reference);
    if (target == nullptr) {
      return fail_at(
          Errc::invalid_argument, place,
          fmt::format("$ref \"{}\" names nothing in this schema", inside({}, reference)));
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
    if (multiple) {
      multiples_.add(object, *multiple);
    } else if (keywords_ == SchemaKeywords::drop_unknown &&
               multiple.error().code != Errc::invalid_argument) {
      drop(object, "multipleOf");
    } else {
      return fail_at(multiple.error().code, place, multiple.error().message);
    }
    return {};
  }

  // Only after the walk, as the next ones.
  Status check_multiples() {
    const Status checked = multiples_.check(objects_);
    if (checked || keywords_ == SchemaKeywords::refuse_unknown) return checked;
    for (const auto& [object, place] : objects_) drop(*object, "multipleOf");
    return {};
  }

  // Only after the walk: by then all types are known.
  Status check_alternatives() {
    SchemaAlternatives alternatives(root_);
    for (const auto& [object, place] : one_of_) {
      bool are_apart = keywords_ == SchemaKeywords::drop_unknown;
      if (!are_apart) {
        Result<bool> found = alternatives.exclude_one_another(object->at("oneOf").get_array());
        if (!found) return fail_at(found.error().code, place, found.error().message);
        are_apart = *found;
      }
      if (are_apart) rewriter_.edits_of(*object).has_alternatives_apart = true;
    }
    return {};
  }

  Status check_count(const JsonObject& object, std::string_view key, const JsonValue& value,
                     const std::string& place) {
    std::optional<std::uint64_t> count;
    if (value.is_uint64()) count = value.get_uint64();
    if (value.is_int64() && value.get_int64() >= 0)
      count = static_cast<std::uint64_t>(value.get_int64());
    // 3.0 is an integer in JSON schemas.
    if (value.is_double() && value.get_double() >= 0 && value.get_double() <= 1e15 &&
        value.get_double() == static_cast<double>(static_cast<std::uint64_t>(value.get_double())))
      count = static_cast<std::uint64_t>(value.get_double());
    if (!count)
      return fail_at(Errc::invalid_argument, place,
                     fmt::format("{} must be an integer of at least 0", key));
    if (*count > kCountMax) {
      return fail_at(Errc::exhausted, place,
                     fmt::format("{} {}, expected at most {}", key, *count, kCountMax));
    }
    if (value.is_double()) rewriter_.edits_of(object).changed[key] = *count;
    return {};
  }

  // As inclusive ones, which llguidance holds to exactly.
  Status check_bounds(const JsonObject& object, const std::string& place) {
    if (std::ranges::none_of(kBounds, [&](std::string_view key) { return object.contains(key); }))
      return {};
    Result<JsonObject> bounds = inclusive_bounds(object);
    if (!bounds) return fail_at(bounds.error().code, place, bounds.error().message);
    drop(object, "exclusiveMinimum");
    drop(object, "exclusiveMaximum");
    for (const auto& bound : *bounds)
      rewriter_.edits_of(object).changed[bound.key()] = bound.value();
    return {};
  }

  static std::uint64_t count_in(const JsonObject& object, std::string_view key) {
    const JsonValue* count = object.if_contains(key);
    return count == nullptr ? 0 : count->to_number<std::uint64_t>();
  }

  Status check_length_of_pattern(const JsonObject& object, const std::string& place) {
    const JsonValue* pattern = object.if_contains("pattern");
    if (pattern == nullptr || !pattern->is_string()) return {};
    const std::uint64_t length = count_in(object, "minLength");
    if (length * pattern->get_string().size() <= kPatternWorkMax) return {};
    return fail_at(Errc::exhausted, place,
                   fmt::format("a pattern of {} bytes with minLength {}, expected a product of "
                               "at most {}",
                               pattern->get_string().size(), length, kPatternWorkMax));
  }

  // llguidance cannot keep a name that is not in `properties` from coming twice: one more than the
  // required ones is certain, two may be the same.
  Status check_least_properties(const JsonObject& object, const std::string& place) {
    const std::uint64_t least = count_in(object, "minProperties");
    const JsonValue* others = object.if_contains("additionalProperties");
    if (others != nullptr && *others == false && !object.contains("patternProperties")) return {};
    std::set<std::string_view> required;
    if (const JsonValue* names = object.if_contains("required")) {
      for (const JsonValue& name : names->get_array()) required.insert(name.get_string());
    }
    if (least <= required.size() + 1) return {};
    return refuse(object, "minProperties", place,
                  fmt::format("minProperties {} with {} required properties and others that may "
                              "have any name",
                              least, required.size()));
  }

  Status check_schemas(std::string_view key, const JsonValue& value, const std::string& place) {
    if (const JsonArray* list = value.if_array(); list != nullptr && key == "items") {
      for (const JsonValue& schema : *list) later(schema, inside(place, key));
    } else {
      later(value, inside(place, key));
    }
    return {};
  }

  Status check_list(const JsonObject& object, std::string_view key, const JsonValue& value,
                    const std::string& place) {
    const JsonArray* list = value.if_array();
    if (list == nullptr || (list->empty() && key != "prefixItems"))
      return fail_at(Errc::invalid_argument, place,
                     fmt::format("{} must be an array of schemas", key));
    for (std::size_t i = 0; i < list->size(); i++)
      later((*list)[i], inside(place, fmt::format("{}[{}]", key, i)));
    if (key == "oneOf" && !object.contains("anyOf")) one_of_.emplace_back(&object, place);
    return {};
  }

  Status check_map(std::string_view key, const JsonValue& value, const std::string& place) {
    const JsonObject* map = value.if_object();
    if (map == nullptr)
      return fail_at(Errc::invalid_argument, place, fmt::format("{} must be an object", key));
    properties_work_ += map->size() * map->size();
    if (properties_work_ > kPropertiesMax * kPropertiesMax) {
      return fail_at(Errc::exhausted, place,
                     fmt::format("{} properties after those before, expected at most {} in one "
                                 "object, or fewer in several",
                                 map->size(), kPropertiesMax));
    }
    for (const auto& field : *map) {
      if (key == "patternProperties") {
        const Result<std::string> checked = check_pattern(field.key());
        if (!checked) return fail_at(checked.error().code, place, checked.error().message);
        if (*checked != field.key()) {
          return fail_at(Errc::unsupported, place,
                         "a class without quotes or backslashes in a property's pattern is not "
                         "supported");
        }
      }
      later(field.value(), inside(inside(place, key), field.key()));
    }
    return {};
  }

  Status check_pattern_of(const JsonObject& object, const JsonValue& value,
                          const std::string& place) {
    if (!value.is_string()) return fail_at(Errc::invalid_argument, place, "pattern is no string");
    const Result<std::string> checked = check_pattern(value.get_string());
    if (checked) {
      if (*checked != value.get_string()) rewriter_.edits_of(object).changed["pattern"] = *checked;
      return {};
    }
    const Error& error = checked.error();
    if (error.code == Errc::unsupported && keywords_ == SchemaKeywords::drop_unknown) {
      drop(object, "pattern");
      return {};
    }
    return fail_at(error.code, place, error.message);
  }

  Status check_format(const JsonObject& object, const JsonValue& value, const std::string& place) {
    if (!value.is_string()) return fail_at(Errc::invalid_argument, place, "format is no string");
    const std::string_view format = value.get_string();
    if (is_one_of(format, kFormats)) return {};
    return refuse(object, "format", place, fmt::format("format \"{}\"", inside({}, format)));
  }

  Status check_constant(const JsonObject& object, std::string_view key, const JsonValue& value,
                        const std::string& place) {
    const JsonArray* list = value.if_array();
    if (key == "enum" && (list == nullptr || list->empty()))
      return fail_at(Errc::invalid_argument, place, "enum must be an array with a value in it");
    if (!has_inexact_number(value)) return {};
    return refuse(object, key, place, fmt::format("{} with a number beyond 2^53 - 1", key));
  }

  static Status check_names(std::string_view key, const JsonValue& value,
                            const std::string& place) {
    if (key == "type" && value.is_string()) return {};
    const JsonArray* list = value.if_array();
    if (list == nullptr ||
        !std::ranges::all_of(*list, [](const JsonValue& name) { return name.is_string(); }))
      return fail_at(Errc::invalid_argument, place,
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
  std::vector<std::pair<const JsonValue*, std::string>> open_;
  std::set<const JsonValue*> seen_;
  std::vector<std::pair<const JsonObject*, std::string>> one_of_;
  std::vector<std::pair<const JsonObject*, std::string>> identities_;
  std::vector<std::pair<const JsonObject*, std::string>> objects_;  // all, and their places
  JoinedMultiples multiples_;
  bool has_reference_ = false;
  std::size_t properties_work_ = 0;
};

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

Result<JsonObject> checked_schema(const JsonObject& schema, SchemaKeywords keywords) {
  if (is_deeper_than(schema, kDepthMax)) {
    return fail(Errc::exhausted, fmt::format("schema: nested deeper than {} levels", kDepthMax));
  }
  const JsonValue root = schema;
  const std::string text = to_json(root);
  if (text.size() > kBytesMax) {
    return fail(Errc::exhausted,
                fmt::format("schema: {} bytes, expected at most {}", text.size(), kBytesMax));
  }
  TRY_ASSIGN(JsonObject checked, Checker(root, keywords).checked());
  // "\u0061" must not pass for a name that "a" may not have; only control characters need \u.
  const bool needs_escapes = text.find("\\u00") != std::string::npos;
  checked["x-guidance"] =
      JsonObject{{"whitespace_pattern", kWhiteSpace},
                 {"json_allowed_escapes", needs_escapes ? "nrbtf\\\"u" : "nrbtf\\\""}};
  return checked;
}

}  // namespace reprise
