// Values of one type and range, and the wording of what is wrong with them.
#include "api/field_reader.h"

#include <algorithm>

#include <fmt/core.h>

namespace reprise {
namespace {

// A number as the client wrote it, or nearly so.
std::string number_text(const JsonValue& value) {
  if (const double* number = value.if_double()) return fmt::format("{}", *number);
  return to_json(value);
}

// "messages[12].tool_calls[3].x" -> "messages[].tool_calls[].x"
std::string without_indices(std::string_view path) {
  std::string out;
  bool inside = false;
  for (const char letter : path) {
    if (letter == ']') inside = false;
    if (!inside) out += letter;
    if (letter == '[') inside = true;
  }
  return out;
}

}  // namespace

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

std::unexpected<ApiError> wrong_value(std::string param, std::string_view what) {
  std::string message = fmt::format("{}: {}", param, what);
  return refuse(400, "invalid_value", std::move(message), std::move(param));
}

std::unexpected<ApiError> missing(std::string param) {
  std::string message = fmt::format("{}: required, but missing or null", param);
  return refuse(400, "missing_required_parameter", std::move(message), std::move(param));
}

std::unexpected<ApiError> unsupported(std::string param, std::string_view what) {
  std::string message = fmt::format("{}: {}", param, what);
  return refuse(400, "unsupported_parameter", std::move(message), std::move(param));
}

ApiStatus check_count(const std::string& param, std::size_t count, std::string_view items,
                      std::size_t least, std::size_t most) {
  if (count < least) {
    return wrong_value(param, fmt::format("got {} {}, expected at least {}", count, items, least));
  }
  if (count > most) {
    return wrong_value(param, fmt::format("got {} {}, expected at most {}", count, items, most));
  }
  return {};
}

bool is_same(const JsonValue& one, const JsonValue& other) {
  if (one.is_number() && other.is_number()) {
    return one.to_number<double>() == other.to_number<double>();
  }
  return one == other;
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

ApiResult<double> read_number(const std::string& param, const JsonValue& value, double low,
                              double high) {
  if (!value.is_number()) return wrong_type(param, "a number", value);
  const double number = value.to_number<double>();
  if (!(number >= low && number <= high)) {
    return wrong_value(param,
                       fmt::format("got {}, expected {} to {}", number_text(value), low, high));
  }
  return number;
}

ApiResult<std::int64_t> read_integer(const std::string& param, const JsonValue& value,
                                     std::int64_t low, std::int64_t high) {
  if (!value.is_number()) return wrong_type(param, "an integer", value);
  const std::optional<std::int64_t> number = integral(value);
  if (number && *number >= low && *number <= high) return *number;
  const bool fractional =
      !number && value.is_double() && value.get_double() > -1e15 && value.get_double() < 1e15;
  if (fractional) {
    return refuse(400, "invalid_type",
                  fmt::format("{}: got {}, expected an integer", param, value.get_double()), param);
  }
  const std::string got = number ? fmt::format("{}", *number) : number_text(value);
  return wrong_value(param, fmt::format("got {}, expected {} to {}", got, low, high));
}

ApiResult<bool> read_boolean(const std::string& param, const JsonValue& value) {
  if (!value.is_bool()) return wrong_type(param, "a boolean", value);
  return value.get_bool();
}

ApiResult<std::string> read_text(const std::string& param, const JsonValue& value,
                                 std::size_t bytes_least, std::size_t bytes_most) {
  if (!value.is_string()) return wrong_type(param, "a string", value);
  const std::string_view text = text_of(value);
  if (text.size() >= bytes_least && text.size() <= bytes_most) return std::string(text);
  if (bytes_least == 0) {
    return wrong_value(param,
                       fmt::format("got {} bytes, expected at most {}", text.size(), bytes_most));
  }
  return wrong_value(
      param, fmt::format("got {} bytes, expected {} to {}", text.size(), bytes_least, bytes_most));
}

std::string_view text_of(const JsonValue& value) {
  return {value.get_string().data(), value.get_string().size()};
}

bool FieldReader::knows(std::string_view name) const {
  return std::find(known_.begin(), known_.end(), name) != known_.end();
}

const JsonValue* FieldReader::find(std::string_view name) {
  if (!knows(name)) known_.push_back(name);
  const JsonValue* value = object_->if_contains(name);
  return value && !value->is_null() ? value : nullptr;
}

std::vector<std::string> FieldReader::unknown(std::size_t most) const {
  std::vector<std::string> names;
  for (const auto& member : *object_) {
    if (names.size() == most) break;
    const std::string_view name(member.key().data(), member.key().size());
    if (knows(name)) continue;
    names.push_back(without_indices(prefix_) + clipped(name));
  }
  return names;
}

void add_unknown(const FieldReader& reader, std::vector<std::string>& unknown) {
  for (std::string& name : reader.unknown(kUnknownMax)) {
    if (unknown.size() == kUnknownMax) return;
    if (std::find(unknown.begin(), unknown.end(), name) == unknown.end()) {
      unknown.push_back(std::move(name));
    }
  }
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
