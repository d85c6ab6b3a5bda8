// Checks of counts, alone and with what stands beside them.
#include "text/schema_counts.h"

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "text/schema_walk.h"

namespace reprise {
namespace {

constexpr std::uint64_t kCountMax = 100'000;  // of items, properties, characters
// A pattern is a machine of so many states, and the count of minLength multiplies them.
constexpr std::uint64_t kPatternWorkMax = 20'000;

std::string_view counted_type(std::string_view least) {
  if (least == "minItems") return "array";
  return least == "minLength" ? "string" : "object";
}

}  // namespace

Result<std::uint64_t> read_count(std::string_view key, const JsonValue& value) {
  std::optional<std::uint64_t> count;
  if (value.is_uint64()) count = value.get_uint64();
  if (value.is_int64() && value.get_int64() >= 0)
    count = static_cast<std::uint64_t>(value.get_int64());
  // 3.0 is an integer in JSON schemas.
  if (value.is_double() && value.get_double() >= 0 && value.get_double() <= 1e15 &&
      value.get_double() == static_cast<double>(static_cast<std::uint64_t>(value.get_double())))
    count = static_cast<std::uint64_t>(value.get_double());
  if (!count)
    return fail(Errc::invalid_argument, fmt::format("{} must be an integer of at least 0", key));
  if (*count <= kCountMax) return *count;
  return fail(Errc::exhausted, fmt::format("{} {}, expected at most {}", key, *count, kCountMax));
}

Status check_range(const JsonObject& schema, std::string_view least, std::string_view most,
                   bool only_of_type) {
  const JsonValue* type = schema.if_contains("type");
  if (only_of_type && (type == nullptr || *type != JsonValue(counted_type(least)))) return {};
  const std::uint64_t from = count_of(schema, least, 0), to = count_of(schema, most, from);
  if (from <= to) return {};
  return fail(Errc::invalid_argument,
              fmt::format("{} {} is more than {} {}", least, from, most, to));
}

Status check_length_of_pattern(const JsonObject& schema) {
  const JsonValue* pattern = schema.if_contains("pattern");
  if (pattern == nullptr || !pattern->is_string()) return {};
  const std::uint64_t length = count_of(schema, "minLength", 0);
  const std::size_t bytes = pattern->get_string().size();
  if (length * bytes <= kPatternWorkMax) return {};
  return fail(Errc::exhausted, fmt::format("a pattern of {} bytes with minLength {}, expected a "
                                           "product of at most {}",
                                           bytes, length, kPatternWorkMax));
}

// llguidance cannot keep a name that is not in `properties` from coming twice: one more than the
// required ones is certain, two may be the same.
Status check_least_properties(const JsonObject& schema) {
  const std::uint64_t least = count_of(schema, "minProperties", 0);
  const JsonValue* others = schema.if_contains("additionalProperties");
  if (others != nullptr && is_false(*others) && !schema.contains("patternProperties")) return {};
  const std::size_t required = required_names(schema).size();
  if (least <= required + 1) return {};
  return fail(Errc::unsupported, fmt::format("minProperties {} with {} required properties and "
                                             "others that may have any name is not supported",
                                             least, required));
}

bool counts_properties(const JsonObject& schema) {
  const std::set<std::string_view> required = required_names(schema);
  const JsonValue* listed = schema.if_contains("properties");
  const bool has_optional =
      listed != nullptr && std::ranges::any_of(listed->get_object(), [&](const auto& field) {
        return !required.contains(field.key());
      });
  const std::uint64_t least = count_of(schema, "minProperties", 0);
  const bool has_most = schema.contains("maxProperties");
  if (!has_optional || (least <= required.size() && !has_most)) return true;
  const JsonValue* others = schema.if_contains("additionalProperties");
  const bool is_closed = others != nullptr && is_false(*others);
  const bool is_one = !has_most || count_of(schema, "maxProperties", 0) == required.size() + 1;
  return is_closed && is_one && least <= required.size() + 1 &&
         !schema.contains("patternProperties");
}

std::set<std::string_view> required_names(const JsonObject& schema) {
  std::set<std::string_view> required;
  if (const JsonValue* names = schema.if_contains("required")) {
    for (const JsonValue& name : names->get_array()) required.insert(name.get_string());
  }
  return required;
}

}  // namespace reprise
