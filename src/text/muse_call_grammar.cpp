// Rules for Muse Glimmer's calls: tags around values that are bare text or JSON.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "text/bare_text.h"
#include "text/call_grammar.h"
#include "text/schema_walk.h"
#include "text/tool_prompt.h"
#include "text/value_grammar.h"

namespace reprise {
namespace {

constexpr std::string_view kParameterEnd = "</atem:parameter>";
constexpr int kDepthMax = 8;  // of alternatives within alternatives

std::string one_of(const std::vector<std::string>& options) {
  return fmt::format("({})", fmt::join(options, " | "));
}

// One function's parameters. Strings stand bare: what a value is, the parser tells from the schema
// (typed_value), so that a text may only vary where nothing else could be meant.
class MuseParameters {
 public:
  MuseParameters(LarkWriter& writer, const JsonValue& root)
      : writer_(writer), root_(root), parts_(root) {}

  std::string all();
  // The first thing that `all` is not held to, with its place.
  const std::string& loose() const { return loose_; }

 private:
  std::string parameter(std::string_view name, const JsonValue* schema, const std::string& place);
  std::string free_parameters(const JsonValue* others);
  std::string value(const JsonValue& schema, const std::string& place, int depth);
  std::string constants(const JsonObject& schema, const std::string& place);
  std::string text(const JsonValue& schema, const std::string& place);
  std::string alternatives(const JsonArray& list, const std::string& place, int depth);
  std::string json(const JsonValue& schema);
  bool is_string_or_null(const JsonValue& schema) const;
  bool says_nothing(const JsonValue& schema) const;
  bool may_be_text(const JsonValue& schema) const { return may_be(root_, schema, "string"); }
  void loosen(const std::string& place, std::string_view key) {
    if (loose_.empty() && !key.empty()) loose_ = at_place(place, key);
  }

