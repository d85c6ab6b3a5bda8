// The body of an error reply.
#include "api/api_error.h"

#include <fmt/core.h>

#include "api/json_writer.h"

namespace reprise {
namespace {

std::string_view error_type(int status) {
  if (status == 429) return "rate_limit_error";
  if (status == 403) return "permission_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

}  // namespace

std::string error_body(const ApiError& error) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.key("message").text(error.message);
  json.key("type").text(error_type(error.status));
  json.key("param");
  if (error.param.empty()) {
    json.null();
  } else {
    json.text(error.param);
  }
  json.key("code").text(error.code);
  return json.end_object().end_object().take();
}

ApiError timeout_error(std::int64_t limit_ms, std::int64_t elapsed_ms) {
  return {504, "timeout",
          fmt::format("the request ran into its limit of {} ms: {} ms had passed", limit_ms,
                      elapsed_ms)};
}

std::string clipped(std::string_view text) {
  return quotable(text);
}

}  // namespace reprise
