// Bounds and constants of JSON schemas as llguidance can hold to them.
#include "text/schema_numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "text/schema_formats.h"

namespace reprise {
namespace {

constexpr double kExactMax = 9007199254740992.0;            // 2^53
constexpr double kBoundMax = 9223372036854775808.0 - 8192;  // llguidance has int64
// More than a bound that was an integer loses as a double, and as its shortest digits.
constexpr double kMargin = 4096;
// Instead of the smallest double: its digits become a regular expression.
constexpr double kAboveZero = 1e-30;
// Units in the last place, about 1e-12 of the number: some readers of JSON err by one.
constexpr std::int64_t kAbove = 4096;

double just_above(double number) {
  if (number < kAboveZero && number > -kAboveZero) return kAboveZero;
  const auto bits = std::bit_cast<std::int64_t>(number);
  return std::bit_cast<double>(number > 0 ? bits + kAbove : bits - kAbove);
}

// What a lower bound becomes; an upper one is its mirror image.
Result<double> lower_bound(double bound, bool is_exclusive) {
  if (bound > kBoundMax) return fail(Errc::unsupported, "a bound beyond 64 bits is not supported");
  if (bound < -kBoundMax) return -kBoundMax;
  if (bound > kExactMax || bound < -kExactMax) return std::min(bound + kMargin, kBoundMax);
  return is_exclusive ? just_above(bound) : bound;
}

// The narrowest of a schema's bounds on one side; `sign` -1: the upper ones.
Result<std::optional<double>> narrowest(const JsonObject& schema, std::string_view inclusive,
                                        std::string_view exclusive, double sign) {
  std::optional<double> bound;
  const JsonValue* own = schema.if_contains(inclusive);
  const JsonValue* other = schema.if_contains(exclusive);
  const bool is_flag = other != nullptr && other->is_bool();  // draft 4
  if (own != nullptr) {
    if (!own->is_number())
      return fail(Errc::invalid_argument, fmt::format("{} must be a number", inclusive));
    TRY_ASSIGN(bound, lower_bound(sign * own->to_number<double>(), is_flag && other->get_bool()));
  }
  if (other == nullptr || is_flag) return bound;
  if (!other->is_number())
    return fail(Errc::invalid_argument, fmt::format("{} must be a number", exclusive));
  TRY_ASSIGN(const double second, lower_bound(sign * other->to_number<double>(), true));
  return std::max(second, bound.value_or(second));
}

}  // namespace

Result<JsonObject> inclusive_bounds(const JsonObject& schema) {
  JsonObject bounds;
  TRY_ASSIGN(const auto minimum, narrowest(schema, "minimum", "exclusiveMinimum", 1));
  if (minimum) bounds["minimum"] = *minimum;
  TRY_ASSIGN(const auto maximum, narrowest(schema, "maximum", "exclusiveMaximum", -1));
  if (maximum) bounds["maximum"] = -*maximum;
  if (const auto size = bounds_of_format(schema)) {
    bounds["minimum"] = std::max(minimum.value_or(size->minimum), size->minimum);
    bounds["maximum"] = std::min(maximum ? -*maximum : size->maximum, size->maximum);
  }
  if (bounds.size() < 2) return bounds;
  const double least = bounds["minimum"].get_double(), most = bounds["maximum"].get_double();
  const JsonValue* type = schema.if_contains("type");
  const bool is_integer = type != nullptr && *type == "integer";
  const bool is_number = is_integer || (type != nullptr && *type == "number");
  const bool is_empty = is_integer ? std::ceil(least) > std::floor(most) : least > most;
  if (is_number && is_empty) {
    return fail(Errc::invalid_argument,
                fmt::format("no {} is at least {} and at most {}",
                            is_integer ? "integer" : "number", least, most));
  }
  return bounds;
}

bool has_inexact_number(const JsonValue& constant) {
  if (constant.is_number()) {
    const auto number = constant.to_number<double>();
    return number >= kExactMax || number <= -kExactMax;
  }
  if (const JsonArray* array = constant.if_array())
    return std::ranges::any_of(*array, has_inexact_number);
  const JsonObject* object = constant.if_object();
  return object != nullptr && std::ranges::any_of(*object, [](const auto& field) {
           return has_inexact_number(field.value());
         });
}

std::string canonical_json(const JsonValue& value) {
  if (const double* number = value.if_double()) {
    if (*number <= kExactMax && *number >= -kExactMax) {
      const auto whole = static_cast<std::int64_t>(*number);
      if (static_cast<double>(whole) == *number) return fmt::format("{}", whole);
    }
    return to_json(value);
  }
  if (const JsonArray* array = value.if_array()) {
    std::string text = "[";
    for (const JsonValue& item : *array) text += canonical_json(item) + ",";
    return text + "]";
  }
  const JsonObject* object = value.if_object();
  if (object == nullptr) return to_json(value);
  std::vector<std::string> fields;
  for (const auto& field : *object) {
    std::string text;
    append_json_text(text, field.key());
    fields.push_back(text + ":" + canonical_json(field.value()));
  }
  std::ranges::sort(fields);
  return fmt::format("{{{}}}", fmt::join(fields, ","));
}

}  // namespace reprise
