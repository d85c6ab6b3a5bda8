// Whole replies with their common headers.
#include "api/reply_sender.h"

#include <utility>

namespace reprise {

HeaderList ReplySender::common_headers() const {
  HeaderList headers;
  if (allowed_origin_.empty()) return headers;
  headers.emplace_back("access-control-allow-origin", allowed_origin_);
  headers.emplace_back("access-control-expose-headers", "x-reprise-cache, retry-after");
  if (allowed_origin_ != "*") headers.emplace_back("vary", "origin");
  return headers;
}

void ReplySender::send_json(Endpoint endpoint, StreamChannel& channel, int status,
                            std::string body) const {
  metrics_->count_reply(endpoint, status);
  ReplyHead head;
  head.status = status;
  head.headers = common_headers();
  send_reply(channel, std::move(head), std::move(body));
}

void ReplySender::send_text(Endpoint endpoint, StreamChannel& channel, std::string content_type,
                            std::string body) const {
  metrics_->count_reply(endpoint, 200);
  ReplyHead head;
  head.content_type = std::move(content_type);
  head.headers = common_headers();
  send_reply(channel, std::move(head), std::move(body));
}

void ReplySender::send_error(Endpoint endpoint, StreamChannel& channel, const ApiError& error,
                             HeaderList headers) const {
  metrics_->count_reply(endpoint, error.status);
  for (auto& header : common_headers()) headers.push_back(std::move(header));
  reprise::send_error(channel, error, std::move(headers));
}

void ReplySender::send(Endpoint endpoint, StreamChannel& channel,
                       ApiResult<std::string> body) const {
  if (body) {
    send_json(endpoint, channel, 200, std::move(*body));
  } else {
    send_error(endpoint, channel, body.error());
  }
}

}  // namespace reprise
