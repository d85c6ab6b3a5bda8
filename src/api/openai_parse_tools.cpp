// Tools, the choice among them, and the schemas that hold a reply.
#include <algorithm>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

constexpr std::size_t kNameMax = 64;

// ---- one function

struct ToolDraft {
  ToolSpec spec{.name = {}, .parameters = {}, .is_strict = false};
  std::string description;
};

ApiStatus parse_name(const FieldPlace& place, const JsonValue& value, ToolDraft& draft) {
  if (!value.is_string()) return wrong_type(place.param, "a string", value);
  TRY(check_name(place, text_of(value), kNameMax));
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

ApiStatus expect_function(const FieldPlace& place, FieldReader& reader) {
  TRY_ASSIGN(const std::string type, read_tool_type(place, reader));
  if (type == "function") return {};
  return unsupported(reader.path("type"),
                     fmt::format("got \"{}\", expected \"function\"", clipped(type)));
}

ApiStatus parse_tool(const FieldPlace& place, const JsonValue& value, Tools& tools) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  FieldReader reader(value.get_object(), place.param + ".");
  TRY(expect_function(place, reader));
  const JsonValue* object = reader.find("function");
  if (!object) return missing(reader.path("function"));
  add_unknown(reader, *place.unknown);
  const FieldPlace inner = place.member("function");
  TRY_ASSIGN(FunctionTool function, read_function(inner, *object));
  return add_function(inner, std::move(function), tools);
}

// ---- the choice

// {"type": "function", "function": {"name"}}
ApiStatus choose_named(const FieldPlace& place, const JsonValue& value, Tools& tools) {
  FieldReader outer(value.get_object(), place.param + ".");
  TRY(expect_function(place, outer));
  const FieldPlace at = place.member("function");
  const JsonValue* holder = outer.find("function");
  if (!holder) return missing(at.param);
  if (!holder->is_object()) return wrong_type(at.param, "an object", *holder);
  FieldReader inner(holder->get_object(), at.param + ".");
  const JsonValue* name = inner.find("name");
  if (!name) return missing(inner.path("name"));
  TRY_ASSIGN(const std::string read,
             read_text(inner.path("name"), *name, 1, place.limits->name_bytes_max));
  if (choose_function(read, tools)) return {};
  return wrong_value(
      inner.path("name"),
      fmt::format("got \"{}\", expected the name of a tool of this request", clipped(read)));
}

// ---- schemas of replies

struct FormatDraft {
  std::string name, description;
  std::optional<JsonObject> schema;
  bool strict = true;  // false changes nothing: a reply that was asked to fit a schema does
};

ApiStatus parse_format_name(const FieldPlace& place, const JsonValue& value, FormatDraft& draft) {
  if (!value.is_string()) return wrong_type(place.param, "a string", value);
  TRY(check_name(place, text_of(value), kNameMax));
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

ApiStatus check_name(const FieldPlace& place, std::string_view name, std::size_t bytes_max) {
  const auto is_allowed = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
  };
  if (name.empty() || name.size() > bytes_max) {
    return wrong_value(place.param,
                       fmt::format("got {} bytes, expected 1 to {}", name.size(), bytes_max));
  }
  if (!std::all_of(name.begin(), name.end(), is_allowed)) {
    return wrong_value(
        place.param,
        fmt::format("got \"{}\", expected letters, digits, _ and - only", clipped(name)));
  }
  return {};
}

ApiResult<std::string> read_tool_type(const FieldPlace& place, FieldReader& reader) {
  const JsonValue* type = reader.find("type");
  const std::string param = place.member("type").param;
  if (!type) return missing(param);
  if (!type->is_string()) return wrong_type(param, "a string", *type);
  return std::string(text_of(*type));
}

ApiResult<FunctionTool> read_function(const FieldPlace& place, const JsonValue& object) {
  ToolDraft draft;
  TRY(read_object<ToolDraft>(place, object, kFunctionFields, draft));
  TRY(check_json_size(place, to_json(object).size(), place.limits->tool_bytes_max));
  return FunctionTool{std::move(draft.spec), object.get_object()};
}

ApiStatus add_function(const FieldPlace& place, FunctionTool function, Tools& tools) {
  const bool is_there =
      std::ranges::find(tools.specs, function.spec.name, &ToolSpec::name) != tools.specs.end();
  if (is_there) {
    return wrong_value(
        place.member("name").param,
        fmt::format("got \"{}\" twice, expected each name once", function.spec.name));
  }
  tools.specs.push_back(std::move(function.spec));
  tools.places.push_back(place.param);
  tools.definitions.push_back(
      JsonObject{{"type", "function"}, {"function", std::move(function.definition)}});
  tools.choice = ToolChoice::automatic;
  return {};
}

ApiStatus parse_tools(const FieldPlace& place, const JsonValue& value, Tools& tools) {
  return read_list(
      place, value, "tools", 0, place.limits->tools_max,
      [&](const FieldPlace& at, const JsonValue& item) { return parse_tool(at, item, tools); });
}

bool choose_function(std::string_view name, Tools& tools) {
  const auto spec = std::ranges::find(tools.specs, name, &ToolSpec::name);
  if (spec == tools.specs.end()) return false;
  ToolSpec only = std::move(*spec);
  tools.specs.clear();
  tools.specs.push_back(std::move(only));
  tools.choice = ToolChoice::required;
  tools.is_named = true;
  return true;
}

ApiStatus parse_choice_word(const FieldPlace& place, const JsonValue& value, Tools& tools) {
  constexpr std::string_view kExpected = "\"none\", \"auto\", \"required\" or a function";
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

ApiStatus parse_tool_choice(const FieldPlace& place, const JsonValue& value, Tools& tools) {
  if (!value.is_object()) return parse_choice_word(place, value, tools);
  if (!tools.specs.empty()) return choose_named(place, value, tools);
  return wrong_value(place.param, "got a function, but there are no tools");
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

JsonObject function_schema(const Limits& limits) {
  return table_schema(kFunctionFields, limits);
}

JsonObject tools_schema(const Limits& limits) {
  JsonObject tool{{"type", "object"},
                  {"required", JsonArray{"type", "function"}},
                  {"properties", JsonObject{{"type", JsonObject{{"const", "function"}}},
                                            {"function", function_schema(limits)}}}};
  return {{"type", "array"}, {"maxItems", limits.tools_max}, {"items", std::move(tool)}};
}

JsonObject tool_choice_schema_with(JsonObject named) {
  return {{"anyOf", JsonArray{JsonObject{{"enum", JsonArray{"none", "auto", "required"}}},
                              std::move(named)}}};
}

JsonObject tool_choice_schema() {
  const JsonObject holder{{"type", "object"},
                          {"required", JsonArray{"name"}},
                          {"properties", JsonObject{{"name", own_json(kNameSchema)}}}};
  return tool_choice_schema_with(
      {{"type", "object"},
       {"required", JsonArray{"type", "function"}},
       {"properties",
        JsonObject{{"type", JsonObject{{"const", "function"}}}, {"function", holder}}}});
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
