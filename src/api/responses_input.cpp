// Items of a request.
#include "api/responses_input.h"

#include <array>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

using Kind = ResponseItem::Kind;

constexpr std::array kUserParts = {TextPart{"input_text", "text"}};
constexpr std::array kAssistantParts = {TextPart{"output_text", "text"},
                                        TextPart{"refusal", "refusal"}};
constexpr std::array kThoughtParts = {TextPart{"reasoning_text", "text"}};
constexpr std::array kSummaryParts = {TextPart{"summary_text", "text"}};

using Parts = std::span<const TextPart>;

ApiStatus parse_parts(const FieldPlace& place, const JsonValue& value, Parts kinds,
                      ResponseItem& item, std::vector<std::string>& texts) {
  return read_list(place, value, "parts", 0, place.limits->content_parts_max,
                   [&](const FieldPlace& at, const JsonValue& each) -> ApiStatus {
                     TRY_ASSIGN(ReadPart part, parse_part(at, each, kinds));
                     if (part.kind > 0) item.refusals.push_back(texts.size());
                     texts.push_back(std::move(part.text));
                     return {};
                   });
}

// A string or a list of parts.
ApiStatus parse_content(const FieldPlace& place, const JsonValue& value, Parts kinds,
                        ResponseItem& item) {
  if (value.is_array()) return parse_parts(place, value, kinds, item, item.texts);
  if (!value.is_string()) return wrong_type(place.param, "a string or a list of parts", value);
  item.is_plain = true;
  item.texts.emplace_back(text_of(value));
  return {};
}

ApiStatus parse_output(const FieldPlace& place, const JsonValue& value, ResponseItem& item) {
  return parse_content(place, value, kUserParts, item);
}

ApiStatus parse_thoughts(const FieldPlace& place, const JsonValue& value, ResponseItem& item) {
  return parse_parts(place, value, kThoughtParts, item, item.texts);
}

ApiStatus parse_summary(const FieldPlace& place, const JsonValue& value, ResponseItem& item) {
  return parse_parts(place, value, kSummaryParts, item, item.summary);
}

// Empty means that the item has none, as the client's own models write it.
ApiStatus parse_id(const FieldPlace& place, const JsonValue& value, ResponseItem& item) {
  TRY_ASSIGN(item.id, read_text(place.param, value, 0, place.limits->name_bytes_max));
  return {};
}

constexpr std::array<std::string_view, 4> kRoles = {"user", "assistant", "system", "developer"};
// Of a list of such parts.
JsonObject parts_schema(Parts kinds, std::size_t least) {
  JsonArray forms;
  for (const TextPart& kind : kinds) {
    forms.push_back(
        JsonObject{{"type", "object"},
                   {"required", JsonArray{"type", kind.member}},
                   {"properties", JsonObject{{"type", JsonObject{{"const", kind.type}}},
                                             {kind.member, JsonObject{{"type", "string"}}}}}});
  }
  JsonObject schema{{"type", "array"}, {"items", JsonObject{{"anyOf", std::move(forms)}}}};
  if (least > 0) schema["minItems"] = least;
  return schema;
}

JsonObject content_schema(Parts kinds, std::size_t least) {
  return {{"anyOf", JsonArray{JsonObject{{"type", "string"}}, parts_schema(kinds, least)}}};
}

JsonObject output_schema(const Limits&) {
  return content_schema(kUserParts, 0);
}

JsonObject thoughts_schema(const Limits&) {
  return parts_schema(kThoughtParts, 0);
}

JsonObject summary_schema(const Limits&) {
  return parts_schema(kSummaryParts, 0);
}

JsonObject id_schema(const Limits& limits) {
  return {{"type", "string"}, {"maxLength", limits.name_bytes_max}};
}

constexpr std::string_view kNoEffect = "Accepted, without effect.";

using Item = ResponseItem;
constexpr Field<Item> kId =
    composite_field<Item, parse_id>("id", id_schema, "The item's own; made when absent.");
constexpr Field<Item> kType = ignored_field<Item>("type", "Which kind of item it is.");
constexpr Field<Item> kStatus = ignored_field<Item>("status", kNoEffect);

// Without the content, whose form depends on the role.
constexpr std::array kMessageFields = {
    word_field<&Item::role>("role", kRoles, "", "Who speaks.").needed(),
    kId,
    kType,
    kStatus,
    ignored_field<Item>("phase", kNoEffect),
};

constexpr std::array kCallFields = {
    text_field<&Item::call_id>("call_id", 1, &Limits::name_bytes_max, "The call's id.").needed(),
    text_field<&Item::name>("name", 1, &Limits::name_bytes_max, "The function.").needed(),
    text_field<&Item::name_space>("namespace", 0, &Limits::name_bytes_max, "The function's."),
    text_field<&Item::arguments>("arguments", 0, kIntegerMax, "A JSON object, as text.").needed(),
    kId,
    kType,
    kStatus,
};

constexpr std::array kOutputFields = {
    text_field<&Item::call_id>("call_id", 1, &Limits::name_bytes_max, "The call that it answers.")
        .needed(),
    composite_field<Item, parse_output>("output", output_schema, "What the function returned.")
        .needed(),
    kId,
    kType,
    kStatus,
};

