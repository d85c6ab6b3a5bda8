// ValueGrammar: one rule a schema; references make them refer to one another.
#include "text/value_grammar.h"

#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "text/json_schema.h"

namespace reprise {
namespace {

constexpr std::string_view kQuote = R"(<|"|>)";  // gemma4's
constexpr std::string_view kInteger = "/-?(0|[1-9][0-9]{0,17})/";
constexpr std::string_view kNumber =
    "/-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?/";

std::string alternatives(const std::vector<std::string>& options) {
  return fmt::format("({})", fmt::join(options, " | "));
}

std::uint64_t count_of(const JsonObject& schema, std::string_view key, std::uint64_t otherwise) {
  const JsonValue* count = schema.if_contains(key);
  return count != nullptr && count->is_uint64() ? count->get_uint64() : otherwise;
}

bool is_false(const JsonValue& schema) {
  return schema.is_bool() && !schema.get_bool();
}

// A leaf's own keywords, without what could refer to other places.
JsonObject leaf(const JsonObject& schema, std::string_view type) {
  JsonObject leaf{{"type", type}};
  for (const auto& field : schema) {
    if (field.key() != "type" && !field.value().is_structured())
      leaf.emplace(field.key(), field.value());
  }
  return leaf;
}

// As Jinja's dictsort sorts, which the template lists keys by.
bool comes_before(std::string_view left, std::string_view right) {
  const auto lower = [](char letter) { return std::tolower(static_cast<unsigned char>(letter)); };
  return std::ranges::lexicographical_compare(left, right, {}, lower, lower);
}

}  // namespace

std::string ValueGrammar::comma() {
  if (syntax_ == ValueSyntax::gemma4) return "\",\"";
  if (comma_.empty()) comma_ = writer_.terminal("COMMA", "/, ?/");
  return comma_;
}

std::string ValueGrammar::value(const JsonValue& schema) {
  const auto [place, is_new] = names_.try_emplace(&schema);
  if (is_new) {
    place->second = writer_.new_name("value");
    open_.push_back(&schema);
  }
  return place->second;
}

void ValueGrammar::finish() {
  while (!open_.empty()) {
    const JsonValue& schema = *open_.back();
    open_.pop_back();
    const std::string name = names_.at(&schema);
    writer_.rule(name, body(schema));
  }
}

std::string ValueGrammar::body(const JsonValue& schema) {
  const JsonObject* object = schema.if_object();
  if (object == nullptr) return any();
  if (const JsonValue* reference = object->if_contains("$ref"))
    return value(*resolve_reference(root_, reference->get_string()));
  if (const JsonValue* one = object->if_contains("const")) return constant(*one);
  std::vector<std::string> options;
  if (const JsonValue* list = object->if_contains("enum")) {
    for (const JsonValue& one : list->get_array()) options.push_back(constant(one));
    return alternatives(options);
  }
  for (const std::string_view key : {"anyOf", "oneOf", "allOf"}) {
    const JsonValue* list = object->if_contains(key);
    if (list == nullptr) continue;
    if (key == "allOf" && list->get_array().size() > 1) continue;
    for (const JsonValue& one : list->get_array()) {
      if (!is_false(one)) options.push_back(value(one));
    }
    if (!options.empty()) return alternatives(options);
  }
  const JsonValue* type = object->if_contains("type");
  if (type == nullptr) {
    if (object->contains("properties")) return body_of_type(*object, "object");
    return object->contains("items") ? body_of_type(*object, "array") : any();
  }
  if (type->is_string()) return body_of_type(*object, type->get_string());
  for (const JsonValue& one : type->get_array())
    options.push_back(body_of_type(*object, one.get_string()));
  return options.empty() ? any() : alternatives(options);
}

std::string ValueGrammar::body_of_type(const JsonObject& schema, std::string_view type) {
  const bool is_python = syntax_ == ValueSyntax::python;
  if (type == "string") return text(schema);
  if (type == "integer" || type == "number") return number(schema, type == "integer");
  if (type == "boolean") return is_python ? R"(("True" | "False"))" : R"(("true" | "false"))";
  if (type == "null") return is_python ? "\"None\"" : "\"null\"";
  if (type == "array") return array(schema);
  if (type == "object") return object(schema);
  return any();
}

