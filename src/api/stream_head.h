// The head of a streamed reply: it goes out with the first thing that the client is told, and knows
// by then what the cache gave to the first prompt that was ready.
#pragma once
#include <optional>

#include <fmt/core.h>

#include "api/json_writer.h"
#include "api/reply_outlet.h"

namespace reprise {

class StreamHead {
 public:
  void prompt_done(const Usage& usage) {
    if (!usage_) usage_ = usage;
  }
  void begin(ReplyOutlet& outlet) const { outlet.begin_stream(usage_); }
  // Before any prompt is done: of a hit only its size is known, of a miss nothing yet.
  void begin_with_progress(ReplyOutlet& outlet, Position cached) const {
    if (usage_ || cached == 0) {
      outlet.begin_stream(usage_);
      return;
    }
    Usage usage;
    usage.cached_tokens = cached;
    outlet.begin_stream(usage);
  }

 private:
  std::optional<Usage> usage_;
};

// llama-server's "prompt_progress": {"total", "cache", "processed", "time_ms"}, member and all.
inline void append_progress(JsonWriter& json, Position done, Position cached, Position total,
                            double elapsed_ms) {
  json.key("prompt_progress").begin_object();
  json.key("total").integer(total);
  json.key("cache").integer(cached);
  json.key("processed").integer(done);
  json.key("time_ms").integer(static_cast<std::int64_t>(elapsed_ms));
  json.end_object();
}

}  // namespace reprise