  LarkWriter& writer_;
  const JsonValue& root_;
  SchemaParts parts_;
  std::map<std::string, std::string> values_;  // rules of parts, by what the part itself says
  std::string loose_;
};

std::string MuseParameters::json(const JsonValue& schema) {
  const auto [rule, is_new] = values_.try_emplace(to_json(parts_.alone(schema)));
  if (is_new && !writer_.is_full()) {
    JsonValue own = parts_.with_definitions(schema);
    if (own.is_object()) own.get_object()["x-guidance"] = root_.get_object().at("x-guidance");
    rule->second = writer_.json(own);
  }
  return rule->second;
}

// Nothing but strings, and null.
bool MuseParameters::is_string_or_null(const JsonValue& schema) const {
  for (const std::string_view kind : {"boolean", "number", "array", "object", "integer"}) {
    if (may_be(root_, schema, kind)) return false;
  }
  return true;
}

// Whether a schema names kinds and nothing else.
bool MuseParameters::says_nothing(const JsonValue& schema) const {
  const JsonObject* object = without_references(root_, schema).if_object();
  return object == nullptr || assertion_beside(*object, {"type"}).empty();
}

std::string MuseParameters::constants(const JsonObject& schema, const std::string& place) {
  const Constants listed = constants_of(schema);
  loosen(place, listed.unheld);
  std::vector<std::string> options;
  for (const JsonValue* each : listed.values) {
    const std::string text =
        each->is_string() ? std::string(each->get_string()) : spaced_json(*each);
    // It would end the value.
    if (text.find(kParameterEnd) != std::string::npos) loosen(place, "a constant with a tag in it");
    options.push_back(lark_text(text + std::string(kParameterEnd)));
  }
  return one_of(options);
}

std::string MuseParameters::text(const JsonValue& schema, const std::string& place) {
  std::string unheld;
  const std::string text = bare_text(writer_, schema.get_object(), kParameterEnd, unheld);
  loosen(place, unheld);
  if (!may_be(root_, schema, "null")) return text;
  return fmt::format("({} | {})", text, lark_text("null" + std::string(kParameterEnd)));
}

// Empty: they cannot be told apart by their texts.
std::string MuseParameters::alternatives(const JsonArray& list, const std::string& place,
                                         int depth) {
  bool has_text = false, has_others = false;
  for (const JsonValue& one : list) {
    const JsonObject* object = without_references(root_, one).if_object();
    const bool has_constants =
        object != nullptr && (object->contains("enum") || object->contains("const"));
    has_text = has_text || (may_be_text(one) && !has_constants);
    has_others = has_others || !is_string_or_null(one);
  }
  if (has_text && has_others) return {};
  std::vector<std::string> options;
  for (std::size_t i = 0; i < list.size() && !writer_.is_full(); i++) {
    if (is_false(list[i])) continue;
    const std::string inside = place_inside(place, fmt::format("anyOf[{}]", i));
    options.push_back(value(list[i], inside, depth + 1));
  }
  return options.empty() ? std::string() : one_of(options);
}

// With the tag behind it.
std::string MuseParameters::value(const JsonValue& schema, const std::string& place, int depth) {
  const JsonValue& own = without_references(root_, schema);
  if (!may_be_text(own)) return fmt::format("{} {}", json(own), lark_text(kParameterEnd));
  const JsonObject* object = own.if_object();
  if (object == nullptr) return writer_.up_to(kParameterEnd);
  if (object->contains("const") || object->contains("enum")) return constants(*object, place);
  const JsonValue* any_of = object->if_contains("anyOf");
  if (any_of != nullptr && depth < kDepthMax && assertion_beside(*object, {"anyOf"}).empty()) {
    const std::string options = alternatives(any_of->get_array(), place, depth);
    if (!options.empty()) return options;
    if (std::ranges::all_of(any_of->get_array(),
                            [this](const JsonValue& one) { return says_nothing(one); }))
      return writer_.up_to(kParameterEnd);
    loosen(place, "anyOf of strings and others");
    return writer_.up_to(kParameterEnd);
  }
  const bool has_type = object->contains("type");
  for (const std::string_view key : {"$ref", "allOf", "anyOf", "oneOf"}) {
    if (object->contains(key)) loosen(place, fmt::format("{} of strings", key));
  }
  if (has_type && is_string_or_null(own)) return text(own, place);
  const auto asked = assertion_beside(*object, {"type"});
  if (!asked.empty()) loosen(place, fmt::format("{} of what may be a string", asked));
  return writer_.up_to(kParameterEnd);
}

// `schema`: null: any value.
std::string MuseParameters::parameter(std::string_view name, const JsonValue* schema,
                                      const std::string& place) {
  return fmt::format("{} {} \"\\n\"", lark_text(fmt::format("<atem:parameter name=\"{}\">", name)),
                     schema == nullptr ? writer_.up_to(kParameterEnd) : value(*schema, place, 0));
}

std::string MuseParameters::free_parameters(const JsonValue* others) {
  if (others != nullptr && is_false(*others)) return "\"\"";
  const std::string name =
      writer_.terminal("NAME", R"(/<atem:parameter name="[A-Za-z_][A-Za-z0-9_]{0,63}">/)");
  const std::string each =
      others == nullptr ? writer_.up_to(kParameterEnd) : value(*others, "additionalProperties", 0);
  return fmt::format("({} {} \"\\n\")*", name, each);
}

std::string MuseParameters::all() {
  const RootObject object = root_object(root_);
  loosen(object.place, object.unheld);
  const ObjectFields listed = object_fields(*object.schema);
  loosen(object.place, listed.unheld);
  if (listed.fields.empty())
    return free_parameters(object.schema->if_contains("additionalProperties"));
  const std::string inside = place_inside(object.place, "properties");
  std::string all;
  for (const auto& [name, property, is_required] : listed.fields) {
    if (writer_.is_full()) break;
    const std::string one = parameter(name, property, place_inside(inside, name));
    all += is_required ? one + " " : fmt::format("({})? ", one);
  }
  return all;
}

}  // namespace

Result<std::string> muse_call(LarkWriter& writer, std::span<const CheckedTool> tools) {
  std::vector<std::string> calls;
  for (const CheckedTool& tool : tools) {
    if (writer.is_full()) break;
    MuseParameters parameters(writer, tool.parameters);
    const std::string body = writer.new_rule("parameters", parameters.all());
    TRY(hold_to(tool, parameters.loose()));
    calls.push_back(fmt::format(
        "{} {} {} {} {}", lark_text(" to=" + tool.name), writer.mark("<|message|>"),
        lark_text(fmt::format("<atem:function_calls>\n<atem:invoke name=\"{}\">\n", tool.name)),
        body, lark_text("</atem:invoke>\n</atem:function_calls>")));
  }
  return one_of(calls);
}

}  // namespace reprise