std::string ValueGrammar::quoted(std::string_view text) {
  if (syntax_ == ValueSyntax::python) return lark_text(to_json(JsonValue(text)));
  const std::string mark = writer_.mark(kQuote);
  return text.empty() ? fmt::format("{} {}", mark, mark)
                      : fmt::format("{} {} {}", mark, lark_text(text), mark);
}

std::string ValueGrammar::constant(const JsonValue& value) {
  if (value.is_string()) return quoted(value.get_string());
  if (value.is_null()) return body_of_type({}, "null");
  if (value.is_bool()) {
    const bool is_python = syntax_ == ValueSyntax::python;
    if (value.get_bool()) return is_python ? "\"True\"" : "\"true\"";
    return is_python ? "\"False\"" : "\"false\"";
  }
  std::vector<std::string> parts;
  if (const JsonArray* list = value.if_array()) {
    for (const JsonValue& item : *list) parts.push_back(constant(item));
    return fmt::format("\"[\" {} \"]\"", fmt::join(parts, fmt::format(" {} ", comma())));
  }
  if (const JsonObject* object = value.if_object()) {
    for (const auto& field : *object)
      parts.push_back(key(field.key(), {}) + " " + constant(field.value()));
    return fmt::format("\"{{\" {} \"}}\"", fmt::join(parts, fmt::format(" {} ", comma())));
  }
  return lark_text(to_json(value));
}

std::string ValueGrammar::any() {
  if (!any_.empty()) return any_;
  any_ = writer_.new_name("any");
  const std::string item = any_;
  const std::string pair = any_key({}) + " " + item;
  const JsonObject free;
  const std::string list = fmt::format("\"[\" ({0} ({1} {0})*)? \"]\"", item, comma());
  const std::string map = fmt::format("\"{{\" ({0} ({1} {0})*)? \"}}\"", pair, comma());
  const std::vector<std::string> options = {text(free),
                                            number(free, false),
                                            body_of_type(free, "boolean"),
                                            body_of_type(free, "null"),
                                            list,
                                            map};
  writer_.rule(any_, alternatives(options));
  return any_;
}

std::string ValueGrammar::text(const JsonObject& schema) {
  if (syntax_ == ValueSyntax::python) return writer_.json(leaf(schema, "string"));
  const std::uint64_t least = count_of(schema, "minLength", 0);
  const JsonValue* bound = schema.if_contains("maxLength");
  const std::uint64_t most = bound == nullptr ? 0 : count_of(schema, "maxLength", 0);
  if (bound != nullptr && most == 0) return quoted({});
  const std::string length = fmt::format("{{{},{}}}", std::max<std::uint64_t>(least, 1),
                                         bound == nullptr ? "" : std::to_string(most));
  const bool is_bounded = least > 0 || bound != nullptr;
  const Without without = is_bounded ? Without{.length = length} : Without{};
  return fmt::format("{} {}", writer_.mark(kQuote), writer_.up_to(kQuote, without, least > 0));
}

std::string ValueGrammar::number(const JsonObject& schema, bool is_integer) {
  constexpr std::string_view bounds[] = {"minimum", "maximum", "exclusiveMinimum",
                                         "exclusiveMaximum", "multipleOf"};
  const bool is_bounded = std::ranges::any_of(
      bounds, [&schema](std::string_view bound) { return schema.contains(bound); });
  if (is_bounded) return writer_.json(leaf(schema, is_integer ? "integer" : "number"));
  return writer_.terminal("NUMBER", is_integer ? kInteger : kNumber);
}

std::string ValueGrammar::array(const JsonObject& schema) {
  const JsonValue* items = schema.if_contains("items");
  const std::string item = items == nullptr || items->is_array() ? any() : value(*items);
  const std::uint64_t least = count_of(schema, "minItems", 0);
  constexpr std::uint64_t kUnbounded = ~std::uint64_t{0};
  const std::uint64_t most = count_of(schema, "maxItems", kUnbounded);
  if (most == 0 || (items != nullptr && is_false(*items))) return R"("[" "]")";
  const std::uint64_t least_after = least > 0 ? least - 1 : 0;
  const std::string more =
      most == kUnbounded ? fmt::format("({} {}){{{},}}", comma(), item, least_after)
                         : fmt::format("({} {}){{{},{}}}", comma(), item, least_after, most - 1);
  return fmt::format("\"[\" ({} {}){} \"]\"", item, more, least == 0 ? "?" : "");
}

