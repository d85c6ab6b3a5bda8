// What several requests write alike: parts of a content, how much is thought, how long a reply is.
#include <algorithm>

#include <fmt/core.h>

#include "api/openai_fields.h"

namespace reprise {
namespace {

// ---- thoughts

struct ReasoningDraft {
  std::string effort;
  std::string summary;
};

constexpr std::array<std::string_view, 3> kSummaries = {"auto", "concise", "detailed"};

// Of other servers: thoughts that are made, but not shown.
ApiStatus check_excluded(const FieldPlace& place, const JsonValue& value, ReasoningDraft&) {
  TRY_ASSIGN(const bool is_wanted, read_boolean(place.param, value));
  if (!is_wanted) return {};
  return unsupported(place.param, "got true, expected false: thoughts are always shown");
}

ApiStatus refuse_other(const FieldPlace& place, const JsonValue&, ReasoningDraft&) {
  return unsupported(place.param, "not supported, expected effort or no such field");
}

constexpr std::array kReasoningFields = {
    word_field<&ReasoningDraft::effort>("effort", kReasoningEfforts, "",
                                        "What the template makes of it."),
    word_field<&ReasoningDraft::summary>(
        "summary", kSummaries, "",
        "Accepted: the thoughts themselves are shown, no summary is made.")
        .also("generate_summary"),
    composite_field<ReasoningDraft, check_excluded>("exclude", R"({"const":false})",
                                                    "Thoughts are always shown."),
};

// Not in /openapi.json.
constexpr std::array kRefusedFields = {
    composite_field<ReasoningDraft, refuse_other>("max_tokens", "{}", ""),
    composite_field<ReasoningDraft, refuse_other>("enabled", "{}", ""),
};

}  // namespace

ApiResult<std::string> parse_reasoning_effort(const FieldPlace& place, const JsonValue& value) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  FieldReader reader(value.get_object(), place.param + ".");
  ReasoningDraft draft;
  TRY(read_fields(reader, kReasoningFields, *place.limits, *place.unknown, draft));
  TRY(read_fields(reader, kRefusedFields, *place.limits, *place.unknown, draft));
  add_unknown(reader, *place.unknown);
  return std::move(draft.effort);
}

JsonObject reasoning_schema(const Limits& limits) {
  return table_schema(kReasoningFields, limits);
}

// ---- lengths

ApiResult<std::optional<Position>> read_length(const FieldPlace& place, const JsonValue& value) {
  TRY_ASSIGN(const std::int64_t count, read_integer(place.param, value, -1, kIntegerMax));
  if (count == 0) {
    return wrong_value(place.param, fmt::format("got 0, expected -1 or 1 to {}", kIntegerMax));
  }
  if (count == -1) return std::nullopt;
  return static_cast<Position>(count);
}

// ---- content

ApiResult<ReadPart> parse_part(const FieldPlace& place, const JsonValue& value,
                               std::span<const TextPart> kinds) {
  if (!value.is_object()) return wrong_type(place.param, "an object", value);
  FieldReader reader(value.get_object(), place.param + ".");
  const JsonValue* type = reader.find("type");
  if (!type) return missing(reader.path("type"));
  if (!type->is_string()) return wrong_type(reader.path("type"), "a string", *type);
  const auto kind = std::ranges::find(kinds, text_of(*type), &TextPart::type);
  if (kind == kinds.end()) {
    return unsupported(reader.path("type"), fmt::format("got \"{}\", expected \"{}\"",
                                                        clipped(text_of(*type)), kinds[0].type));
  }
  const JsonValue* text = reader.find(kind->member);
  if (!text) return missing(reader.path(kind->member));
  for (const char* shown : {"annotations", "logprobs", "prompt_cache_breakpoint"}) {
    reader.find(shown);  // of our own replies; say nothing to the model
  }
  add_unknown(reader, *place.unknown);
  TRY_ASSIGN(std::string read,
             read_text(reader.path(kind->member), *text, 0, place.limits->body_bytes_max));
  return ReadPart{static_cast<std::size_t>(kind - kinds.begin()), std::move(read)};
}

ApiResult<std::string> parse_text_content(const FieldPlace& place, const JsonValue& value,
                                          std::span<const TextPart> kinds, std::size_t least) {
  if (value.is_string()) return std::string(text_of(value));
  if (!value.is_array()) return wrong_type(place.param, "a string or a list of parts", value);
  std::string content;
  bool is_first = true;
  const auto add = [&](const FieldPlace& at, const JsonValue& item) -> ApiStatus {
    TRY_ASSIGN(const ReadPart part, parse_part(at, item, kinds));
    if (!std::exchange(is_first, false)) content += '\n';
    content += part.text;
    return {};
  };
  TRY(read_list(place, value, "parts", least, place.limits->content_parts_max, add));
  return content;
}

}  // namespace reprise
