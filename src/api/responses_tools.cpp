// Tools of the Responses API become the functions of a chat.
#include "api/responses_tools.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

namespace reprise {
namespace {

constexpr std::size_t kShownNameMax = 128;  // what the grammars of calls can write
constexpr std::string_view kSeparator = "__";

// What OpenAI's own servers run in the middle of a reply, and the model may leave alone. Not those
// that clients run (shell, apply_patch, computer ...), nor servers of the client's (mcp): who sends
// such a tool counts on its calls.
constexpr std::array<std::string_view, 7> kHostedTypes = {
    "web_search",  "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11",
    "file_search", "code_interpreter",      "image_generation"};

// ---- namespaces

struct Namespace {
  std::string name;
  std::string description;
  const JsonValue* functions = nullptr;
};

ApiStatus parse_space_name(const FieldPlace& place, const JsonValue& value, Namespace& space) {
  if (!value.is_string()) return wrong_type(place.param, "a string", value);
  TRY(check_name(place, text_of(value), kShownNameMax));
  space.name = text_of(value);
  return {};
}

ApiStatus keep_functions(const FieldPlace&, const JsonValue& value, Namespace& space) {
  space.functions = &value;
  return {};
}

JsonObject flat_function_schema(const Limits& limits) {
  JsonObject function = function_schema(limits);
  function["properties"].get_object()["type"] = JsonObject{{"const", "function"}};
  function["required"].get_array().emplace_back("type");
  return function;
}

JsonObject space_functions_schema(const Limits& limits) {
  return {{"type", "array"},
          {"minItems", 1},
          {"maxItems", limits.tools_max},
          {"items", flat_function_schema(limits)}};
}

constexpr std::array kNamespaceFields = {
    composite_field<Namespace, parse_space_name>(
        "name", R"({"type":"string","pattern":"^[a-zA-Z0-9_-]{1,128}$"})",
        "With __ and a function's name at most 128 bytes.")
        .needed(),
    text_field<&Namespace::description>("description", 0, &Limits::tool_bytes_max,
                                        "What its functions are for."),
    composite_field<Namespace, keep_functions>("tools", space_functions_schema, "Its functions.")
        .needed(),
    ignored_field<Namespace>("type", ""),
};

// The description of a namespace stands once, in that of its first function.
void move_description(Namespace& space, JsonObject& definition) {
  if (space.description.empty()) return;
  std::string text = fmt::format("{}: {}", shown_name(space.name, "*"), space.description);
  space.description.clear();
  const JsonValue* own = definition.if_contains("description");
  if (own && own->is_string() && !own->get_string().empty()) {
    text += "\n\n";
    text += text_of(*own);
  }
  definition["description"] = text;
}

class ToolsReader {
 public:
  ToolsReader(Tools& tools, ResponseTools& own) : tools_(tools), own_(own) {}

  ApiStatus add(const FieldPlace& place, const JsonValue& value);
  JsonArray take_shown() { return std::move(shown_); }

 private:
  ApiResult<FunctionTool> read_flat(const FieldPlace& place, const JsonValue& value);
  ApiStatus add_namespace(const FieldPlace& place, const JsonValue& value);
  ApiStatus add_member(const FieldPlace& place, const JsonValue& value, Namespace& space);

  Tools& tools_;
  ResponseTools& own_;
  JsonArray shown_;
};

// {"type", "name", "parameters" ...}
ApiResult<FunctionTool> ToolsReader::read_flat(const FieldPlace& place, const JsonValue& value) {
  JsonObject definition = value.get_object();
  definition.stable_erase("type");  // templates show the others in their order
  return read_function(place, JsonValue(std::move(definition)));
}

ApiStatus ToolsReader::add_member(const FieldPlace& place, const JsonValue& value,
                                  Namespace& space) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  FieldReader reader(value.get_object(), place.param + ".");
  TRY_ASSIGN(const std::string type, read_tool_type(place, reader));
  if (type != "function") {
    return unsupported(reader.path("type"),
                       fmt::format("got \"{}\", expected \"function\"", clipped(type)));
  }
  TRY_ASSIGN(FunctionTool function, read_flat(place, value));
  NamespacedFunction known{.shown = shown_name(space.name, function.spec.name),
                           .name_space = space.name,
                           .name = function.spec.name};
  if (known.shown.size() > kShownNameMax) {
    return wrong_value(reader.path("name"),
                       fmt::format("got {} bytes with its namespace, expected at most {}",
                                   known.shown.size(), kShownNameMax));
  }
  function.spec.name = known.shown;
  function.definition["name"] = known.shown;
  move_description(space, function.definition);
  own_.namespaced.push_back(std::move(known));
  return add_function(place, std::move(function), tools_);
}

ApiStatus ToolsReader::add_namespace(const FieldPlace& place, const JsonValue& value) {
  Namespace space;
  TRY(read_object<Namespace>(place, value, kNamespaceFields, space));
  return read_list(
      place.member("tools"), *space.functions, "functions", 1, place.limits->tools_max,
      [&](const FieldPlace& at, const JsonValue& item) { return add_member(at, item, space); });
}

ApiStatus ToolsReader::add(const FieldPlace& place, const JsonValue& value) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  FieldReader reader(value.get_object(), place.param + ".");
  TRY_ASSIGN(const std::string type, read_tool_type(place, reader));
  if (std::ranges::find(kHostedTypes, type) != kHostedTypes.end()) {
    own_.hosted.push_back({reader.path("type"), type});
    return {};
  }
  if (type == "function") {
    TRY_ASSIGN(FunctionTool function, read_flat(place, value));
    TRY(add_function(place, std::move(function), tools_));
  } else if (type == "namespace") {
    TRY(add_namespace(place, value));
  } else {
    return unsupported(
        reader.path("type"),
        fmt::format("got \"{}\", expected \"function\" or \"namespace\"", clipped(type)));
  }
  shown_.push_back(value);
  return {};
}

