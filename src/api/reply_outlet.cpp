// Heads, events and errors on a channel.
#include "api/reply_outlet.h"

#include <utility>

#include <fmt/core.h>

#include "api/openai_format.h"
#include "api/refusal_log.h"

namespace reprise {

ReplyOutlet::ReplyOutlet(std::shared_ptr<StreamChannel> channel, HeaderList headers,
                         Metrics& metrics, Endpoint endpoint)
    : channel_(std::move(channel)),
      headers_(std::move(headers)),
      metrics_(&metrics),
      endpoint_(endpoint) {}

void ReplyOutlet::send_whole(std::string body, const Usage& usage) {
  metrics_->count_reply(endpoint_, 200);
  ReplyHead head;
  head.headers = headers_;
  head.headers.emplace_back("x-reprise-cache", cache_header(usage));
  send_reply(*channel_, std::move(head), std::move(body));
}

void ReplyOutlet::begin_stream(const std::optional<Usage>& usage) {
  if (std::exchange(has_begun_, true)) return;
  metrics_->count_reply(endpoint_, 200);
  ReplyHead head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = headers_;
  head.headers.emplace_back("cache-control", "no-cache");
  head.headers.emplace_back("x-accel-buffering", "no");
  if (usage) head.headers.emplace_back("x-reprise-cache", cache_header(*usage));
  head.streamed = true;
  channel_->push(std::move(head));
}

void ReplyOutlet::send_event(std::string_view data, std::string_view name) {
  std::string event = name.empty() ? std::string() : fmt::format("event: {}\n", name);
  channel_->push(ReplyData{event + server_sent_event(data)});
}

void ReplyOutlet::end_stream() {
  channel_->push(ReplyEnd{});
}

// Nobody listens after a disconnect; the channel drops what is pushed then.
void ReplyOutlet::fail(const ApiError& error) {
  if (!channel_->is_abandoned()) log_refusal(endpoint_, error);
  if (has_begun_) {
    send_event(error_body(error));
    end_stream();
    return;
  }
  metrics_->count_reply(endpoint_, channel_->is_abandoned() ? kClientLeft : error.status);
  send_error(*channel_, error, headers_);
}

}  // namespace reprise
