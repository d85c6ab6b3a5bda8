// Whole replies.
#include "api/reply.h"

#include <fmt/core.h>

namespace reprise {

void send_reply(StreamChannel& channel, ReplyHead head, std::string body) {
  channel.push(std::move(head));
  channel.push(ReplyData{std::move(body)});
  channel.push(ReplyEnd{});
}

void send_error(StreamChannel& channel, const ApiError& error, HeaderList headers) {
  ReplyHead head;
  head.status = error.status;
  head.headers = std::move(headers);
  if (error.status == 401) head.headers.emplace_back("www-authenticate", "Bearer");
  if (error.status == 429 || error.status == 503) {
    head.headers.emplace_back("retry-after", fmt::format("{}", error.retry_after_seconds));
  }
  send_reply(channel, std::move(head), error_body(error));
}

}  // namespace reprise
