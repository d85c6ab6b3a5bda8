// ValueGrammar: one rule a schema; references make them refer to one another.
#include "text/value_grammar.h"

#include <algorithm>
#include <cctype>
#include <ranges>
#include <set>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "text/bare_text.h"
#include "text/json_schema.h"
#include "text/schema_walk.h"
#include "text/tool_prompt.h"

namespace reprise {
namespace {

constexpr std::string_view kQuote = R"(<|"|>)";  // gemma4's
constexpr std::string_view kKey = R"(/"[^"\\\x00-\x1F]{1,64}": /)";
constexpr std::string_view kInteger = "/0|-?[1-9][0-9]{0,17}/";
// As Python's repr writes floats, so that a call in the history is spelled as it was written: no
// zeros at the end, and at most 15 digits, which a double keeps; exponents only where all readers
// of JSON get them right to the last bit.
constexpr std::string_view kFraction =
    "/-?([1-9][0-9]{0,13}\\.(0|[0-9]{0,12}[1-9])|0\\.(0|0{0,3}[1-9]([0-9]{0,12}[1-9])?))/"
    " & /-?[0-9.]{1,16}/";
constexpr std::string_view kPower = "/-?[1-9](\\.[0-9]{0,12}[1-9])?e(-0[5-9]|\\+(1[6-9]|2[0-2]))/";

std::string alternatives(const std::vector<std::string>& options) {
  return fmt::format("({})", fmt::join(options, " | "));
}

// As Jinja's dictsort sorts, which the template lists keys by.
bool comes_before(std::string_view left, std::string_view right) {
  const auto lower = [](char letter) { return std::tolower(static_cast<unsigned char>(letter)); };
  return std::ranges::lexicographical_compare(left, right, {}, lower, lower);
}

bool is_python_name(std::string_view name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::ranges::all_of(name, [](char letter) {
           return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
         });
}

// What gemma4's template and parser take for a key without quotes around it.
bool is_bare_key(std::string_view name) {
  constexpr std::string_view kNotInKeys = "{}[]<>,\":";
  constexpr std::size_t kBytesMax = 256;
  return !name.empty() && name.size() <= kBytesMax && name.front() != ' ' && name.back() != ' ' &&
         std::ranges::all_of(name, [&](char letter) {
           return static_cast<unsigned char>(letter) >= 0x20 &&
                  kNotInKeys.find(letter) == std::string_view::npos;
         });
}

}  // namespace

std::string place_inside(const std::string& place, std::string_view key) {
  constexpr std::size_t kPlaceBytesMax = 200;
  if (place.size() > kPlaceBytesMax) return place;
  return place.empty() ? quotable(key) : fmt::format("{}.{}", place, quotable(key));
}

std::string at_place(const std::string& place, std::string_view key) {
  return fmt::format("{}: {}", place.empty() ? "schema" : place, key);
}

void ValueGrammar::loosen(const std::string& place, std::string_view key) {
  if (loose_.empty() && !key.empty()) loose_ = at_place(place, key);
}

void ValueGrammar::loosen_beside(const JsonObject& schema, std::string_view key,
                                 const std::string& place) {
  const std::string_view beside = assertion_beside(schema, {key});
  if (!beside.empty()) loosen(place, fmt::format("{} beside {}", beside, key));
}

std::string_view ValueGrammar::comma() const {
  return syntax_ == ValueSyntax::gemma4 ? "\",\"" : "\", \"";
}

std::string ValueGrammar::value(const JsonValue& schema, const std::string& place) {
  const auto [name, is_new] = names_.try_emplace(&schema);
  if (is_new) {
    name->second = writer_.new_name("value");
    open_.push_back({&schema, place});
  }
  return name->second;
}

void ValueGrammar::finish() {
  while (!open_.empty() && !writer_.is_full()) {
    const Open next = std::move(open_.back());
    open_.pop_back();
    const std::string name = names_.at(next.schema);
    writer_.rule(name, body(*next.schema, next.place));
  }
}

std::string ValueGrammar::body(const JsonValue& schema, const std::string& place) {
  const JsonObject* object = schema.if_object();
  if (object == nullptr) return any();
  if (const JsonValue* reference = object->if_contains("$ref")) {
    loosen_beside(*object, "$ref", place);
    const std::string_view name = reference->get_string();
    return value(*resolve_reference(root_, name), quotable(name));
  }
  if (object->contains("const") || object->contains("enum")) return constants(*object, place);
  for (const std::string_view key : {"anyOf", "oneOf", "allOf"}) {
    const JsonValue* list = object->if_contains(key);
    if (list == nullptr) continue;
    if (key == "oneOf") loosen(place, key);  // alternatives that may overlap
    if (key == "allOf" && list->get_array().size() > 1) {
      loosen(place, key);
      continue;
    }
    loosen_beside(*object, key, place);
    const std::string options = alternatives_of(list->get_array(), key, place);
    if (!options.empty()) return options;
  }
  return by_type(*object, place);
}

