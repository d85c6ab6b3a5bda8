// From the bytes of a request that needs reading to a reply under way: queues in front of the
// prepare threads, and behind it the engine.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "api/api_keys.h"
#include "api/limits.h"
#include "api/metrics.h"
#include "api/reply_sender.h"
#include "api/responses_store.h"
#include "api/routes.h"
#include "api/stream_channel.h"

namespace reprise {

class Bundle;
class Engine;
struct ServiceOptions;

// All of it must outlive the desk.
struct DeskContext {
  const Bundle& bundle;
  Engine& engine;
  const ServiceOptions& options;
  const Limits& limits;
  const ReplySender& sender;
  Metrics& metrics;
  ResponsesStore& responses;
  const std::atomic<bool>& is_stopping;
};

class GenerationDesk {
 public:
  explicit GenerationDesk(const DeskContext& context);
  GenerationDesk(const GenerationDesk&) = delete;
  GenerationDesk& operator=(const GenerationDesk&) = delete;
  ~GenerationDesk();

  // I/O thread. Reads the body later, answers on the channel: replies of all generating endpoints,
  // /tokenize and its like. Errors: 503 server_stopping, 429 queue_full, and those of the request.
  void post(Endpoint endpoint, std::string body, const ApiKey& key,
            std::shared_ptr<StreamChannel> channel);

  // Answers what is queued, cancels what runs, and waits until it has ended. Nothing may be posted
  // any more.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
