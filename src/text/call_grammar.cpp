// Rules for calls in JSON, Python's syntax, and Gemma 4's.
#include "text/call_grammar.h"

#include <algorithm>
#include <cctype>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "text/json_schema.h"
#include "text/schema_closing.h"
#include "text/schema_hints.h"
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
  schema = with_closed_objects(schema);
  TRY_ASSIGN(JsonObject checked,
             tool.is_strict ? checked_schema(schema) : schema_of_hints(tool.name, schema));
  JsonObject& spelling = checked["x-guidance"].as_object();
  spelling.erase("whitespace_pattern");
  spelling["whitespace_flexible"] = false;
  spelling["item_separator"] = ", ";
  spelling["key_separator"] = ": ";
  return JsonValue(std::move(checked));
}

std::string one_of(const std::vector<std::string>& options) {
  return fmt::format("({})", fmt::join(options, " | "));
}

// The arguments by rules of our own, where they have numbers that llguidance would let be spelled
// in several ways. Empty: there are none, or ours are not held to all of the schema.
std::string own_arguments(LarkWriter& writer, const CheckedTool& tool) {
  LarkWriter trial(nullptr);
  ValueGrammar tried(trial, ValueSyntax::json, tool.parameters);
  (void)tried.fields({});
  tried.finish();
  if (!tried.has_fractions() || !tried.loose().empty() || trial.is_full()) return {};
  ValueGrammar values(writer, ValueSyntax::json, tool.parameters);
  const std::string fields = values.fields({});
  values.finish();
  return fmt::format("\"{{\" {} \"}}\"", fields);
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
    checked.push_back({tool.name, std::move(*parameters), tool.is_strict});
  }
  return checked;
}

Status hold_to(const CheckedTool& tool, const std::string& loose) {
  if (loose.empty() || !tool.is_strict) return {};
  return fail(Errc::unsupported,
              fmt::format("function {}: {} cannot be held to in the form of this model's calls, "
                          "expected a function that is not strict, or a simpler schema",
                          tool.name, loose));
}

std::string json_call(LarkWriter& writer, std::span<const CheckedTool> tools,
                      std::string_view arguments) {
  std::vector<std::string> calls;
  for (const CheckedTool& tool : tools) {
    if (writer.is_full()) break;
    const std::string head = fmt::format(R"({{"name": "{}", "{}": )", tool.name, arguments);
    std::string own = own_arguments(writer, tool);
    if (own.empty()) own = writer.json(tool.parameters);
    calls.push_back(fmt::format("{} {} \"}}\"", lark_text(head), own));
  }
  return one_of(calls);
}

std::string python_calls(LarkWriter& writer, std::span<const CheckedTool> tools, bool parallel) {
  // The bracket goes with the name: what begins so is no text.
  std::vector<std::string> first, further;
  for (const CheckedTool& tool : tools) {
    if (writer.is_full()) break;
    if (!is_python_name(tool.name)) continue;
    ValueGrammar values(writer, ValueSyntax::python, tool.parameters);
    const std::string fields = values.fields("=");
    values.finish();
    if (values.has_odd_names() || !hold_to(tool, values.loose())) continue;
    const std::string rest = writer.new_rule("call", fmt::format("{} \")\"", fields));
    first.push_back(fmt::format("{} {}", lark_text("[" + tool.name + "("), rest));
    further.push_back(fmt::format("{} {}", lark_text(", " + tool.name + "("), rest));
  }
  if (first.empty()) return {};
  return fmt::format("{} {} \"]\"", one_of(first), parallel ? one_of(further) + "*" : "");
}

Result<std::string> gemma4_call(LarkWriter& writer, std::span<const CheckedTool> tools) {
  std::vector<std::string> calls;
  for (const CheckedTool& tool : tools) {
    if (writer.is_full()) break;
    ValueGrammar values(writer, ValueSyntax::gemma4, tool.parameters);
    const std::string fields = values.fields({});
    values.finish();
    TRY(hold_to(tool, values.loose()));
    calls.push_back(
        fmt::format("{} {} \"}}\"", lark_text(fmt::format("call:{}{{", tool.name)), fields));
  }
  return one_of(calls);
}

}  // namespace reprise
