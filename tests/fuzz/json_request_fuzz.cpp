// Fuzzes the readers of request bodies: any bytes are refused with a status, one line and a
// parameter's path, or make a request within its limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/openai.h"
#include "api/responses_request.h"
#include "base/check.h"
#include "text/utf8.h"

namespace reprise {
namespace {

void check_error(const ApiError& error) {
  CHECK(error.status >= 400 && error.status < 500);
  CHECK(!error.code.empty() && !error.message.empty());
  CHECK(error.message.find('\n') == std::string::npos);
  CHECK(is_utf8(error.message) && is_utf8(error.param) && is_utf8(error_body(error)));
}

void check_fields(const GenerationFields& fields) {
  const Limits limits;
  CHECK(fields.choices >= 1);
  CHECK(!fields.max_tokens || *fields.max_tokens >= 0);
  CHECK(fields.min_tokens >= 0);
  CHECK(fields.top_logprobs >= -1 && fields.top_logprobs <= limits.chat_top_logprobs_max);
  CHECK(fields.stop.size() <= limits.stops_max);
  for (const std::string& stop : fields.stop) {
    CHECK(!stop.empty() && stop.size() <= limits.stop_bytes_max && is_utf8(stop));
  }
  CHECK(fields.sampling.temperature >= 0 && fields.sampling.temperature <= 1000);
  CHECK(fields.sampling.top_p >= 0 && fields.sampling.top_p <= 1);
  CHECK(fields.sampling.min_p >= 0 && fields.sampling.min_p <= 1);
}

void read_chat(std::string_view body) {
  const auto request = parse_chat_request(body);
  if (!request) return check_error(request.error());
  check_fields(request->fields);
  CHECK(!request->messages.empty() && request->messages.size() <= Limits().messages_max);
}

void check_completion(const ApiResult<CompletionRequest>& request) {
  if (!request) return check_error(request.error());
  check_fields(request->fields);
  CHECK(!request->prompts.empty());
}

void exercise(std::string_view body) {
  read_chat(body);
  check_completion(parse_completion_request(body));
  check_completion(parse_llama_completion_request(body));
  if (const auto request = parse_responses_request(body); request) {
    check_fields(request->chat.fields);
  } else {
    check_error(request.error());
  }
  if (const auto request = parse_tokenize_request(body); !request) check_error(request.error());
  if (const auto ids = parse_detokenize_request(body); !ids) check_error(ids.error());
}

}  // namespace
}  // namespace reprise

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reprise::exercise({reinterpret_cast<const char*>(data), size});
  return 0;
}