// ---- the choice

struct NamedChoice {
  std::string name;
  std::string name_space;
};

constexpr std::array kNamedFields = {
    text_field<&NamedChoice::name>("name", 1, &Limits::name_bytes_max, "The function.").needed(),
    text_field<&NamedChoice::name_space>("namespace", 0, &Limits::name_bytes_max,
                                         "Its namespace; absent: it has none, or it is the only "
                                         "one of this name."),
    ignored_field<NamedChoice>("type", ""),
};

// What the model knows the chosen function by; empty: several could be meant.
std::string chosen_name(const NamedChoice& choice, const ResponseTools& own, const Tools& tools) {
  const bool is_plain =
      std::ranges::find(tools.specs, choice.name, &ToolSpec::name) != tools.specs.end();
  if (!choice.name_space.empty() || is_plain) return shown_name(choice.name_space, choice.name);
  const auto first = std::ranges::find(own.namespaced, choice.name, &NamespacedFunction::name);
  if (first == own.namespaced.end()) return choice.name;
  const bool is_only =
      std::ranges::count(own.namespaced, choice.name, &NamespacedFunction::name) == 1;
  return is_only ? first->shown : std::string();
}

ApiStatus choose_named(const FieldPlace& place, const JsonValue& value, const ResponseTools& own,
                       Tools& tools) {
  FieldReader reader(value.get_object(), place.param + ".");
  TRY_ASSIGN(const std::string type, read_tool_type(place, reader));
  if (type != "function") {
    return unsupported(reader.path("type"),
                       fmt::format("got \"{}\", expected \"function\"", clipped(type)));
  }
  NamedChoice choice;
  TRY(read_object<NamedChoice>(place, value, kNamedFields, choice));
  if (tools.specs.empty()) {
    return wrong_value(place.param, "got a function, but there are no tools");
  }
  const std::string name = chosen_name(choice, own, tools);
  if (name.empty()) {
    return wrong_value(reader.path("namespace"),
                       fmt::format("got none, but several namespaces have a function \"{}\"",
                                   clipped(choice.name)));
  }
  if (choose_function(name, tools)) return {};
  return wrong_value(
      reader.path("name"),
      fmt::format("got \"{}\", expected the name of a tool of this request", clipped(choice.name)));
}

std::unexpected<ApiError> refuse_hosted(const HostedTool& tool, std::string_view why) {
  return unsupported(tool.param, fmt::format("got \"{}\", but this server does not run it and {}, "
                                             "expected \"function\" or \"namespace\"",
                                             tool.type, why));
}

}  // namespace

std::string shown_name(std::string_view name_space, std::string_view name) {
  if (name_space.empty()) return std::string(name);
  const bool is_separated = name_space.ends_with(kSeparator);
  return fmt::format("{}{}{}", name_space, is_separated ? "" : kSeparator, name);
}

ApiStatus parse_response_tools(const FieldPlace& place, const JsonValue& value, Tools& tools,
                               ResponseTools& own) {
  ToolsReader reader(tools, own);
  TRY(read_list(place, value, "tools", 0, place.limits->tools_max,
                [&](const FieldPlace& at, const JsonValue& item) { return reader.add(at, item); }));
  TRY(check_count(place.param, tools.definitions.size(), "functions", 0, place.limits->tools_max));
  own.shown_json = to_json(reader.take_shown());
  return check_json_size(place, own.shown_json.size(), place.limits->response_echo_bytes_max);
}

ApiStatus parse_response_choice(const FieldPlace& place, const JsonValue& value,
                                const ResponseTools& own, Tools& tools) {
  if (value.is_object()) return choose_named(place, value, own, tools);
  const bool is_required = value.is_string() && text_of(value) == "required";
  if (is_required && !own.hosted.empty()) {
    return refuse_hosted(own.hosted.front(), "tool_choice is \"required\"");
  }
  return parse_choice_word(place, value, tools);
}

ApiStatus check_hosted(const ResponseTools& own, const Tools& tools, bool may_call) {
  if (own.hosted.empty() || !tools.definitions.empty() || !may_call) return {};
  return refuse_hosted(own.hosted.front(), "there is no function beside it");
}

JsonObject response_tools_schema(const Limits& limits) {
  JsonObject space = table_schema(kNamespaceFields, limits);
  space["properties"].get_object()["type"] = JsonObject{{"const", "namespace"}};
  space["required"].get_array().emplace_back("type");
  JsonArray types;
  for (const std::string_view type : kHostedTypes) types.emplace_back(type);
  JsonObject hosted{{"type", "object"},
                    {"description", "Left out: the model is not offered it."},
                    {"required", JsonArray{"type"}},
                    {"properties", JsonObject{{"type", JsonObject{{"enum", std::move(types)}}}}}};
  JsonArray forms{flat_function_schema(limits), std::move(space), std::move(hosted)};
  return {{"type", "array"},
          {"maxItems", limits.tools_max},
          {"items", JsonObject{{"anyOf", std::move(forms)}}}};
}

JsonObject response_choice_schema(const Limits& limits) {
  JsonObject named = table_schema(kNamedFields, limits);
  named["properties"].get_object()["type"] = JsonObject{{"const", "function"}};
  named["required"].get_array().emplace_back("type");
  return tool_choice_schema_with(std::move(named));
}

}  // namespace reprise