// Empty: there is none.
std::string ValueGrammar::alternatives_of(const JsonArray& list, std::string_view key,
                                          const std::string& place) {
  std::vector<std::string> options;
  for (std::size_t i = 0; i < list.size(); i++) {
    if (!is_false(list[i]))
      options.push_back(value(list[i], place_inside(place, fmt::format("{}[{}]", key, i))));
  }
  return options.empty() ? std::string() : alternatives(options);
}

std::string ValueGrammar::by_type(const JsonObject& schema, const std::string& place) {
  const JsonValue* type = schema.if_contains("type");
  if (type == nullptr) {
    if (schema.contains("properties")) return body_of_type(schema, "object", place);
    if (schema.contains("items")) return body_of_type(schema, "array", place);
    if (const auto asked = assertion_beside(schema, {}); !asked.empty())
      loosen(place, fmt::format("{} without type", asked));
    return any();
  }
  if (type->is_string()) return body_of_type(schema, type->get_string(), place);
  std::vector<std::string> options;
  std::set<std::string_view> types;
  for (const JsonValue& one : type->get_array()) {
    if (types.insert(one.get_string()).second)
      options.push_back(body_of_type(schema, one.get_string(), place));
  }
  return options.empty() ? any() : alternatives(options);
}

std::string ValueGrammar::body_of_type(const JsonObject& schema, std::string_view type,
                                       const std::string& place) {
  const bool is_python = syntax_ == ValueSyntax::python;
  const bool is_json = syntax_ == ValueSyntax::json;
  if (type == "string") return text(schema, place);
  if (type == "integer" || type == "number") return number(schema, type == "integer");
  if (type == "boolean") return is_python ? R"(("True" | "False"))" : R"(("true" | "false"))";
  // gemma4's template prints Python's values.
  if (type == "null") return is_json ? "\"null\"" : "\"None\"";
  if (type == "array") return array(schema, place);
  if (type == "object") return fmt::format("\"{{\" {} \"}}\"", fields_of(schema, {}, place));
  return any();
}

std::string ValueGrammar::constants(const JsonObject& schema, const std::string& place) {
  const Constants listed = constants_of(schema);
  loosen(place, listed.unheld);
  std::vector<std::string> options;
  for (const JsonValue* each : listed.values) options.push_back(constant(*each));
  return alternatives(options);
}

std::string ValueGrammar::quoted(std::string_view text) {
  if (syntax_ == ValueSyntax::python) return lark_text(to_json(JsonValue(text)));
  const std::string mark = writer_.mark(kQuote);
  return text.empty() ? fmt::format("{} {}", mark, mark)
                      : fmt::format("{} {} {}", mark, lark_text(text), mark);
}

std::string ValueGrammar::constant(const JsonValue& value) {
  if (syntax_ == ValueSyntax::json) return lark_text(spaced_json(value));
  if (value.is_string()) return quoted(value.get_string());
  if (value.is_null()) return body_of_type({}, "null", {});
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
    std::vector<std::pair<std::string_view, const JsonValue*>> fields;
    for (const auto& field : *object) fields.emplace_back(field.key(), &field.value());
    if (syntax_ == ValueSyntax::gemma4)
      std::ranges::stable_sort(fields, comes_before, [](const auto& field) { return field.first; });
    for (const auto& [name, field] : fields)
      parts.push_back(key(name, {}) + " " + constant(*field));
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
  const std::vector<std::string> options = {text(free, {}),
                                            number(free, false),
                                            body_of_type(free, "boolean", {}),
                                            body_of_type(free, "null", {}),
                                            list,
                                            map};
  writer_.rule(any_, alternatives(options));
  return any_;
}

// A leaf's own keywords, without what could refer to other places.
JsonObject ValueGrammar::leaf(const JsonObject& schema, std::string_view type) const {
  JsonObject leaf{{"type", type}};
  for (const auto& field : schema) {
    const std::string_view key = field.key();
    const bool is_asked = key == "pattern" || key == "format" || !field.value().is_string();
    if (key != "type" && is_asked && !field.value().is_structured())
      leaf.emplace(key, field.value());
  }
  leaf["x-guidance"] = root_.get_object().at("x-guidance");
  return leaf;
}

std::string ValueGrammar::text(const JsonObject& schema, const std::string& place) {
  if (syntax_ != ValueSyntax::gemma4) return writer_.json(leaf(schema, "string"));
  std::string unheld;
  const std::string text = bare_text(writer_, schema, kQuote, unheld);
  loosen(place, unheld);
  return fmt::format("{} {}", writer_.mark(kQuote), text);
}

