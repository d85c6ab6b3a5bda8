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

  void send_json(Endpoint endpoint, StreamChannel& channel, int status, std::string body,
                 HeaderList headers = {}) const;
  void send_text(Endpoint endpoint, StreamChannel& channel, std::string content_type,
                 std::string body) const;
  // Errors also go into the log, a line each. `method`: the request's, where the endpoint has
  // several.
  void send_error(Endpoint endpoint, StreamChannel& channel, const ApiError& error,
                  std::string_view method = {}) const;
  // Of a request that got to no endpoint.
  void send_unrouted(std::string_view method, std::string_view path, StreamChannel& channel,
                     const ApiError& error, HeaderList headers = {}) const;
  // The body, or the error.
  void send(Endpoint endpoint, StreamChannel& channel, ApiResult<std::string> body,
            std::string_view method = {}) const;

 private:
  void send_refusal(Endpoint endpoint, StreamChannel& channel, const ApiError& error,
                    HeaderList headers) const;

  std::string allowed_origin_;
  Metrics* metrics_;
};

}  // namespace reprise
