// Several choices, one reply.
#include "api/reply_group.h"

#include <cmath>
#include <utility>

#include "api/prepare.h"

namespace reprise {

ReplyGroup::ReplyGroup(GroupPlan plan, std::unique_ptr<ReplyWriter> writer,
                       std::shared_ptr<StreamChannel> channel, Metrics& metrics, LiveRequests& live,
                       std::uint64_t number)
    : plan_(std::move(plan)),
      writer_(std::move(writer)),
      channel_(std::move(channel)),
      metrics_(&metrics),
      live_(&live),
      number_(number),
      usages_(plan_.prompts * plan_.choices) {}

ReplyGroup::~ReplyGroup() = default;

void ReplyGroup::progress(std::size_t choice, Position done, Position cached, Position total) {
  if (is_over() || !plan_.progress) return;
  writer_->progress(static_cast<int>(choice), done, cached, total, seconds_since_accept() * 1000);
}

void ReplyGroup::prompt_done(std::size_t choice, const Usage& usage) {
  if (!is_over()) writer_->prompt_done(static_cast<int>(choice), usage);
}

void ReplyGroup::prompt_logprobs(std::size_t choice, std::vector<SampledToken> tokens) {
  if (!is_over()) writer_->prompt_logprobs(static_cast<int>(choice), std::move(tokens));
}

void ReplyGroup::delta(std::size_t choice, ChoiceDelta delta) {
  if (!is_over()) writer_->delta(static_cast<int>(choice), std::move(delta));
}

void ReplyGroup::end(std::size_t choice, ChoiceEnd end) {
  if (is_over_) return;
  usages_[choice] = end.usage;
  writer_->choice_end(static_cast<int>(choice), end);
  if (++ended_ < usages_.size()) return;
  is_over_ = true;
  writer_->end(summed_usage());
}

void ReplyGroup::end_in_error(const SequenceEnd& end) {
  if (std::exchange(is_over_, true)) return;
  writer_->fail(error_of(end));
  if (usages_.size() > 1) live_->cancel(number_);
}

ApiError ReplyGroup::error_of(const SequenceEnd& end) const {
  if (end.reason == FinishReason::cancelled) {
    return {503, "server_stopping", "the server is stopping; the reply was ended"};
  }
  if (end.reason == FinishReason::timeout) {
    return timeout_error(plan_.timeout_ms, std::llround(seconds_since_accept() * 1000));
  }
  const std::string what = end.error ? end.error->message : "the reply ended in an unnamed error";
  const Errc code = end.error ? end.error->code : Errc::corrupt;
  if (code == Errc::exhausted) return {503, "overloaded", what};
  if (code == Errc::io) return {503, "engine_failed", what};
  // What the request asked for could not be done: a grammar at the limits of its matcher.
  if (code == Errc::invalid_argument && !end.error->field.empty()) return to_api_error(*end.error);
  return {500, "generation_failed", what};
}

// A prompt counts once for its choices: as its first one found it. What is said of one prompt's
// cache is the first prompt's.
Usage ReplyGroup::summed_usage() const {
  Usage sum = usages_.front();
  for (std::size_t choice = 1; choice < usages_.size(); choice++) {
    sum.completion_tokens += usages_[choice].completion_tokens;
    if (choice % plan_.choices != 0) continue;
    sum.prompt_tokens += usages_[choice].prompt_tokens;
    sum.cached_tokens += usages_[choice].cached_tokens;
  }
  return sum;
}

double ReplyGroup::seconds_since_accept() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - plan_.accepted_at)
      .count();
}

}  // namespace reprise
