// Tokens to reply events.
#include "api/text_sink.h"

#include <cmath>

#include <fmt/core.h>

#include "api/api_error.h"
#include "api/reply.h"
#include "base/log.h"
#include "text/same_text.h"

namespace reprise {
TextSink::TextSink(const Tokenizer& tokenizer, ReplyPlan plan,
                   std::shared_ptr<StreamChannel> channel, Metrics& metrics,
                   LiveRequests::Ticket ticket)
    : tokenizer_(tokenizer),
      plan_(std::move(plan)),
      channel_(std::move(channel)),
      metrics_(metrics),
      ticket_(std::move(ticket)),
      detokenizer_(tokenizer),
      stop_strings_(plan_.stop),
      logprobs_(tokenizer, plan_.identity.kind) {}

TextSink::~TextSink() = default;

SequenceSink::Verdict TextSink::on_token(const SampledToken& token) {
  if (channel_->is_abandoned()) return Verdict::cancel;
  count_token();
  if (plan_.logprobs) logprobs_.add(token);
  if (plan_.return_token_ids) ids_.push_back(token.id);
  add_text(detokenizer_.push(token.id));
  if (plan_.stream && !head_sent_) send_head();
  if (plan_.stream && !text_.empty()) send_text_chunk();
  return stopped_ ? Verdict::stop : Verdict::go_on;
}

bool TextSink::is_same_text(std::span<const TokenId> cached, std::span<const TokenId> prompt) {
  return reprise::is_same_text(tokenizer_, cached, prompt);
}

// The times between tokens are the stream's, whether it is read as one or not.
void TextSink::count_token() {
  const auto now = std::chrono::steady_clock::now();
  if (has_tokens_) {
    metrics_.observe_inter_token(std::chrono::duration<double>(now - last_token_at_).count());
  } else {
    metrics_.observe_first_token(seconds_since_accept());
  }
  has_tokens_ = true;
  last_token_at_ = now;
}

void TextSink::on_end(const SequenceEnd& end) {
  const double seconds = seconds_since_accept();
  metrics_.observe_end(end, seconds);
  spdlog::debug("{}: prompt {} (cached {}), completion {}, {:.0f} ms", plan_.identity.id,
                end.usage.prompt_tokens, end.usage.cached_tokens, end.usage.completion_tokens,
                seconds * 1000);
  if (end.reason != FinishReason::stop && end.reason != FinishReason::length) {
    end_in_error(end);
    return;
  }
  finish_text();
  if (plan_.stream) {
    end_stream(end);
  } else {
    end_whole(end);
  }
}

void TextSink::add_text(std::string text) {
  if (stopped_ || text.empty()) return;
  StopStrings::Outcome outcome = stop_strings_.push(text);
  text_ += outcome.text;
  stopped_ = outcome.stopped;
}

// Lets out what was held back: bytes of an unfinished character, the beginning of a stop string.
void TextSink::finish_text() {
  add_text(detokenizer_.finish());
  if (!stopped_) text_ += stop_strings_.finish();
}

void TextSink::send_text_chunk() {
  const std::string logprobs = logprobs_.take();
  send_chunk(ChunkPart::content, {.text = text_,
                                  .finish_reason = {},
                                  .logprobs = logprobs,
                                  .token_ids = wanted(ids_),
                                  .prompt_token_ids = nullptr});
  text_.clear();
  ids_.clear();
}

void TextSink::send_head() {
  head_sent_ = true;
  ReplyHead head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = plan_.headers;
  head.headers.emplace_back("cache-control", "no-cache");
  head.headers.emplace_back("x-accel-buffering", "no");
  head.headers.emplace_back("x-reprise-cache", cache_header(head_usage_));
  head.streamed = true;
  metrics_.count_reply(
      plan_.identity.kind == ReplyKind::chat ? Endpoint::chat : Endpoint::completions, 200);
  channel_->push(std::move(head));
  // OpenAI's first chunk says who speaks; completions have no such chunk.
  if (plan_.identity.kind == ReplyKind::chat || plan_.return_token_ids) {
    ReplyChoice choice;
    choice.prompt_token_ids = wanted(plan_.prompt_ids);
    send_chunk(ChunkPart::role, choice);
  }
}

void TextSink::send_chunk(ChunkPart part, const ReplyChoice& choice) {
  channel_->push(ReplyData{
      server_sent_event(format_chunk(plan_.identity, part, choice, plan_.include_usage))});
}

void TextSink::end_stream(const SequenceEnd& end) {
  if (!head_sent_) {
    head_usage_ = end.usage;
    send_head();
  }
  if (!text_.empty() || !ids_.empty() || !logprobs_.is_empty()) send_text_chunk();
  ReplyChoice choice;
  choice.finish_reason = finish_reason(end);
  send_chunk(ChunkPart::finish, choice);
  if (plan_.include_usage) {
    channel_->push(ReplyData{
        server_sent_event(format_usage_chunk(plan_.identity, end.usage, plan_.cache_details))});
  }
  channel_->push(ReplyData{server_sent_event("[DONE]")});
  channel_->push(ReplyEnd{});
}

void TextSink::end_whole(const SequenceEnd& end) {
  const std::string logprobs = logprobs_.take();
  std::string body = format_reply(plan_.identity,
                                  {.text = text_,
                                   .finish_reason = finish_reason(end),
                                   .logprobs = logprobs,
                                   .token_ids = wanted(ids_),
                                   .prompt_token_ids = wanted(plan_.prompt_ids)},
                                  end.usage, plan_.cache_details);
  ReplyHead head;
  head.headers = plan_.headers;
  head.headers.emplace_back("x-reprise-cache", cache_header(end.usage));
  metrics_.count_reply(
      plan_.identity.kind == ReplyKind::chat ? Endpoint::chat : Endpoint::completions, 200);
  send_reply(*channel_, std::move(head), std::move(body));
}

// Nobody listens after a disconnect; the channel drops what is pushed then.
void TextSink::end_in_error(const SequenceEnd& end) {
  const ApiError error = end_error(end);
  if (head_sent_) {
    channel_->push(ReplyData{server_sent_event(error_body(error))});
    channel_->push(ReplyEnd{});
    return;
  }
  metrics_.count_reply(
      plan_.identity.kind == ReplyKind::chat ? Endpoint::chat : Endpoint::completions,
      channel_->is_abandoned() ? kClientLeft : error.status);
  send_error(*channel_, error, plan_.headers);
}

const std::vector<TokenId>* TextSink::wanted(const std::vector<TokenId>& ids) const {
  return plan_.return_token_ids ? &ids : nullptr;
}

std::string_view TextSink::finish_reason(const SequenceEnd& end) const {
  return stopped_ || end.reason == FinishReason::stop ? "stop" : "length";
}

ApiError TextSink::end_error(const SequenceEnd& end) const {
  if (end.reason == FinishReason::cancelled) {
    return {503, "server_stopping", "the server is stopping; the reply was ended"};
  }
  if (end.reason == FinishReason::timeout)
    return timeout_error(plan_.timeout_ms, std::llround(seconds_since_accept() * 1000));
  const std::string what = end.error ? end.error->message : "the reply ended in an unnamed error";
  const Errc code = end.error ? end.error->code : Errc::corrupt;
  if (code == Errc::exhausted) return {503, "overloaded", what};
  if (code == Errc::io) return {503, "engine_failed", what};
  return {500, "generation_failed", what};
}

double TextSink::seconds_since_accept() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - plan_.accepted_at)
      .count();
}

}  // namespace reprise
