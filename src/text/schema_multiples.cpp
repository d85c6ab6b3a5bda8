// Least common multiples as llguidance computes them, and where it does.
#include "text/schema_multiples.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "text/json_schema.h"

namespace reprise {
namespace {

// A multiple becomes a machine with a state per remainder, and a step may look at all of them.
constexpr std::uint64_t kCoefficientMax = 10'000;
constexpr std::uint64_t kCoefficientsMax = 20'000;  // of all of a schema's
constexpr std::uint32_t kScaleMax = 8;  // 10 * coefficient + 9 * 10^scale must fit in 32 bits
constexpr std::uint64_t kWordMax = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kMaskBits = 64;  // as many may be joined

std::uint64_t power_of_ten(std::uint32_t exponent) {
  std::uint64_t power = 1;
  for (std::uint32_t i = 0; i < exponent; i++) power *= 10;
  return power;
}

// The decimal digits of a number: 0.25 is 25 / 10^2. Nothing: it has too many.
std::optional<Multiple> decimal_of(double number) {
  char digits[32];
  const auto [end, trouble] =
      std::to_chars(std::begin(digits), std::end(digits), number, std::chars_format::scientific);
  if (trouble != std::errc{}) return std::nullopt;
  const std::string_view shortest(digits, end);
  const std::size_t mark = shortest.find('e');
  std::uint64_t coefficient = 0;
  int scale = 0;
  bool is_fraction = false;
  for (const char letter : shortest.substr(0, mark)) {
    if (letter == '.') {
      is_fraction = true;
      continue;
    }
    coefficient = coefficient * 10 + static_cast<std::uint64_t>(letter - '0');
    scale += is_fraction ? 1 : 0;
  }
  std::string_view exponent_text = shortest.substr(mark + 1);
  if (exponent_text.starts_with('+')) exponent_text.remove_prefix(1);
  int exponent = 0;
  std::from_chars(exponent_text.begin(), exponent_text.end(), exponent);
  scale -= exponent;
  for (; scale < 0 && coefficient <= kCoefficientMax; scale++) coefficient *= 10;
  if (scale < 0 || scale > static_cast<int>(kScaleMax)) return std::nullopt;
  return Multiple{coefficient, static_cast<std::uint32_t>(scale)};
}

// How llguidance finds the digits, which goes wrong for some (0.07 * 100 is 7.000000000000001).
bool is_read_exactly(double number, const Multiple& multiple) {
  double value = number;
  for (std::uint32_t i = 0; i < multiple.scale; i++) {
    if (value == std::floor(value)) return false;
    value *= 10;
  }
  return value == static_cast<double>(multiple.coefficient);
}

}  // namespace

Result<Multiple> read_multiple(const JsonValue& value) {
  if (!value.is_number() || value.to_number<double>() <= 0)
    return fail(Errc::invalid_argument, "multipleOf must be a number above 0");
  const auto number = value.to_number<double>();
  const std::optional<Multiple> multiple = decimal_of(number);
  if (!multiple || multiple->coefficient > kCoefficientMax) {
    return fail(Errc::exhausted,
                fmt::format("multipleOf {}, expected at most {} without its point, and at most "
                            "{} decimals",
                            number, kCoefficientMax, kScaleMax));
  }
  if (!is_read_exactly(number, *multiple)) {
    return fail(
        Errc::unsupported,
        fmt::format("multipleOf {}, which is not followed exactly, is not supported", number));
  }
  return *multiple;
}

void JoinedMultiples::add(const JsonObject& schema, Multiple multiple) {
  auto found = std::ranges::find(multiples_, multiple);
  if (found == multiples_.end()) found = multiples_.insert(found, multiple);
  const auto bit = std::min(static_cast<std::size_t>(found - multiples_.begin()), kMaskBits - 1);
  reach_[&schema] |= Mask{1} << bit;
}

bool JoinedMultiples::can_join(Mask mask, bool is_pair) const {
  if (mask == 0) return true;
  std::uint32_t scale = 0;
  for (std::size_t i = 0; i < multiples_.size(); i++) {
    if ((mask >> i & 1) != 0) scale = std::max(scale, multiples_[i].scale);
  }
  std::uint64_t common = 1, product = 1;
  for (std::size_t i = 0; i < multiples_.size(); i++) {
    if ((mask >> i & 1) == 0) continue;
    const std::uint64_t own = multiples_[i].coefficient * power_of_ten(scale - multiples_[i].scale);
    if (own > kWordMax || common > kWordMax) return false;
    product = common * own;
    common = product / std::gcd(common, own);
  }
  if (common > kWordMax) return false;
  // What llguidance multiplies before it divides: in a pair these two, else at most that.
  const bool fits =
      is_pair && std::popcount(mask) == 2 ? product <= kWordMax : common * common <= kWordMax;
  std::uint64_t coefficient = common;
  for (; scale > 0 && coefficient % 10 == 0; scale--) coefficient /= 10;
  return fits && coefficient <= kCoefficientMax;
}

JoinedMultiples::Mask JoinedMultiples::reach_of(const JsonValue& schema) const {
  const JsonObject* object = schema.if_object();
  if (object == nullptr) return 0;
  const auto found = reach_.find(object);
  return found == reach_.end() ? 0 : found->second;
}

// Of a schema, a list of schemas, or a map to them.
JoinedMultiples::Mask JoinedMultiples::reach_of_all(const JsonValue* schemas) const {
  Mask mask = 0;
  if (schemas == nullptr) return mask;
  if (const JsonArray* list = schemas->if_array()) {
    for (const JsonValue& one : *list) mask |= reach_of(one);
  } else if (const JsonObject* map = schemas->if_object()) {
    for (const auto& field : *map) mask |= reach_of(field.value());
  }
  return mask;
}

// What may apply to one value, each with the multiples that it leads to. The first is the own
// multiple, if there is one.
std::vector<JoinedMultiples::Mask> JoinedMultiples::contributions(const JsonObject& schema) const {
  const auto at = [&schema](std::string_view key) { return schema.if_contains(key); };
  Mask own = reach_of_all(at("properties")) | reach_of_all(at("prefixItems"));
  for (const std::string_view key : {"items", "additionalItems", "additionalProperties"}) {
    const JsonValue* inner = at(key);
    if (inner != nullptr) own |= inner->is_array() ? reach_of_all(inner) : reach_of(*inner);
  }
  std::vector<Mask> masks = {own, reach_of_all(at("patternProperties")), reach_of_all(at("anyOf")),
                             reach_of_all(at("oneOf"))};
  const JsonValue* all = at("allOf");
  if (all != nullptr && all->is_array()) {
    for (const JsonValue& one : all->get_array()) masks.push_back(reach_of(one));
  }
  const JsonValue* reference = at("$ref");
  if (reference != nullptr && reference->is_string()) {
    const JsonValue* target = resolve_reference(root_, reference->get_string());
    if (target != nullptr) masks.push_back(reach_of(*target));
  }
  return masks;
}

void JoinedMultiples::spread(
    const std::vector<std::pair<const JsonObject*, std::string>>& schemas) {
  for (bool is_new = true; is_new;) {
    is_new = false;
    for (auto schema = schemas.rbegin(); schema != schemas.rend(); ++schema) {
      Mask mask = 0;
      for (const Mask one : contributions(*schema->first)) mask |= one;
      if (mask == 0) continue;
      Mask& known = reach_[schema->first];
      is_new = is_new || (known | mask) != known;
      known |= mask;
    }
  }
}

Status JoinedMultiples::check(
    const std::vector<std::pair<const JsonObject*, std::string>>& schemas) {
  if (multiples_.empty()) return {};
  std::uint64_t sum = 0;
  for (const Multiple& multiple : multiples_) sum += multiple.coefficient;
  if (sum > kCoefficientsMax) {
    return fail(Errc::exhausted, fmt::format("schema: multipleOf {} in all, expected at most {}",
                                             sum, kCoefficientsMax));
  }
  const bool is_known = multiples_.size() <= kMaskBits;
  if (is_known && can_join(~Mask{0} >> (kMaskBits - multiples_.size()), false)) return {};
  const std::map<const JsonObject*, Mask> own = reach_;
  spread(schemas);
  for (const auto& [schema, place] : schemas) {
    std::vector<Mask> masks = contributions(*schema);
    const auto multiple = own.find(schema);
    if (multiple != own.end()) masks.push_back(multiple->second);
    std::erase(masks, Mask{0});
    if (masks.size() < 2) continue;
    Mask joined = 0;
    bool is_pair = masks.size() == 2;
    for (const Mask one : masks) {
      is_pair = is_pair && std::popcount(one) == 1;
      joined |= one;
    }
    if (is_known && can_join(joined, is_pair)) continue;
    return fail(Errc::unsupported,
                fmt::format("{}: several multipleOf that may apply to one number, with a common "
                            "multiple that is too large, is not supported",
                            place.empty() ? "schema" : place));
  }
  return {};
}

}  // namespace reprise
