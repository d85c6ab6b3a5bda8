// Tools, the choice among them, and the schemas that hold a reply.
#include <algorithm>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

constexpr std::size_t kNameMax = 64;

// OpenAI's rule for names of functions and schemas.
ApiStatus check_name(const FieldPlace& place, std::string_view name) {
  const auto is_allowed = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
  };
  if (name.empty() || name.size() > kNameMax) {
    return wrong_value(place.param,
                       fmt::format("got {} bytes, expected 1 to {}", name.size(), kNameMax));
  }
  if (!std::all_of(name.begin(), name.end(), is_allowed)) {
    return wrong_value(
        place.param,
        fmt::format("got \"{}\", expected letters, digits, _ and - only", clipped(name)));
  }
  return {};
}

// ---- one function

struct ToolDraft {
  ToolSpec spec{.name = {}, .parameters = {}, .is_strict = false};
  std::string description;
};

ApiStatus parse_name(const FieldPlace& place, const JsonValue& value, ToolDraft& draft) {
  if (!value.is_string()) return wrong_type(place.param, "a string", value);
  TRY(check_name(place, text_of(value)));
  draft.spec.name = text_of(value);
  return {};
}

ApiStatus parse_strict(const FieldPlace& place, const JsonValue& value, ToolDraft& draft) {
  if (!value.is_bool()) return wrong_type(place.param, "a boolean", value);
  draft.spec.is_strict = value.get_bool();
  return {};
}

ApiStatus parse_parameters(const FieldPlace& place, const JsonValue& value, ToolDraft& draft) {
  const JsonObject* schema = value.if_object();
  if (!schema) return wrong_type(place.param, "an object", value);
  const JsonValue* type = schema->if_contains("type");
  if (type && !(type->is_string() && text_of(*type) == "object")) {
    return wrong_value(
        place.member("type").param,
        fmt::format("got {}, expected \"object\"",
                    type->is_string() ? fmt::format("\"{}\"", clipped(text_of(*type)))
                                      : std::string(json_kind_name(*type))));
  }
  draft.spec.parameters = *schema;
  return {};
}

constexpr std::string_view kNameSchema = R"({"type":"string","pattern":"^[a-zA-Z0-9_-]{1,64}$"})";

constexpr std::array kFunctionFields = {
    composite_field<ToolDraft, parse_name>("name", kNameSchema, "").needed(),
    text_field<&ToolDraft::description>("description", 0, &Limits::tool_bytes_max,
                                        "What it is for."),
    composite_field<ToolDraft, parse_parameters>(
        "parameters", R"({"type":"object","properties":{"type":{"const":"object"}}})",
        "JSON schema of its arguments; absent: none."),
    composite_field<ToolDraft, parse_strict>(
        "strict", R"({"type":"boolean","default":false})",
        "true: a keyword of the schema that calls cannot be held to is refused, not ignored."),
};

// Adds the function that `object` describes; `definition` is it for the template.
ApiStatus add_function(const FieldPlace& place, const JsonValue& object, JsonObject definition,
                       Tools& tools) {
  ToolDraft draft;
  TRY(read_object<ToolDraft>(place, object, kFunctionFields, draft));
  TRY(check_json_size(place, to_json(object).size(), place.limits->tool_bytes_max));
  for (const ToolSpec& earlier : tools.specs) {
    if (earlier.name != draft.spec.name) continue;
    return wrong_value(place.member("name").param,
                       fmt::format("got \"{}\" twice, expected each name once", earlier.name));
  }
  if (draft.spec.parameters.empty()) {
    draft.spec.parameters = {{"type", "object"}, {"properties", JsonObject()}};
  }
  tools.specs.push_back(std::move(draft.spec));
  tools.definitions.push_back(
      JsonObject{{"type", "function"}, {"function", std::move(definition)}});
  return {};
}

// Its type: all that we have are functions.
ApiStatus check_type(const FieldPlace& place, FieldReader& reader) {
  const JsonValue* type = reader.find("type");
  const std::string param = place.member("type").param;
  if (!type) return missing(param);
  if (!type->is_string()) return wrong_type(param, "a string", *type);
  if (text_of(*type) == "function") return {};
  return unsupported(param,
                     fmt::format("got \"{}\", expected \"function\"", clipped(text_of(*type))));
}

