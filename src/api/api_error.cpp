// The body of an error reply.
#include "api/api_error.h"

#include "api/json_writer.h"

namespace reprise {

std::string error_body(const ApiError& error) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.key("message").text(error.message);
  json.key("type").text(error.status >= 500 ? "server_error" : "invalid_request_error");
  json.key("param");
  if (error.param.empty()) {
    json.null();
  } else {
    json.text(error.param);
  }
  json.key("code").text(error.code);
  return json.end_object().end_object().take();
}

std::string clipped(std::string_view text) {
  constexpr std::size_t kBytesMax = 64;
  if (text.size() <= kBytesMax) return std::string(text);
  std::size_t end = kBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace reprise
