// Replies that are ready at once, with the headers that all replies have, counted by endpoint.
#pragma once
#include <string>
#include <string_view>

#include "api/api_error.h"
#include "api/metrics.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/stream_channel.h"

namespace reprise {

// Any thread may use it.
class ReplySender {
 public:
  // `allowed_origin`: for CORS: "", "*" or one origin. The metrics must outlive this.
  ReplySender(std::string allowed_origin, Metrics& metrics)
      : allowed_origin_(std::move(allowed_origin)), metrics_(&metrics) {}

  // CORS, where an origin is allowed.
  HeaderList common_headers() const;
  const std::string& allowed_origin() const { return allowed_origin_; }

  void send_json(Endpoint endpoint, StreamChannel& channel, int status, std::string body) const;
  void send_text(Endpoint endpoint, StreamChannel& channel, std::string content_type,
                 std::string body) const;
  void send_error(Endpoint endpoint, StreamChannel& channel, const ApiError& error,
                  HeaderList headers = {}) const;
  // The body, or the error.
  void send(Endpoint endpoint, StreamChannel& channel, ApiResult<std::string> body) const;

 private:
  std::string allowed_origin_;
  Metrics* metrics_;
};

}  // namespace reprise