ApiStatus parse_tool(const FieldPlace& place, const JsonValue& value, Nesting nesting,
                     Tools& tools) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  FieldReader reader(value.get_object(), place.param + ".");
  TRY(check_type(place, reader));
  if (nesting == Nesting::flat) {
    JsonObject definition = value.get_object();
    definition.erase("type");
    const JsonValue function(definition);
    return add_function(place, function, std::move(definition), tools);
  }
  const JsonValue* function = reader.find("function");
  if (!function) return missing(reader.path("function"));
  add_unknown(reader, *place.unknown);
  if (!function->is_object()) return wrong_type(reader.path("function"), "an object", *function);
  return add_function(place.member("function"), *function, function->get_object(), tools);
}

// ---- the choice

// The name in {"type": "function", "function": {"name"}}, or in its flat form.
ApiResult<std::string> chosen_name(const FieldPlace& place, const JsonValue& value,
                                   Nesting nesting) {
  FieldReader outer(value.get_object(), place.param + ".");
  TRY(check_type(place, outer));
  const JsonValue* holder = &value;
  FieldPlace at = place;
  if (nesting == Nesting::nested) {
    holder = outer.find("function");
    at = place.member("function");
    if (!holder) return missing(at.param);
    if (!holder->is_object()) return wrong_type(at.param, "an object", *holder);
  }
  FieldReader inner(holder->get_object(), at.param + ".");
  const JsonValue* name = inner.find("name");
  if (!name) return missing(inner.path("name"));
  return read_text(inner.path("name"), *name, 1, place.limits->name_bytes_max);
}

ApiStatus choose_named(const FieldPlace& place, const JsonValue& value, Nesting nesting,
                       Tools& tools) {
  TRY_ASSIGN(const std::string name, chosen_name(place, value, nesting));
  const auto spec = std::find_if(tools.specs.begin(), tools.specs.end(),
                                 [&](const ToolSpec& tool) { return tool.name == name; });
  if (spec == tools.specs.end()) {
    return wrong_value(
        place.member(nesting == Nesting::nested ? "function.name" : "name").param,
        fmt::format("got \"{}\", expected the name of a tool of this request", clipped(name)));
  }
  ToolSpec only = std::move(*spec);
  tools.specs.clear();
  tools.specs.push_back(std::move(only));
  tools.choice = ToolChoice::required;
  tools.is_named = true;
  return {};
}

// ---- schemas of replies

struct FormatDraft {
  std::string name, description;
  std::optional<JsonObject> schema;
  bool strict = true;  // false changes nothing: a reply that was asked to fit a schema does
};

ApiStatus parse_format_name(const FieldPlace& place, const JsonValue& value, FormatDraft& draft) {
  if (!value.is_string()) return wrong_type(place.param, "a string", value);
  TRY(check_name(place, text_of(value)));
  draft.name = text_of(value);
  return {};
}

ApiStatus parse_format_schema(const FieldPlace& place, const JsonValue& value, FormatDraft& draft) {
  TRY_ASSIGN(draft.schema, parse_reply_schema(place, value));
  return {};
}

constexpr std::array kFormatFields = {
    composite_field<FormatDraft, parse_format_name>("name", kNameSchema, "").needed(),
    text_field<&FormatDraft::description>("description", 0, &Limits::schema_bytes_max, ""),
    composite_field<FormatDraft, parse_format_schema>("schema", R"({"type":"object"})",
                                                      "The reply is one JSON value by it.")
        .needed(),
    boolean_field<&FormatDraft::strict>("strict", "true",
                                        "The reply is held to the schema in any case."),
};

}  // namespace

ApiStatus check_json_size(const FieldPlace& place, std::size_t bytes, std::size_t most) {
  if (bytes <= most) return {};
  return wrong_value(place.param,
                     fmt::format("got {} bytes as JSON, expected at most {}", bytes, most));
}

ApiStatus parse_tools(const FieldPlace& place, const JsonValue& value, Nesting nesting,
                      Tools& tools) {
  TRY(read_list(place, value, "tools", 0, place.limits->tools_max,
                [&](const FieldPlace& at, const JsonValue& item) {
                  return parse_tool(at, item, nesting, tools);
                }));
  if (!tools.specs.empty()) tools.choice = ToolChoice::automatic;
  return {};
}

ApiStatus parse_tool_choice(const FieldPlace& place, const JsonValue& value, Nesting nesting,
                            Tools& tools) {
  constexpr std::string_view kExpected = "\"none\", \"auto\", \"required\" or a function";
  if (value.is_object()) {
    if (!tools.specs.empty()) return choose_named(place, value, nesting, tools);
    return wrong_value(place.param, "got a function, but there are no tools");
  }
  if (!value.is_string()) return wrong_type(place.param, kExpected, value);
  const std::string_view word = text_of(value);
  if (word == "none") {
    tools.specs.clear();
    tools.choice = ToolChoice::none;
  } else if (word == "required") {
    if (tools.specs.empty()) {
      return wrong_value(place.param, "got \"required\", but there are no tools");
    }
    tools.choice = ToolChoice::required;
  } else if (word != "auto") {
    return wrong_value(place.param,
                       fmt::format("got \"{}\", expected {}", clipped(word), kExpected));
  }
  return {};
}

