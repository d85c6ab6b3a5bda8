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

namespace reprise {
namespace {

constexpr std::size_t kBytesMax = std::size_t{256} << 10;
constexpr int kDepthMax = 64;
constexpr std::uint64_t kCountMax = 100'000;  // of items, properties, characters
constexpr std::size_t kPropertiesMax = 1000;  // of one object: work grows with their square
constexpr std::size_t kPatternBytesMax = 4096;
constexpr int kPatternDepthMax = 50;

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
constexpr auto kNumbers = std::to_array<std::string_view>(
    {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"});
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

// Walks a schema and all that it refers to, rewriting in place. Schemas are never moved while it
// goes on: fields are only changed or marked for removal.
class Checker {
 public:
  Checker(JsonValue& root, SchemaKeywords keywords) : root_(root), keywords_(keywords) {}

  Status check_all() {
    open_.push_back({&root_, {}});
    while (!open_.empty()) {
      auto [schema, place] = std::move(open_.back());
      open_.pop_back();
      if (!seen_.insert(schema).second) continue;
      TRY(check(*schema, place));
    }
    for (const auto& [object, key] : dropped_) object->stable_erase(key);
    return {};
  }

 private:
  Status check(JsonValue& schema, const std::string& place) {
    if (schema.is_bool()) return {};
    JsonObject* object = schema.if_object();
    if (object == nullptr)
      return fail_at(Errc::invalid_argument, place, "expected a schema (an object or a boolean)");
    for (auto& field : *object) TRY(check_field(*object, field.key(), field.value(), place));
    allow_null(*object);
    return {};
  }

  Status check_field(JsonObject& object, std::string_view key, JsonValue& value,
                     const std::string& place) {
    if (key == "$schema" || key == "x-guidance" || key == "nullable") {
      drop(object, key);
    } else if (is_one_of(key, kAnnotations) || key.starts_with("x-")) {
      // No grammar is held to them.
    } else if (key == "$ref") {
      return check_reference(value, place);
    } else if (is_one_of(key, kCounts)) {
      return check_count(key, value, place);
    } else if (is_one_of(key, kSchemas)) {
      return check_schemas(key, value, place);
    } else if (is_one_of(key, kSchemaLists)) {
      return check_list(object, key, value, place);
    } else if (is_one_of(key, kSchemaMaps)) {
      return check_map(key, value, place);
    } else if (key == "pattern") {
      return check_pattern(value, place);
    } else if (key == "format") {
      return check_format(object, value, place);
    } else if (key == "enum" || key == "const") {
      return check_constant(key, value, place);
    } else if (key == "type" || key == "required") {
      return check_names(key, value, place);
    } else if (is_one_of(key, kNumbers)) {
      if (!value.is_number() && !(key.starts_with("exclusive") && value.is_bool()))
        return fail_at(Errc::invalid_argument, place, fmt::format("{} must be a number", key));
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

  void drop(JsonObject& object, std::string_view key) {
    dropped_.emplace_back(&object, std::string(key));
  }

  Status refuse(JsonObject& object, std::string_view key, const std::string& place,
                const std::string& what) {
    if (keywords_ == SchemaKeywords::drop_unknown) {
      drop(object, key);
      return {};
    }
    return fail_at(Errc::unsupported, place, what + " is not supported");
  }

  void later(JsonValue& schema, std::string place) {
    open_.emplace_back(&schema, std::move(place));
  }

  Status check_reference(const JsonValue& value, const std::string& place) {
    if (!value.is_string()) return fail_at(Errc::invalid_argument, place, "$ref is no string");
    const std::string_view reference = value.get_string();
    // The copy that is checked is ours to change.
    auto* target = const_cast<JsonValue*>(resolve_reference(root_, reference));
    if (target == nullptr) {
      return fail_at(
          Errc::invalid_argument, place,
          fmt::format("$ref \"{}\" names nothing in this schema", inside({}, reference)));
    }
    later(*target, std::string(reference.substr(0, 100)));
    return {};
  }

  static Status check_count(std::string_view key, JsonValue& value, const std::string& place) {
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
    value = *count;
    return {};
  }

  Status check_schemas(std::string_view key, JsonValue& value, const std::string& place) {
    if (JsonArray* list = value.if_array(); list != nullptr && key == "items") {
      for (JsonValue& schema : *list) later(schema, inside(place, key));
    } else {
      later(value, inside(place, key));
    }
    return {};
  }

  Status check_list(JsonObject& object, std::string_view key, JsonValue& value,
                    const std::string& place) {
    JsonArray* list = value.if_array();
    if (list == nullptr || (list->empty() && key != "prefixItems"))
      return fail_at(Errc::invalid_argument, place,
                     fmt::format("{} must be an array of schemas", key));
    for (std::size_t i = 0; i < list->size(); i++)
      later((*list)[i], inside(place, fmt::format("{}[{}]", key, i)));
    if (key == "oneOf" && !object.contains("anyOf") &&
        (keywords_ == SchemaKeywords::drop_unknown || exclude_one_another(root_, *list)))
      any_of_.push_back(&object);
    return {};
  }

  Status check_map(std::string_view key, JsonValue& value, const std::string& place) {
    JsonObject* map = value.if_object();
    if (map == nullptr)
      return fail_at(Errc::invalid_argument, place, fmt::format("{} must be an object", key));
    properties_work_ += map->size() * map->size();
    if (properties_work_ > kPropertiesMax * kPropertiesMax) {
      return fail_at(Errc::exhausted, place,
                     fmt::format("{} properties after those before, expected at most {} in one "
                                 "object, or fewer in several",
                                 map->size(), kPropertiesMax));
    }
    for (auto& field : *map) {
      if (key == "patternProperties") TRY(check_pattern_text(field.key(), place));
      later(field.value(), inside(inside(place, key), field.key()));
    }
    return {};
  }

  static Status check_pattern(const JsonValue& value, const std::string& place) {
    if (!value.is_string()) return fail_at(Errc::invalid_argument, place, "pattern is no string");
    return check_pattern_text(value.get_string(), place);
  }

  // Brackets are counted whether escaped or not: nobody writes 50 of them.
  static Status check_pattern_text(std::string_view pattern, const std::string& place) {
    if (pattern.size() > kPatternBytesMax) {
      return fail_at(Errc::exhausted, place,
                     fmt::format("a pattern of {} bytes, expected at most {}", pattern.size(),
                                 kPatternBytesMax));
    }
    int depth = 0;
    bool is_escape = false;
    for (const char letter : pattern) {
      is_escape = letter == '\\' && !is_escape;
      depth += letter == '(' ? 1 : letter == ')' ? -1 : 0;
      if (depth > kPatternDepthMax) {
        return fail_at(Errc::exhausted, place,
                       fmt::format("a pattern with more than {} nested groups", kPatternDepthMax));
      }
    }
    // llguidance would drop the backslash.
    if (is_escape) {
      return fail_at(Errc::invalid_argument, place, "a pattern that ends within an escape");
    }
    return {};
  }

  Status check_format(JsonObject& object, const JsonValue& value, const std::string& place) {
    if (!value.is_string()) return fail_at(Errc::invalid_argument, place, "format is no string");
    const std::string_view format = value.get_string();
    if (is_one_of(format, kFormats)) return {};
    return refuse(object, "format", place, fmt::format("format \"{}\"", inside({}, format)));
  }

  static Status check_constant(std::string_view key, const JsonValue& value,
                               const std::string& place) {
    if (key == "const") return {};
    const JsonArray* list = value.if_array();
    if (list == nullptr || list->empty())
      return fail_at(Errc::invalid_argument, place, "enum must be an array with a value in it");
    return {};
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
  static void allow_null(JsonObject& object) {
    const JsonValue* nullable = object.if_contains("nullable");
    JsonValue* type = object.if_contains("type");
    if (nullable == nullptr || *nullable != true || type == nullptr || !type->is_string()) return;
    *type = JsonArray{*type, "null"};
  }

 public:
  // After check_all: these name their alternatives oneOf, which llguidance does not do.
  const std::vector<JsonObject*>& any_of() const { return any_of_; }

 private:
  JsonValue& root_;
  SchemaKeywords keywords_;
  std::vector<std::pair<JsonValue*, std::string>> open_;
  std::set<const JsonValue*> seen_;
  std::vector<std::pair<JsonObject*, std::string>> dropped_;
  std::vector<JsonObject*> any_of_;
  std::size_t properties_work_ = 0;
};

}  // namespace

const JsonValue* resolve_reference(const JsonValue& root, std::string_view reference) {
  if (reference == "#" || reference == "#/") return &root;
  if (!reference.starts_with("#/")) return nullptr;
  const JsonValue* value = &root;
  for (std::string_view rest = reference.substr(2); value != nullptr;) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view name = rest.substr(0, end);
    if (const JsonObject* object = value->if_object()) {
      value = object->if_contains(name);
    } else if (const JsonArray* array = value->if_array()) {
      std::size_t index = array->size();
      const auto [last, trouble] = std::from_chars(name.begin(), name.end(), index);
      const bool is_index = trouble == std::errc{} && last == name.end() && index < array->size();
      value = is_index ? &(*array)[index] : nullptr;
    } else {
      value = nullptr;
    }
    if (end == rest.size()) break;
    rest.remove_prefix(end + 1);
  }
  return value;
}

namespace {

// Moves what references name from the root to "$root" in it. True: there was one.
bool move_references(JsonValue& value) {
  bool found = false;
  if (JsonArray* array = value.if_array()) {
    for (JsonValue& item : *array) found |= move_references(item);
  } else if (JsonObject* object = value.if_object()) {
    for (auto& field : *object) {
      if (field.key() != "$ref" || !field.value().is_string()) {
        found |= move_references(field.value());
        continue;
      }
      const std::string_view name = field.value().get_string();
      field.value() = "#/$root" + std::string(name == "#/" ? "" : name.substr(1));
      found = true;
    }
  }
  return found;
}

}  // namespace

JsonValue subschema(const JsonValue& root, const JsonValue& schema) {
  if (schema.is_bool()) return schema;
  JsonObject made = schema.get_object();
  JsonValue moved = schema;
  if (move_references(moved)) {
    JsonValue moved_root = root;
    move_references(moved_root);
    made = {{"$ref", "#/$schema_here"},
            {"$schema_here", std::move(moved)},
            {"$root", std::move(moved_root)}};
  }
  made["x-guidance"] = root.get_object().at("x-guidance");
  return made;
}

Result<JsonObject> checked_schema(const JsonObject& schema, SchemaKeywords keywords) {
  if (is_deeper_than(schema, kDepthMax)) {
    return fail(Errc::exhausted, fmt::format("schema: nested deeper than {} levels", kDepthMax));
  }
  JsonValue root = schema;
  std::string text = to_json(root);
  if (text.size() > kBytesMax) {
    return fail(Errc::exhausted,
                fmt::format("schema: {} bytes, expected at most {}", text.size(), kBytesMax));
  }
  Checker checker(root, keywords);
  TRY(checker.check_all());
  // A reference into a list that is renamed would point nowhere: llguidance says so.
  for (JsonObject* object : checker.any_of()) {
    JsonValue list = std::move(object->at("oneOf"));
    object->stable_erase("oneOf");
    object->emplace("anyOf", std::move(list));
  }
  JsonObject& checked = root.get_object();
  // "\u0061" must not pass for a name that "a" may not have; only control characters need \u.
  const bool needs_escapes = text.find("\\u00") != std::string::npos;
  checked["x-guidance"] =
      JsonObject{{"whitespace_pattern", kWhiteSpace},
                 {"json_allowed_escapes", needs_escapes ? "nrbtf\\\"u" : "nrbtf\\\""}};
  return std::move(checked);
}

}  // namespace reprise
