// Status codes of text-ffi as our errors.
#include "text/ffi.h"

#include "base/check.h"

namespace reprise::ffi {
namespace {

Errc code_of(TextStatus status) {
  switch (status) {
    case TEXT_OK:
      break;
    case TEXT_INVALID_ARGUMENT:
      return Errc::invalid_argument;
    case TEXT_CORRUPT:
      return Errc::corrupt;
    case TEXT_UNSUPPORTED:
    case TEXT_PANIC:
      return Errc::unsupported;
    case TEXT_EXHAUSTED:
      return Errc::exhausted;
    case TEXT_IO:
      return Errc::io;
  }
  CHECK(false);  // a success is no failure
}

}  // namespace

std::unexpected<Error> failure(TextStatus status, const Buffer& message, std::string field) {
  return fail(code_of(status), message.text(), std::move(field));
}

}  // namespace reprise::ffi
