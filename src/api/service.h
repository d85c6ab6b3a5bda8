// The desk: every endpoint as a function from a request's bytes to a reply, with no socket in
// sight.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/api_keys.h"
#include "api/limits.h"
#include "api/stream_channel.h"

namespace reprise {

class Bundle;
class Engine;

struct ServiceOptions {
  std::string model_alias;     // the id that /v1/models lists and replies carry
  ApiKeys api_keys;            // none: nobody needs one
  std::string allowed_origin;  // web pages that may ask: "", "*" or one origin (api/cors.h)
  std::size_t body_bytes_max = Limits().body_bytes_max;
  std::int64_t request_timeout_ms = 0;  // of each request, and the most it may ask for; 0: none
  std::int64_t drain_timeout_ms = 10'000;
};

// What the connection read. Header names are lower case.
struct ServiceRequest {
  std::string method;
  std::string target;  // path and query as sent
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

class Service {
 public:
  // `bundle` and `engine` must outlive the service. Starts the prepare threads.
  Service(const Bundle& bundle, Engine& engine, ServiceOptions options);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service();

  const ServiceOptions& options() const;

  // Any thread. Never blocks: heavy work goes to the prepare threads, generation to the engine.
  // Every request gets a ReplyHead and a ReplyEnd on its channel, errors included (OpenAI's error
  // form).
  void handle(ServiceRequest request, std::shared_ptr<StreamChannel> channel);

  // The reply for trouble that the connection itself found: 400 bad framing, 408, 413, 431, 501,
  // 503. Carries the CORS headers, so that a browser's script can read why; with 503 Retry-After.
  ReplyHead error_reply(int status, std::string_view code, std::string_view message,
                        std::string& body) const;

  // Any thread: requests that arrive from now on are let in by these keys; running ones go on.
  void reload_keys(ApiKeys keys);

  // New generation requests get 503; running ones may finish until the drain timeout.
  void begin_drain();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
