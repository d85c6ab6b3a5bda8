// Rules for calls in JSON, Python's syntax, and Gemma 4's.
#include "text/call_grammar.h"

#include <algorithm>
#include <cctype>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "text/json_schema.h"
#include "text/value_grammar.h"

namespace reprise {
namespace {

constexpr std::size_t kNameBytesMax = 128;
constexpr std::size_t kToolsMax = 512;

bool is_name_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
}

// What every format can write: OpenAI's names, and those with a namespace.
bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::ranges::all_of(name, [](char letter) {
           return is_name_letter(letter) || letter == '-' || letter == '.';
         });
}

bool is_python_name(std::string_view name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::ranges::all_of(name, is_name_letter);
}

// The schema of arguments, which are always an object.
Result<JsonValue> checked_parameters(const ToolSpec& tool) {
  JsonObject schema = tool.parameters;
  if (schema.empty()) schema["additionalProperties"] = false;  // a function without parameters
  JsonValue& type = schema["type"];
  const JsonArray* types = type.if_array();
  if (types != nullptr && std::ranges::find(*types, JsonValue("object")) != types->end())
    type = "object";
  if (type.is_null()) type = "object";
  if (type != "object") {
    return fail(Errc::invalid_argument,
                fmt::format("type {}, expected \"object\"", to_json(type).substr(0, 60)));
  }
  TRY_ASSIGN(JsonObject checked,
             checked_schema(schema, tool.is_strict ? SchemaKeywords::refuse_unknown
                                                   : SchemaKeywords::drop_unknown));
  return JsonValue(std::move(checked));
}

std::string one_of(const std::vector<std::string>& options) {
  return fmt::format("({})", fmt::join(options, " | "));
}

bool is_callable_in_python(const CheckedTool& tool) {
  if (!is_python_name(tool.name)) return false;
  const JsonValue* properties = tool.parameters.get_object().if_contains("properties");
  return properties == nullptr ||
         std::ranges::all_of(properties->get_object(),
                             [](const auto& field) { return is_python_name(field.key()); });
}

}  // namespace

Result<std::vector<CheckedTool>> check_tools(std::span<const ToolSpec> tools) {
  if (tools.empty()) return fail(Errc::invalid_argument, "no functions, expected at least one");
  if (tools.size() > kToolsMax) {
    return fail(Errc::exhausted,
                fmt::format("{} functions, expected at most {}", tools.size(), kToolsMax));
  }
  std::vector<CheckedTool> checked;
  for (const ToolSpec& tool : tools) {
    if (!is_name(tool.name)) {
      return fail(Errc::invalid_argument,
                  fmt::format("function name {}, expected 1 to {} letters, digits, '_', '-', '.'",
                              quotable(tool.name), kNameBytesMax));
    }
    Result<JsonValue> parameters = checked_parameters(tool);
    if (!parameters) {
      return fail(parameters.error().code,
                  fmt::format("function {}: {}", tool.name, parameters.error().message));
    }
    checked.push_back({tool.name, std::move(*parameters)});
  }
  return checked;
}

std::string json_call(LarkWriter& writer, std::span<const CheckedTool> tools,
                      std::string_view arguments) {
  // Some models say first that it is a function.
  constexpr std::string_view kHead =
      R"(/\{{[ \n]{{0,8}}("type": ?"function",[ \n]{{0,8}})?"name": ?"{}",[ \n]{{0,8}}"{}": ?/)";
  const std::string tail = writer.terminal("TAIL", R"(/[ \n]{0,8}\}/)");
  std::vector<std::string> calls;
  for (const CheckedTool& tool : tools) {
    const std::string head =
        writer.terminal("HEAD", fmt::format(kHead, lark_escaped(tool.name), arguments));
    calls.push_back(fmt::format("{} {} {}", head, writer.json(tool.parameters), tail));
  }
  return one_of(calls);
}

std::string python_calls(LarkWriter& writer, std::span<const CheckedTool> tools, bool parallel) {
  // The bracket goes with the name: what begins so is no text.
  std::vector<std::string> first, further;
  for (const CheckedTool& tool : tools) {
    if (!is_callable_in_python(tool)) continue;
    ValueGrammar values(writer, ValueSyntax::python, tool.parameters);
    const std::string fields = values.fields("=");
    values.finish();
    const std::string rest = writer.new_rule("call", fmt::format("{} \")\"", fields));
    first.push_back(fmt::format("{} {}", lark_text("[" + tool.name + "("), rest));
    further.push_back(fmt::format(
        "{} {}", writer.terminal("HEAD", fmt::format("/, ?{}\\(/", lark_escaped(tool.name))),
        rest));
  }
  if (first.empty()) return {};
  return fmt::format("{} {} \"]\"", one_of(first), parallel ? one_of(further) + "*" : "");
}

std::string gemma4_call(LarkWriter& writer, std::span<const CheckedTool> tools) {
  std::vector<std::string> calls;
  for (const CheckedTool& tool : tools) {
    ValueGrammar values(writer, ValueSyntax::gemma4, tool.parameters);
    const std::string fields = values.fields({});
    values.finish();
    calls.push_back(
        fmt::format("{} {} \"}}\"", lark_text(fmt::format("call:{}{{", tool.name)), fields));
  }
  return one_of(calls);
}

}  // namespace reprise
