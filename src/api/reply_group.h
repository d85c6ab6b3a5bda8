// The choices of one HTTP request: they grow side by side, end one by one, and make one reply.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/api_error.h"
#include "api/live_requests.h"
#include "api/metrics.h"
#include "api/reply_writer.h"
#include "api/stream_channel.h"

namespace reprise {

struct GroupPlan {
  std::string id;  // of the reply, for the log
  std::size_t prompts = 1;
  std::size_t choices = 1;  // of each prompt; the choices of the first prompt come first
  bool progress = false;    // the writer is told how far the prompts are
  std::chrono::steady_clock::time_point accepted_at;
  std::int64_t timeout_ms = 0;  // counted from accepted_at; 0: none
};

// Used by the sinks of its choices, on the engine thread only. Kept by LiveRequests.
class ReplyGroup {
 public:
  // Metrics and live requests must outlive this. `number`: of the request, there.
  ReplyGroup(GroupPlan plan, std::unique_ptr<ReplyWriter> writer,
             std::shared_ptr<StreamChannel> channel, Metrics& metrics, LiveRequests& live,
             std::uint64_t number);
  ~ReplyGroup();

  // Nobody wants more of any choice: the client left, or the reply has ended in an error.
  bool is_over() const { return is_over_ || channel_->is_abandoned(); }

  void progress(std::size_t choice, Position done, Position cached, Position total);
  void prompt_done(std::size_t choice, const Usage& usage);
  void prompt_logprobs(std::size_t choice, std::vector<SampledToken> tokens);
  void delta(std::size_t choice, ChoiceDelta delta);

  // The end of a choice. The last one ends the reply; one that is in error (or was cancelled, or
  // was late) ends it at once, and the other choices are cancelled.
  void end(std::size_t choice, ChoiceEnd end);
  void end_in_error(const SequenceEnd& end);

  Metrics& metrics() { return *metrics_; }
  const std::string& id() const { return plan_.id; }
  double seconds_since_accept() const;

 private:
  ApiError error_of(const SequenceEnd& end) const;
  Usage summed_usage() const;

  GroupPlan plan_;
  std::unique_ptr<ReplyWriter> writer_;
  std::shared_ptr<StreamChannel> channel_;
  Metrics* metrics_;
  LiveRequests* live_;
  std::uint64_t number_;
  std::vector<Usage> usages_;  // of the choices that ended
  std::size_t ended_ = 0;
  bool is_over_ = false;
};

}  // namespace reprise
