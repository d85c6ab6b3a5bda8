// The words that templates know for one thing.
#include "api/chat_settings.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

namespace reprise {
namespace {

constexpr std::array<std::string_view, 5> kReservedNames = {
    "messages", "tools", "add_generation_prompt", "bos_token", "eos_token"};

// How generation prompts end that rule thoughts out.
constexpr std::array<std::string_view, 2> kClosers = {"</think>", "<channel|>"};

}  // namespace

Result<JsonObject> template_variables(const ChatSettings& settings,
                                      std::string_view thinking_name) {
  JsonObject variables;
  const std::string& effort = settings.reasoning_effort;
  if (!effort.empty()) {
    if (!thinking_name.empty()) variables[thinking_name] = effort != "none";
    variables["reasoning_effort"] = effort;  // gpt-oss
    // Muse always thinks, and knows no word below "low".
    const bool is_least = effort == "none" || effort == "minimal";
    variables["reasoning_strength"] = is_least ? "low" : effort;
  }
  for (const auto& [key, value] : settings.variables) {
    const std::string_view name = key;
    if (std::ranges::find(kReservedNames, name) != kReservedNames.end()) {
      const std::string path = fmt::format("chat_template_kwargs.{}", name);
      return fail(
          Errc::invalid_argument,
          fmt::format("{}: got a name that the prompt itself needs, expected another one", path),
          path);
    }
    variables[name] = value;
  }
  return variables;
}

JsonArray template_tools(const JsonArray& definitions) {
  JsonArray tools = definitions;
  for (JsonValue& tool : tools) {
    JsonObject* object = tool.if_object();
    JsonValue* function = object != nullptr ? object->if_contains("function") : nullptr;
    JsonObject* fields = function != nullptr ? function->if_object() : nullptr;
    if (fields == nullptr) continue;
    const auto is_missing = [&](std::string_view key) {
      const JsonValue* value = fields->if_contains(key);
      return value == nullptr || value->is_null();
    };
    if (is_missing("description")) (*fields)["description"] = "";
    if (is_missing("parameters")) {
      (*fields)["parameters"] = JsonObject{{"type", "object"}, {"properties", JsonObject{}}};
    }
  }
  return tools;
}

Thoughts thoughts_at(ReplyFormat format, std::string_view end) {
  if (opens_reasoning(format, end)) return Thoughts::open;
  end = end.substr(0, end.find_last_not_of(" \n") + 1);
  const bool is_closed =
      std::ranges::any_of(kClosers, [&](std::string_view closer) { return end.ends_with(closer); });
  return is_closed ? Thoughts::closed : Thoughts::unopened;
}

}  // namespace reprise
