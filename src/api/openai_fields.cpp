// FieldReader and the wording of its errors.
#include "api/openai_fields.h"

#include <algorithm>

#include <fmt/core.h>

namespace reprise {

std::string_view json_kind_name(const JsonValue& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      return "null";
    case boost::json::kind::bool_:
      return "a boolean";
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
      return "an integer";
    case boost::json::kind::double_:
      return "a number";
    case boost::json::kind::string:
      return "a string";
    case boost::json::kind::array:
      return "a list";
    case boost::json::kind::object:
      return "an object";
  }
  return "something else";
}

std::unexpected<ApiError> wrong_type(std::string param, std::string_view expected,
                                     const JsonValue& got) {
  std::string message =
      fmt::format("{}: got {}, expected {}", param, json_kind_name(got), expected);
  return refuse(400, "invalid_type", std::move(message), std::move(param));
}

std::unexpected<ApiError> missing(std::string param) {
  std::string message = fmt::format("{}: required, but missing or null", param);
  return refuse(400, "missing_required_parameter", std::move(message), std::move(param));
}

std::unexpected<ApiError> unsupported(std::string param, std::string_view what) {
  std::string message = fmt::format("{}: {}", param, what);
  return refuse(400, "unsupported_parameter", std::move(message), std::move(param));
}

std::optional<std::int64_t> integral(const JsonValue& value) {
  if (const std::int64_t* number = value.if_int64()) return *number;
  const double* number = value.if_double();
  constexpr double kExactMax = 9007199254740992.0;  // 2^53
  if (!number || !(*number >= -kExactMax && *number <= kExactMax)) return std::nullopt;
  const std::int64_t truncated = static_cast<std::int64_t>(*number);
  if (static_cast<double>(truncated) != *number) return std::nullopt;
  return truncated;
}

const JsonValue* FieldReader::find(std::string_view name) {
  if (std::find(known_.begin(), known_.end(), name) == known_.end()) known_.push_back(name);
  const JsonValue* value = object_->if_contains(name);
  return value && !value->is_null() ? value : nullptr;
}

ApiResult<std::optional<double>> FieldReader::number(std::string_view name, double low,
                                                     double high) {
  const JsonValue* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) return wrong_type(path(name), "a number", *value);
  const double number = value->to_number<double>();
  if (!(number >= low && number <= high)) {
    return refuse(400, "invalid_value",
                  fmt::format("{}: got {}, expected {} to {}", path(name), number, low, high),
                  path(name));
  }
  return number;
}

ApiResult<std::optional<std::int64_t>> FieldReader::integer(std::string_view name, std::int64_t low,
                                                            std::int64_t high) {
  const JsonValue* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) return wrong_type(path(name), "an integer", *value);
  const std::optional<std::int64_t> number = integral(*value);
  if (number && *number >= low && *number <= high) return *number;
  const bool fractional =
      !number && value->is_double() && value->get_double() > -1e15 && value->get_double() < 1e15;
  if (fractional) {
    return refuse(400, "invalid_type",
                  fmt::format("{}: got {}, expected an integer", path(name), value->get_double()),
                  path(name));
  }
  const std::string got = number ? fmt::format("{}", *number) : to_json(*value);
  return refuse(400, "invalid_value",
                fmt::format("{}: got {}, expected {} to {}", path(name), got, low, high),
                path(name));
}

ApiResult<std::optional<bool>> FieldReader::boolean(std::string_view name) {
  const JsonValue* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_bool()) return wrong_type(path(name), "a boolean", *value);
  return value->get_bool();
}

ApiResult<std::optional<std::string>> FieldReader::text(std::string_view name,
                                                        std::size_t bytes_max) {
  const JsonValue* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) return wrong_type(path(name), "a string", *value);
  const boost::json::string& text = value->get_string();
  if (text.size() > bytes_max) {
    return refuse(
        400, "invalid_value",
        fmt::format("{}: got {} bytes, expected at most {}", path(name), text.size(), bytes_max),
        path(name));
  }
  return std::string(text.data(), text.size());
}

std::vector<std::string> FieldReader::unknown() const {
  std::vector<std::string> names;
  for (const auto& member : *object_) {
    const std::string_view name(member.key().data(), member.key().size());
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) names.push_back(path(name));
  }
  return names;
}

ApiResult<JsonObject> parse_request_object(std::string_view body, const Limits& limits) {
  Result<JsonValue> value = parse_json(body, {limits.json_depth_max, limits.body_bytes_max});
  if (!value) return refuse(400, "invalid_json", "request body: " + value.error().message);
  JsonObject* object = value->if_object();
  if (!object) {
    return refuse(400, "invalid_type",
                  fmt::format("request body: got {}, expected an object", json_kind_name(*value)));
  }
  return std::move(*object);
}

}  // namespace reprise
