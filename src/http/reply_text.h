// Replies as bytes: status line and headers, chunk framing. Pure functions.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "api/stream_channel.h"

namespace reprise {

enum class ReplyPersistence {
  keep_alive,           // HTTP/1.1's default, so nothing is said
  keep_alive_http_1_0,  // has to be said
  close,
};

enum class ReplyFraming {
  length,       // Content-Length
  chunked,      // Transfer-Encoding: chunked
  until_close,  // for HTTP/1.0
};

// Status line, headers and the empty line. `body_bytes` is what Content-Length says with
// ReplyFraming::length. 204 and 304 have no body and carry neither length nor type.
std::string reply_head_text(const ReplyHead& head, ReplyFraming framing, std::size_t body_bytes,
                            ReplyPersistence persistence);

// Appends one chunk; no bytes, no chunk (an empty one would end the reply).
void append_chunk(std::string& text, std::string_view bytes);

bool status_has_body(int status);

inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinueText = "HTTP/1.1 100 Continue\r\n\r\n";
inline constexpr std::string_view kEventStream = "text/event-stream";
// A server-sent event that clients ignore; it keeps proxies and client timeouts patient.
inline constexpr std::string_view kKeepAliveComment = ": keep-alive\n\n";

}  // namespace reprise
