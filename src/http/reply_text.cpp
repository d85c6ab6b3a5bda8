// Replies as bytes (RFC 9112).
#include "http/reply_text.h"

#include <iterator>

#include <boost/beast/http/status.hpp>
#include <fmt/format.h>

namespace reprise {

bool status_has_body(int status) {
  return status >= 200 && status != 204 && status != 304;
}

std::string reply_head_text(const ReplyHead& head, ReplyFraming framing, std::size_t body_bytes,
                            ReplyPersistence persistence) {
  const auto reason = boost::beast::http::obsolete_reason(
      boost::beast::http::int_to_status(static_cast<unsigned>(head.status)));
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "HTTP/1.1 {} {}\r\nServer: reprise\r\n", head.status,
                 std::string_view(reason.data(), reason.size()));
  if (status_has_body(head.status)) {
    if (!head.content_type.empty()) {
      fmt::format_to(out, "Content-Type: {}\r\n", head.content_type);
    }
    if (framing == ReplyFraming::length) fmt::format_to(out, "Content-Length: {}\r\n", body_bytes);
    if (framing == ReplyFraming::chunked) text += "Transfer-Encoding: chunked\r\n";
    // An event stream is of this moment, and a proxy that collects it would stall the reader.
    if (framing != ReplyFraming::length) text += "Cache-Control: no-cache\r\n";
  }
  for (const auto& [name, value] : head.headers) fmt::format_to(out, "{}: {}\r\n", name, value);
  if (persistence == ReplyPersistence::close) text += "Connection: close\r\n";
  if (persistence == ReplyPersistence::keep_alive_http_1_0) text += "Connection: keep-alive\r\n";
  text += "\r\n";
  return text;
}

void append_chunk(std::string& text, std::string_view bytes) {
  if (bytes.empty()) return;
  fmt::format_to(std::back_inserter(text), "{:x}\r\n", bytes.size());
  text += bytes;
  text += "\r\n";
}

}  // namespace reprise
