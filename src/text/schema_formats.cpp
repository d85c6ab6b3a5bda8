// Tables of formats.
#include "text/schema_formats.h"

#include <algorithm>
#include <array>
#include <utility>

namespace reprise {
namespace {

constexpr auto kHeld =
    std::to_array<std::string_view>({"date", "date-time", "duration", "email", "hostname", "ipv4",
                                     "ipv6", "time", "unknown", "uri", "uuid"});
constexpr auto kAnnotations = std::to_array<std::string_view>(
    {"base64", "base64url", "binary", "byte", "char", "decimal", "directory-path", "double",
     "file-path", "float", "int64", "password", "path", "uri-reference"});
constexpr auto kSizes = std::to_array<std::pair<std::string_view, IntegerBounds>>({
    {"int8", {-128, 127}},
    {"int16", {-32768, 32767}},
    {"int32", {-2147483648.0, 2147483647.0}},
    {"uint8", {0, 255}},
    {"uint16", {0, 65535}},
    {"uint32", {0, 4294967295.0}},
});

bool is_one_of(std::string_view word, const auto& words) {
  return std::ranges::find(words, word) != words.end();
}

auto size_of(std::string_view format) {
  return std::ranges::find(kSizes, format, &std::pair<std::string_view, IntegerBounds>::first);
}

}  // namespace

bool is_held_format(std::string_view format) {
  return is_one_of(format, kHeld);
}

bool is_annotation_format(std::string_view format) {
  return is_one_of(format, kAnnotations) || size_of(format) != kSizes.end();
}

std::optional<IntegerBounds> bounds_of_format(const JsonObject& schema) {
  const JsonValue* format = schema.if_contains("format");
  const JsonValue* type = schema.if_contains("type");
  if (format == nullptr || !format->is_string() || type == nullptr) return std::nullopt;
  const auto is_number = [](const JsonValue& one) { return one == "integer" || one == "number"; };
  const bool is_of_numbers =
      type->is_array() ? std::ranges::any_of(type->get_array(), is_number) : is_number(*type);
  const auto size = size_of(format->get_string());
  if (!is_of_numbers || size == kSizes.end()) return std::nullopt;
  return size->second;
}

}  // namespace reprise
