// Whole replies with their common headers.
#include "api/reply_sender.h"

#include <utility>

#include "api/refusal_log.h"

namespace reprise {

HeaderList ReplySender::common_headers() const {
  HeaderList headers;
  if (allowed_origin_.empty()) return headers;
  headers.emplace_back("access-control-allow-origin", allowed_origin_);
  headers.emplace_back("access-control-expose-headers",
                       "x-reprise-cache, x-reprise-ignored, retry-after");
  if (allowed_origin_ != "*") headers.emplace_back("vary", "origin");
  return headers;
}

void ReplySender::send_json(Endpoint endpoint, StreamChannel& channel, int status, std::string body,
                            HeaderList headers) const {
  metrics_->count_reply(endpoint, status);
  ReplyHead head;
  head.status = status;
  head.headers = common_headers();
  for (auto& header : headers) head.headers.push_back(std::move(header));
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
                             std::string_view method) const {
  log_refusal(endpoint, error, method);
  send_refusal(endpoint, channel, error, {});
}

void ReplySender::send_unrouted(std::string_view method, std::string_view path,
                                StreamChannel& channel, const ApiError& error,
                                HeaderList headers) const {
  log_refusal(method, path, error);
  send_refusal(Endpoint::none, channel, error, std::move(headers));
}

void ReplySender::send_refusal(Endpoint endpoint, StreamChannel& channel, const ApiError& error,
                               HeaderList headers) const {
  metrics_->count_reply(endpoint, error.status);
  for (auto& header : common_headers()) headers.push_back(std::move(header));
  reprise::send_error(channel, error, std::move(headers));
}

void ReplySender::send(Endpoint endpoint, StreamChannel& channel, ApiResult<std::string> body,
                       std::string_view method) const {
  if (body) {
    send_json(endpoint, channel, 200, std::move(*body));
  } else {
    send_error(endpoint, channel, body.error(), method);
  }
}

}  // namespace reprise
