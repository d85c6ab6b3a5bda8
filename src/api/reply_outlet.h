// Where a writer's bytes go: the channel, with the head that belongs to the reply, and the count of
// it. Whole replies, streams of server-sent events, and errors before or inside of either.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/api_error.h"
#include "api/metrics.h"
#include "api/reply.h"
#include "api/stream_channel.h"
#include "engine/request.h"

namespace reprise {

class ReplyOutlet {
 public:
  // `headers`: of every reply (CORS). The metrics must outlive this.
  ReplyOutlet(std::shared_ptr<StreamChannel> channel, HeaderList headers, Metrics& metrics,
              Endpoint endpoint);

  // All of a whole reply: JSON. `usage` is what the head says of the cache (x-reprise-cache).
  void send_whole(std::string body, const Usage& usage);

  // The head of a stream, once; later calls do nothing. Without a usage it says nothing of the
  // cache.
  void begin_stream(const std::optional<Usage>& usage);
  bool has_begun() const { return has_begun_; }
  // One event of a begun stream. `data` is one line; a name makes it "event: NAME" first.
  void send_event(std::string_view data, std::string_view name = {});
  void end_stream();

  // The reply's end in an error: an honest status, or in a begun stream an event
  // {"error":{...}} and the end.
  void fail(const ApiError& error);

 private:
  std::shared_ptr<StreamChannel> channel_;
  HeaderList headers_;
  Metrics* metrics_;
  Endpoint endpoint_;
  bool has_begun_ = false;
};

}  // namespace reprise
