// Reading a JSON object's members one by one, with one form for what is wrong with them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/api_error.h"
#include "api/limits.h"
#include "base/json.h"

namespace reprise {

// "an integer", "a string" ...
std::string_view json_kind_name(const JsonValue& value);

// "PARAM: got a string, expected EXPECTED".
std::unexpected<ApiError> wrong_type(std::string param, std::string_view expected,
                                     const JsonValue& got);
// "PARAM: WHAT", code invalid_value.
std::unexpected<ApiError> wrong_value(std::string param, std::string_view what);
std::unexpected<ApiError> missing(std::string param);
// "PARAM: WHAT", code unsupported_parameter.
std::unexpected<ApiError> unsupported(std::string param, std::string_view what);

// "PARAM: got 3 ITEMS, expected at most 2".
ApiStatus check_count(const std::string& param, std::size_t count, std::string_view items,
                      std::size_t least, std::size_t most);

// Whether two values are equal: 1 and 1.0 are.
bool is_same(const JsonValue& one, const JsonValue& other);

// The value as an integer: 2 and 2.0 are, 2.5 is not.
std::optional<std::int64_t> integral(const JsonValue& value);

// Values of one type and range. Errors: invalid_type, invalid_value with the range and what was
// got.
ApiResult<double> read_number(const std::string& param, const JsonValue& value, double low,
                              double high);
ApiResult<std::int64_t> read_integer(const std::string& param, const JsonValue& value,
                                     std::int64_t low, std::int64_t high);
ApiResult<bool> read_boolean(const std::string& param, const JsonValue& value);
ApiResult<std::string> read_text(const std::string& param, const JsonValue& value,
                                 std::size_t bytes_least, std::size_t bytes_most);
std::string_view text_of(const JsonValue& value);  // of a string

class FieldReader {
 public:
  // `prefix` goes before member names in errors: "messages[2].".
  explicit FieldReader(const JsonObject& object, std::string prefix = {})
      : object_(&object), prefix_(std::move(prefix)) {}

  // nullptr when the member is absent or null. The name counts as known from now on.
  const JsonValue* find(std::string_view name);
  bool knows(std::string_view name) const;

  std::string path(std::string_view name) const { return prefix_ + std::string(name); }
  // Members that nobody asked for, with their paths; indices in these are left out ("messages[]."),
  // so that one habit of a client has one name. At most `most` of them.
  std::vector<std::string> unknown(std::size_t most) const;

 private:
  const JsonObject* object_;
  std::string prefix_;
  std::vector<std::string_view> known_;
};

// Each name once, and no more than are worth a line in the log (kUnknownMax): a body may have a
// million of them.
inline constexpr std::size_t kUnknownMax = 64;
void add_unknown(const FieldReader& reader, std::vector<std::string>& unknown);

// The body as an object. Errors: invalid_json, invalid_type.
ApiResult<JsonObject> parse_request_object(std::string_view body, const Limits& limits);

}  // namespace reprise
