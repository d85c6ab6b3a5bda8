// Typed reading of a JSON object's members, with one form for what is wrong with them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "api/openai.h"
#include "base/json.h"

namespace reprise {

// "an integer", "a string" ...
std::string_view json_kind_name(const JsonValue& value);

std::unexpected<ApiError> wrong_type(std::string param, std::string_view expected,
                                     const JsonValue& got);
std::unexpected<ApiError> missing(std::string param);
std::unexpected<ApiError> unsupported(std::string param, std::string_view what);

// The value as an integer: 2 and 2.0 are, 2.5 is not.
std::optional<std::int64_t> integral(const JsonValue& value);

// Errors of the getters: invalid_type, invalid_value with the range and what was got.
class FieldReader {
 public:
  // `prefix` goes before member names in errors: "messages[2].".
  explicit FieldReader(const JsonObject& object, std::string prefix = {})
      : object_(&object), prefix_(std::move(prefix)) {}

  // nullptr when the member is absent or null. The name counts as known from now on.
  const JsonValue* find(std::string_view name);

  ApiResult<std::optional<double>> number(std::string_view name, double low, double high);
  ApiResult<std::optional<std::int64_t>> integer(std::string_view name, std::int64_t low,
                                                 std::int64_t high);
  ApiResult<std::optional<bool>> boolean(std::string_view name);
  ApiResult<std::optional<std::string>> text(std::string_view name, std::size_t bytes_max);

  std::string path(std::string_view name) const { return prefix_ + std::string(name); }
  // Members that nobody asked for.
  std::vector<std::string> unknown() const;

 private:
  const JsonObject* object_;
  std::string prefix_;
  std::vector<std::string_view> known_;
};

// The body as an object. Errors: invalid_json, invalid_type.
ApiResult<JsonObject> parse_request_object(std::string_view body, const Limits& limits);

// The members that chat and completions share, those that we must refuse included. What is unknown
// after that goes into fields.unknown.
ApiResult<GenerationFields> parse_generation_fields(FieldReader& reader, const Limits& limits);

}  // namespace reprise
