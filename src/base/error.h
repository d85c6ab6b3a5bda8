// Expected trouble as values: every function that reads something from outside returns a Result.
// Bugs are CHECKs (check.h); we throw no exceptions of our own.
#pragma once
#include <expected>
#include <string>
#include <utility>

namespace reprise {

enum class Errc {
  invalid_argument,  // the caller's value is wrong: bad field, bad flag
  not_found,         // no such file, tensor, model
  corrupt,           // bytes contradict their format or checksum
  unsupported,       // well-formed, but not a thing we do (yet)
  exhausted,         // a limit or budget is reached: memory, queue, context
  cancelled,         // the asker left
  io,                // the operating system said no
};

// `message` is one line, says what was got and what was expected, and stands alone.
// `field` names the request field, flag, tensor or key at fault; empty when there is none.
struct Error {
  Errc code = Errc::invalid_argument;
  std::string message;
  std::string field = {};
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> fail(Errc code, std::string message, std::string field = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(field)});
}

}  // namespace reprise

#define REPRISE_CONCAT_INNER(a, b) a##b
#define REPRISE_CONCAT(a, b) REPRISE_CONCAT_INNER(a, b)

// TRY(status_expression): returns the error to the caller, if there is one.
#define TRY(expression)                                      \
  do {                                                       \
    if (auto try_result = (expression); !try_result)         \
      return std::unexpected(std::move(try_result).error()); \
  } while (false)

// TRY_ASSIGN(declaration, result_expression): the value, or the error to the caller.
#define TRY_ASSIGN(declaration, ...) \
  TRY_ASSIGN_INNER(REPRISE_CONCAT(try_result_, __LINE__), declaration, __VA_ARGS__)
#define TRY_ASSIGN_INNER(name, declaration, ...)              \
  auto name = (__VA_ARGS__);                                  \
  if (!name) return std::unexpected(std::move(name).error()); \
  declaration = std::move(name).value()