std::string ValueGrammar::object(const JsonObject& schema) {
  return fmt::format("\"{{\" {} \"}}\"", fields_of(schema, {}));
}

std::string ValueGrammar::fields(std::string_view pair) {
  constexpr int kReferencesMax = 8;  // the function's schema may be one
  const JsonObject* schema = root_.if_object();
  for (int i = 0; i < kReferencesMax; i++) {
    const JsonValue* reference = schema->if_contains("$ref");
    const JsonObject* target = reference == nullptr
                                   ? nullptr
                                   : resolve_reference(root_, reference->get_string())->if_object();
    if (target == nullptr) break;
    schema = target;
  }
  return fields_of(*schema, pair);
}

// `pair`: "=" for Python's keyword arguments; nothing: the syntax's own.
std::string ValueGrammar::fields_of(const JsonObject& schema, std::string_view pair) {
  const JsonValue* listed = schema.if_contains("properties");
  const JsonValue* others = schema.if_contains("additionalProperties");
  if (listed == nullptr || listed->get_object().empty()) {
    if (others != nullptr && is_false(*others)) return "\"\"";
    const std::string item = others != nullptr && others->is_object() ? value(*others) : any();
    const std::string field = any_key(pair) + " " + item;
    return fmt::format("({0} ({1} {0})*)?", field, comma());
  }
  std::set<std::string_view> required;
  if (const JsonValue* names = schema.if_contains("required")) {
    for (const JsonValue& name : names->get_array()) required.insert(name.get_string());
  }
  std::vector<std::pair<std::string_view, const JsonValue*>> properties;
  for (const auto& field : listed->get_object()) {
    if (!is_false(field.value())) properties.emplace_back(field.key(), &field.value());
  }
  if (syntax_ == ValueSyntax::gemma4)
    std::ranges::stable_sort(properties, comes_before, [](const auto& one) { return one.first; });
  // From the last: what may follow where nothing came before, and behind a comma.
  std::string first = "\"\"", further = "\"\"";
  for (auto property = properties.rbegin(); property != properties.rend(); ++property) {
    const auto& [name, property_schema] = *property;
    const std::string field = key(name, pair) + " " + value(*property_schema);
    const bool is_required = required.contains(name);
    const std::string alone = fmt::format("{} {}", field, further);
    const std::string next = is_required ? fmt::format("{} {} {}", comma(), field, further)
                                         : fmt::format("({} {})? {}", comma(), field, further);
    first = writer_.new_rule("fields", is_required ? alone : fmt::format("{} | {}", alone, first));
    further = writer_.new_rule("fields", next);
  }
  return first;
}

std::string ValueGrammar::key(std::string_view name, std::string_view pair) {
  if (!pair.empty()) return lark_text(fmt::format("{}{}", name, pair));
  if (syntax_ == ValueSyntax::python)
    return writer_.terminal("KEY", fmt::format("/{}: ?/", lark_escaped(to_json(JsonValue(name)))));
  const bool is_plain = !name.empty() && std::ranges::all_of(name, [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' ||
           letter == '-' || letter == '.' || letter == '$';
  });
  if (is_plain) return lark_text(fmt::format("{}:", name));
  return quoted(name) + " \":\"";
}

std::string ValueGrammar::any_key(std::string_view pair) {
  if (!pair.empty())
    return writer_.terminal("KEY", fmt::format("/[A-Za-z_][A-Za-z0-9_]{{0,63}}{}/", pair));
  if (syntax_ == ValueSyntax::python)
    return writer_.terminal("KEY", R"(/"[^"\\\x00-\x1F]{1,64}": ?/)");
  return writer_.terminal("KEY", "/[A-Za-z_][A-Za-z0-9_.-]{0,63}:/");
}

}  // namespace reprise
