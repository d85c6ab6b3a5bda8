// Trouble as OpenAI's clients know it: a status, a code, the parameter at fault.
#pragma once
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace reprise {

struct ApiError {
  int status = 400;
  std::string code;             // "invalid_type", "context_length_exceeded" ...
  std::string message;          // one line
  std::string param = {};       // the field at fault; empty: null
  int retry_after_seconds = 1;  // said where trying again helps: 429 and 503
};

template <class T>
using ApiResult = std::expected<T, ApiError>;
using ApiStatus = ApiResult<void>;

inline std::unexpected<ApiError> refuse(int status, std::string code, std::string message,
                                        std::string param = {}) {
  return std::unexpected(ApiError{status, std::move(code), std::move(message), std::move(param)});
}

// {"error":{"message","type","param","code"}}; the type follows from the status.
std::string error_body(const ApiError& error);

// A request that ran into its limit: 504 with both numbers.
ApiError timeout_error(std::int64_t limit_ms, std::int64_t elapsed_ms);

// At most 64 bytes of what a client sent, for a message that quotes it; see quotable().
std::string clipped(std::string_view text);

}  // namespace reprise
