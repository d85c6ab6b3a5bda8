// Counts in JSON schemas (minItems, maxLength ...): what they are, and whether they can be met.
#pragma once
#include <array>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace reprise {

// The least and the most of something.
inline constexpr auto kCountRanges = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"minItems", "maxItems"}, {"minLength", "maxLength"}, {"minProperties", "maxProperties"}});

// Errors: invalid_argument (no integer of at least 0), exhausted (more than 100000).
Result<std::uint64_t> read_count(std::string_view key, const JsonValue& value);

// Of a schema whose counts were read.
// Errors: invalid_argument (the least is more than the most). `only_of_type`: where the schema's
// only type is the one that is counted; other types are not concerned.
Status check_range(const JsonObject& schema, std::string_view least, std::string_view most,
                   bool only_of_type);
// Errors: exhausted (a pattern's bytes times minLength).
Status check_length_of_pattern(const JsonObject& schema);
// Errors: unsupported (a minProperties that others than the listed properties would have to meet).
Status check_least_properties(const JsonObject& schema);
// Whether llguidance counts properties in this object, by itself: there are no optional ones, or at
// most one of them is asked for.
bool counts_properties(const JsonObject& schema);

std::set<std::string_view> required_names(const JsonObject& schema);

}  // namespace reprise
