// A request's tokens on their way to text: detokenised, stopped at stop strings, written as reply.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/api_error.h"
#include "api/live_requests.h"
#include "api/logprobs.h"
#include "api/metrics.h"
#include "api/openai_format.h"
#include "api/stream_channel.h"
#include "engine/request.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace reprise {

// How the reply shall look.
struct ReplyPlan {
  ReplyIdentity identity;
  std::vector<std::pair<std::string, std::string>> headers;  // of every reply (CORS)
  std::vector<std::string> stop;
  bool stream = false;
  bool include_usage = false;
  CacheDetails cache_details = CacheDetails::no;
  bool logprobs = false;
  bool return_token_ids = false;
  std::vector<TokenId> prompt_ids;  // filled when return_token_ids
  std::chrono::steady_clock::time_point accepted_at;
  std::int64_t timeout_ms = 0;  // counted from accepted_at; 0: none
};

// Runs on the engine thread, so that the verdict to stop does not depend on timing; does nothing
// that waits. A whole reply is sent at the end; a stream's head goes out with its first token, so
// that what fails before that still gets an honest status.
class TextSink final : public SequenceSink {
 public:
  // The tokenizer and metrics must outlive this.
  TextSink(const Tokenizer& tokenizer, ReplyPlan plan, std::shared_ptr<StreamChannel> channel,
           Metrics& metrics, LiveRequests::Ticket ticket);
  ~TextSink() override;

  Verdict on_token(const SampledToken& token) override;
  void on_end(const SequenceEnd& end) override;
  void on_prompt_done(const Usage& usage) override { head_usage_ = usage; }
  bool is_same_text(std::span<const TokenId> cached, std::span<const TokenId> prompt) override;

 private:
  void count_token();
  void add_text(std::string text);
  void finish_text();
  void send_text_chunk();
  void send_head();
  void send_chunk(ChunkPart part, const ReplyChoice& choice);
  void end_stream(const SequenceEnd& end);
  void end_whole(const SequenceEnd& end);
  void end_in_error(const SequenceEnd& end);
  const std::vector<TokenId>* wanted(const std::vector<TokenId>& ids) const;
  std::string_view finish_reason(const SequenceEnd& end) const;
  ApiError end_error(const SequenceEnd& end) const;
  double seconds_since_accept() const;

  const Tokenizer& tokenizer_;
  ReplyPlan plan_;
  std::shared_ptr<StreamChannel> channel_;
  Metrics& metrics_;
  LiveRequests::Ticket ticket_;
  Detokenizer detokenizer_;
  StopStrings stop_strings_;
  LogprobsWriter logprobs_;
  Usage head_usage_;
  std::string text_;          // not sent yet
  std::vector<TokenId> ids_;  // not sent yet
  bool stopped_ = false;      // a stop string was found
  bool has_tokens_ = false;
  std::chrono::steady_clock::time_point last_token_at_;
  bool head_sent_ = false;
};

}  // namespace reprise