constexpr std::array kReasoningFields = {
    composite_field<Item, parse_thoughts>("content", thoughts_schema, "What the model thought."),
    composite_field<Item, parse_summary>("summary", summary_schema, "Not shown to the model."),
    ignored_field<Item>("encrypted_content", "Of other servers; we cannot read it."),
    kId,
    kType,
    kStatus,
};

constexpr std::array kReferenceFields = {
    text_field<&Item::id>("id", 1, &Limits::name_bytes_max, "An item of a kept reply.").needed(),
    kType,
};

ApiStatus parse_message(const FieldPlace& place, const JsonValue& value, ResponseItem& item) {
  FieldReader reader(value.get_object(), place.param + ".");
  TRY(read_fields<Item>(reader, kMessageFields, *place.limits, *place.unknown, item));
  const JsonValue* content = reader.find("content");
  if (!content) return missing(reader.path("content"));
  const bool is_assistant = item.role == "assistant";
  const FieldPlace at = place.member("content");
  TRY(parse_content(at, *content, is_assistant ? Parts(kAssistantParts) : kUserParts, item));
  if (item.texts.empty() && !is_assistant) {
    return wrong_value(at.param, "got 0 parts, expected at least 1");
  }
  add_unknown(reader, *place.unknown);
  return {};
}

// What an item without a type is: clients leave it out of messages and references.
ApiResult<std::string> item_type(const FieldPlace& place, const JsonObject& object) {
  const JsonValue* type = object.if_contains("type");
  if (type && type->is_string()) return std::string(text_of(*type));
  if (type && !type->is_null()) return wrong_type(place.param + ".type", "a string", *type);
  const JsonValue* role = object.if_contains("role");
  const bool is_reference = (!role || role->is_null()) && object.contains("id");
  return is_reference ? "item_reference" : "message";
}

ApiStatus parse_item(const FieldPlace& place, const JsonValue& value,
                     std::vector<ResponseItem>& items) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  TRY_ASSIGN(const std::string type, item_type(place, value.get_object()));
  ResponseItem item;
  if (type == "message") {
    TRY(parse_message(place, value, item));
  } else if (type == "function_call") {
    item.kind = Kind::function_call;
    TRY(read_object<Item>(place, value, kCallFields, item));
  } else if (type == "function_call_output") {
    item.kind = Kind::function_call_output;
    TRY(read_object<Item>(place, value, kOutputFields, item));
  } else if (type == "reasoning") {
    item.kind = Kind::reasoning;
    TRY(read_object<Item>(place, value, kReasoningFields, item));
  } else if (type == "item_reference") {
    item.kind = Kind::reference;
    TRY(read_object<Item>(place, value, kReferenceFields, item));
  } else {
    return unsupported(place.param + ".type",
                       fmt::format("got \"{}\", expected message, function_call, "
                                   "function_call_output, reasoning or item_reference",
                                   clipped(type)));
  }
  items.push_back(std::move(item));
  return {};
}

}  // namespace

ApiStatus parse_response_input(const FieldPlace& place, const JsonValue& value,
                               std::vector<ResponseItem>& items) {
  if (value.is_string()) {
    ResponseItem item;
    item.role = "user";
    item.texts.emplace_back(text_of(value));
    items.push_back(std::move(item));
    return {};
  }
  if (!value.is_array()) return wrong_type(place.param, "a string or a list of items", value);
  return read_list(
      place, value, "items", 1, place.limits->messages_max,
      [&](const FieldPlace& at, const JsonValue& each) { return parse_item(at, each, items); });
}

JsonObject response_input_schema(const Limits& limits) {
  const auto of_type = [](const char* type, JsonObject schema) {
    schema["properties"].as_object()["type"] = JsonObject{{"const", type}};
    JsonValue& required = schema["required"];
    if (!required.is_array()) required = JsonArray();
    required.as_array().emplace_back("type");
    return schema;
  };
  const auto message_of = [&](JsonArray roles, JsonObject content) {
    JsonObject schema = table_schema(kMessageFields, limits);
    JsonObject& properties = schema["properties"].as_object();
    properties["type"] = JsonObject{{"enum", JsonArray{"message", nullptr}}};
    properties["role"] = JsonObject{{"enum", std::move(roles)}};
    properties["content"] = std::move(content);
    schema["required"] = JsonArray{"role", "content"};
    return schema;
  };
  // Without a type it is told from a message by having no role.
  JsonObject reference = table_schema(kReferenceFields, limits);
  for (const char* absent : {"type", "role"}) {
    reference["properties"].as_object()[absent] = JsonObject{{"const", nullptr}};
  }
  JsonArray kinds{message_of({"user", "system", "developer"}, content_schema(kUserParts, 1)),
                  message_of({"assistant"}, content_schema(kAssistantParts, 0)),
                  of_type("function_call", table_schema(kCallFields, limits)),
                  of_type("function_call_output", table_schema(kOutputFields, limits)),
                  of_type("reasoning", table_schema(kReasoningFields, limits)),
                  of_type("item_reference", table_schema(kReferenceFields, limits)),
                  std::move(reference)};
  JsonObject list{{"type", "array"},
                  {"minItems", 1},
                  {"maxItems", limits.messages_max},
                  {"items", JsonObject{{"anyOf", std::move(kinds)}}}};
  return {{"anyOf", JsonArray{JsonObject{{"type", "string"}}, std::move(list)}}};
}

}  // namespace reprise
