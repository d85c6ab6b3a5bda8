// Rules for Muse Glimmer's calls: tags around values that are bare text or JSON.
#include <algorithm>
#include <set>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "text/call_grammar.h"
#include "text/json_schema.h"

namespace reprise {
namespace {

constexpr std::string_view kParameterEnd = "</atem:parameter>";
constexpr int kDepthMax = 8;  // of alternatives within alternatives

bool names_string(const JsonValue& type) {
  const JsonArray* list = type.if_array();
  if (list == nullptr) return type == "string";
  return std::ranges::find(*list, JsonValue("string")) != list->end();
}

// Whether a string may be such a value; its text stands bare then, and so may anything.
bool accepts_text(const JsonValue& root, const JsonValue& schema, int depth) {
  const JsonObject* object = schema.if_object();
  if (object == nullptr || depth == kDepthMax) return true;
  if (const JsonValue* reference = object->if_contains("$ref"))
    return accepts_text(root, *resolve_reference(root, reference->get_string()), depth + 1);
  if (const JsonValue* type = object->if_contains("type")) return names_string(*type);
  if (const JsonValue* constant = object->if_contains("const")) return constant->is_string();
  if (const JsonValue* list = object->if_contains("enum")) {
    return std::ranges::any_of(list->get_array(),
                               [](const JsonValue& value) { return value.is_string(); });
  }
  for (const std::string_view key : {"anyOf", "oneOf"}) {
    if (const JsonValue* list = object->if_contains(key)) {
      return std::ranges::any_of(list->get_array(), [&](const JsonValue& one) {
        return accepts_text(root, one, depth + 1);
      });
    }
  }
  return true;
}

// With the tag behind it.
std::string parameter_value(LarkWriter& writer, const JsonValue& root, const JsonValue& schema) {
  const JsonObject* object = schema.if_object();
  const JsonValue* list = object == nullptr ? nullptr : object->if_contains("enum");
  if (list != nullptr) {
    std::vector<std::string> options;
    for (const JsonValue& value : list->get_array()) {
      const std::string text = value.is_string() ? std::string(value.get_string()) : to_json(value);
      options.push_back(lark_text(text + std::string(kParameterEnd)));
    }
    return fmt::format("({})", fmt::join(options, " | "));
  }
  if (accepts_text(root, schema, 0)) return writer.up_to(kParameterEnd);
  return fmt::format("{} {}", writer.json(subschema(root, schema)), lark_text(kParameterEnd));
}

std::string parameters(LarkWriter& writer, const JsonValue& root) {
  const JsonObject& schema = root.get_object();
  const JsonValue* listed = schema.if_contains("properties");
  const JsonValue* others = schema.if_contains("additionalProperties");
  if (listed == nullptr || listed->get_object().empty()) {
    if (others != nullptr && others->is_bool() && !others->get_bool()) return "\"\"";
    const std::string name =
        writer.terminal("NAME", R"(/<atem:parameter name="[A-Za-z_][A-Za-z0-9_]{0,63}">/)");
    return fmt::format("({} {} \"\\n\")*", name, writer.up_to(kParameterEnd));
  }
  std::set<std::string_view> required;
  if (const JsonValue* names = schema.if_contains("required")) {
    for (const JsonValue& name : names->get_array()) required.insert(name.get_string());
  }
  std::string all;
  for (const auto& field : listed->get_object()) {
    if (field.value().is_bool() && !field.value().get_bool()) continue;
    const std::string parameter = fmt::format(
        "{} {} \"\\n\"",
        lark_text(fmt::format("<atem:parameter name=\"{}\">", std::string_view(field.key()))),
        parameter_value(writer, root, field.value()));
    all += required.contains(field.key()) ? parameter + " " : fmt::format("({})? ", parameter);
  }
  return all.empty() ? "\"\"" : all;
}

}  // namespace

std::string muse_call(LarkWriter& writer, std::span<const CheckedTool> tools) {
  std::vector<std::string> calls;
  for (const CheckedTool& tool : tools) {
    const std::string body = writer.new_rule("parameters", parameters(writer, tool.parameters));
    calls.push_back(fmt::format(
        "{} {} {} {} {}", lark_text(" to=" + tool.name), writer.mark("<|message|>"),
        lark_text(fmt::format("<atem:function_calls>\n<atem:invoke name=\"{}\">\n", tool.name)),
        body, lark_text("</atem:invoke>\n</atem:function_calls>")));
  }
  return fmt::format("({})", fmt::join(calls, " | "));
}

}  // namespace reprise