std::string ValueGrammar::number(const JsonObject& schema, bool is_integer) {
  constexpr std::string_view bounds[] = {"minimum", "maximum", "exclusiveMinimum",
                                         "exclusiveMaximum", "multipleOf"};
  const bool is_bounded = std::ranges::any_of(
      bounds, [&schema](std::string_view bound) { return schema.contains(bound); });
  if (is_bounded) return writer_.json(leaf(schema, is_integer ? "integer" : "number"));
  has_fractions_ = has_fractions_ || !is_integer;
  const std::string integer = writer_.terminal("NUMBER", kInteger);
  if (is_integer) return integer;
  return alternatives(
      {integer, writer_.terminal("NUMBER", kFraction), writer_.terminal("NUMBER", kPower)});
}

std::string ValueGrammar::array(const JsonObject& schema, const std::string& place) {
  const JsonValue* items = schema.if_contains("items");
  const bool is_tuple = items != nullptr && items->is_array();
  if (is_tuple || schema.contains("prefixItems")) loosen(place, is_tuple ? "items" : "prefixItems");
  const std::string item =
      items == nullptr || is_tuple ? any() : value(*items, place_inside(place, "items"));
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

std::string ValueGrammar::fields(std::string_view pair) {
  const RootObject object = root_object(root_);
  loosen(object.place, object.unheld);
  return fields_of(*object.schema, pair, object.place);
}

// `pair`: "=" for Python's keyword arguments; nothing: the syntax's own.
std::string ValueGrammar::fields_of(const JsonObject& schema, std::string_view pair,
                                    const std::string& place) {
  ObjectFields object = object_fields(schema);
  loosen(place, object.unheld);
  if (object.fields.empty()) {
    const JsonValue* others = schema.if_contains("additionalProperties");
    if (others != nullptr && is_false(*others)) return "\"\"";
    const std::string item =
        others == nullptr ? any() : value(*others, place_inside(place, "additionalProperties"));
    const std::string field = any_key(pair) + " " + item;
    return fmt::format("({0} ({1} {0})*)?", field, comma());
  }
  if (syntax_ == ValueSyntax::gemma4)
    std::ranges::stable_sort(object.fields, comes_before, &ObjectField::name);
  // From the last: what may follow where nothing came before, and behind a comma.
  const std::string others = other_fields(schema, object.fields, place);
  std::string first = "\"\"", further = "\"\"";
  if (!others.empty()) {
    first = fmt::format("({0} ({1} {0})*)?", others, comma());
    further = fmt::format("({} {})*", comma(), others);
  }
  const std::string inside = place_inside(place, "properties");
  for (const ObjectField& property : std::views::reverse(object.fields)) {
    if (writer_.is_full()) break;
    const auto& [name, property_schema, is_required] = property;
    has_odd_names_ = has_odd_names_ || (!pair.empty() && !is_python_name(name));
    const std::string item =
        property_schema == nullptr ? any() : value(*property_schema, place_inside(inside, name));
    const std::string field = key(name, pair) + " " + item;
    const std::string alone = fmt::format("{} {}", field, further);
    const std::string next = is_required ? fmt::format("{} {} {}", comma(), field, further)
                                         : fmt::format("({} {})? {}", comma(), field, further);
    first = writer_.new_rule("fields", is_required ? alone : fmt::format("{} | {}", alone, first));
    further = writer_.new_rule("fields", next);
  }
  return first;
}

// One of those that an object may have beside the listed ones; only in JSON. Empty: there is none.
std::string ValueGrammar::other_fields(const JsonObject& schema,
                                       const std::vector<ObjectField>& listed,
                                       const std::string& place) {
  const JsonValue* others = schema.if_contains("additionalProperties");
  if (syntax_ != ValueSyntax::json || (others != nullptr && is_false(*others))) return {};
  std::vector<std::string> names;
  for (const ObjectField& field : listed) names.push_back(lark_escaped(field.name));
  const std::string key =
      writer_.terminal("KEY", fmt::format("{} & ~/\"({})\": /", kKey, fmt::join(names, "|")));
  return key + " " +
         (others == nullptr ? any() : value(*others, place_inside(place, "additionalProperties")));
}

std::string ValueGrammar::key(std::string_view name, std::string_view pair) {
  if (!pair.empty()) return lark_text(fmt::format("{}{}", name, pair));
  if (syntax_ != ValueSyntax::gemma4) return lark_text(to_json(JsonValue(name)) + ": ");
  if (is_bare_key(name)) return lark_text(fmt::format("{}:", name));
  return quoted(name) + " \":\"";
}

std::string ValueGrammar::any_key(std::string_view pair) {
  if (!pair.empty())
    return writer_.terminal("KEY", fmt::format("/[A-Za-z_][A-Za-z0-9_]{{0,63}}{}/", pair));
  if (syntax_ != ValueSyntax::gemma4) return writer_.terminal("KEY", std::string(kKey));
  return writer_.terminal("KEY", "/[A-Za-z_][A-Za-z0-9_.-]{0,63}:/");
}

}  // namespace reprise