ApiResult<JsonObject> parse_reply_schema(const FieldPlace& place, const JsonValue& value) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  TRY(check_json_size(place, to_json(value).size(), place.limits->schema_bytes_max));
  return value.get_object();
}

ApiResult<std::optional<JsonObject>> parse_reply_format(const FieldPlace& place,
                                                        const JsonValue& value, Nesting nesting) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  FieldReader reader(value.get_object(), place.param + ".");
  const JsonValue* type = reader.find("type");
  if (!type) return missing(reader.path("type"));
  if (!type->is_string()) return wrong_type(reader.path("type"), "a string", *type);
  const std::string_view word = text_of(*type);
  if (word == "text") return std::nullopt;
  if (word == "json_object") {
    // llama-server's clients give the schema here.
    if (const JsonValue* schema = reader.find("schema")) {
      return parse_reply_schema(place.member("schema"), *schema);
    }
    return JsonObject{{"type", "object"}};
  }
  if (word != "json_schema") {
    return wrong_value(
        reader.path("type"),
        fmt::format("got \"{}\", expected text, json_object or json_schema", clipped(word)));
  }
  FormatDraft draft;
  if (nesting == Nesting::flat) {
    TRY(read_fields(reader, kFormatFields, *place.limits, *place.unknown, draft));
    add_unknown(reader, *place.unknown);
    return std::move(draft.schema);
  }
  const JsonValue* nested = reader.find("json_schema");
  if (!nested) return missing(reader.path("json_schema"));
  TRY(read_object<FormatDraft>(place.member("json_schema"), *nested, kFormatFields, draft));
  return std::move(draft.schema);
}

JsonObject tool_schema(const Limits& limits, Nesting nesting) {
  JsonObject function = table_schema(kFunctionFields, limits);
  const JsonObject type{{"const", "function"}};
  if (nesting == Nesting::flat) {
    function["properties"].get_object()["type"] = type;
    function["required"].get_array().emplace_back("type");
    return function;
  }
  return {{"type", "object"},
          {"required", JsonArray{"type", "function"}},
          {"properties", JsonObject{{"type", type}, {"function", std::move(function)}}}};
}

JsonObject tools_schema(const Limits& limits, Nesting nesting) {
  return {
      {"type", "array"}, {"maxItems", limits.tools_max}, {"items", tool_schema(limits, nesting)}};
}

JsonObject tool_choice_schema(Nesting nesting) {
  const JsonValue name = own_json(kNameSchema);
  const JsonObject holder{{"type", "object"},
                          {"required", JsonArray{"name"}},
                          {"properties", JsonObject{{"name", name}}}};
  const bool is_flat = nesting == Nesting::flat;
  const JsonObject named{{"type", "object"},
                         {"required", JsonArray{"type", is_flat ? "name" : "function"}},
                         {"properties", JsonObject{{"type", JsonObject{{"const", "function"}}},
                                                   {is_flat ? "name" : "function",
                                                    is_flat ? name : JsonValue(holder)}}}};
  return {{"anyOf", JsonArray{JsonObject{{"enum", JsonArray{"none", "auto", "required"}}}, named}}};
}

JsonObject reply_format_schema(const Limits& limits, Nesting nesting) {
  JsonObject format = table_schema(kFormatFields, limits);
  const JsonObject type{{"const", "json_schema"}};
  if (nesting == Nesting::flat) {
    format["properties"].get_object()["type"] = type;
    format["required"].get_array().emplace_back("type");
  } else {
    format = {{"type", "object"},
              {"required", JsonArray{"type", "json_schema"}},
              {"properties", JsonObject{{"type", type}, {"json_schema", std::move(format)}}}};
  }
  JsonValue forms = own_json(R"({"anyOf":[
    {"type":"object","required":["type"],"properties":{"type":{"const":"text"}}},
    {"type":"object","required":["type"],
     "properties":{"type":{"const":"json_object"},"schema":{"type":["object","null"]}}}]})");
  forms.at("anyOf").as_array().push_back(std::move(format));
  return std::move(forms.as_object());
}

}  // namespace reprise
