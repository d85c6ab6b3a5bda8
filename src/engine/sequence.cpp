// Bookkeeping of one request: what was forwarded for it, what it was spared, how long it took.
#include "engine/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace reprise {
namespace {

double milliseconds(EngineClock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

Sequence::Sequence(RequestId id, RequestId submission, GenerationRequest request, PagePool& pool,
                   EngineClock::time_point now)
    : cache(pool),
      id_(id),
      submission_(submission),
      request_(std::move(request)),
      tokens_(std::move(request_.prompt)),
      prompt_length_(static_cast<Position>(tokens_.size())),
      was_forwarded_(tokens_.size(), false),
      accepted_at_(now),
      waits_since_(now) {
  for (const Position end : request_.turn_ends) add_mark(end, MarkKind::turn_end);
  if (request_.history_boundary > 0) {
    add_mark(request_.history_boundary, MarkKind::history_boundary);
  }
  add_mark(prompt_length_, MarkKind::prompt_end);
}

std::span<const TokenId> Sequence::forwarded_tokens() const {
  return tokens().first(static_cast<std::size_t>(offset()));
}

SamplingPlace Sequence::place() const {
  const bool may_stop = completion_tokens_ >= request_.min_tokens;
  return {
      .choice = request_.choice,
      .position = length(),
      .tokens = tokens_,
      .prompt_length = prompt_length_,
      .mask = request_.constraint ? request_.constraint->mask() : std::span<const std::uint32_t>(),
      .banned = request_.banned_ids,
      .banned_stops = may_stop ? std::span<const TokenId>() : request_.stop_ids};
}

void Sequence::compute_mask() {
  CHECK(needs_mask());
  Status status = request_.constraint->compute_mask();
  has_mask_ = status.has_value();
  if (!status) constraint_error_ = std::move(status).error();
}

bool Sequence::advance_constraint(TokenId token) {
  if (!request_.constraint) return true;
  has_mask_ = false;
  Result<bool> goes_on = request_.constraint->advance(token);
  if (!goes_on) constraint_error_ = std::move(goes_on).error();
  return goes_on.value_or(false);
}

bool Sequence::judges_with(const Sequence& other) const {
  const auto prompt = [](const Sequence& sequence) {
    return sequence.tokens().first(static_cast<std::size_t>(sequence.prompt_length_));
  };
  return submission_ == other.submission_ && judges_prompt() && other.judges_prompt() &&
         request_.prompt_logprobs == other.request_.prompt_logprobs &&
         std::ranges::equal(prompt(*this), prompt(other));
}

void Sequence::commit(Position rows) {
  CHECK(0 < rows && rows <= left());
  const Position end = offset() + rows;
  // Usage is final when the prompt is done: what a preemption makes us repeat later is our affair.
  for (Position place = offset(); !has_sampled() && place < std::min(end, prompt_length_);
       place++) {
    was_forwarded_[static_cast<std::size_t>(place)] = true;
  }
  cache.commit(end);
  reached_ = std::max(reached_, end);
}

void Sequence::count_sampled(EngineClock::time_point now) {
  completion_tokens_++;
  if (!first_token_at_) first_token_at_ = now;
}

void Sequence::end_waiting(EngineClock::time_point now) {
  waited_ = waited(now);
  waits_since_.reset();
}

EngineClock::duration Sequence::waited(EngineClock::time_point now) const {
  return waits_since_ ? waited_ + (now - *waits_since_) : waited_;
}

bool Sequence::is_late(EngineClock::time_point now) const {
  return request_.timeout_ms > 0 &&
         now - accepted_at_ >= std::chrono::milliseconds(request_.timeout_ms);
}

void Sequence::release_pages(PagePool& pool) {
  cache.give_back();  // a claim on a shared page would outlive us: who goes on there would copy it
  cache = SequenceCache(pool);
  path = PromptCache::Path();
  restored = 0;
}

void Sequence::start_prefill(const PromptCache::Match& found, EngineClock::time_point now) {
  first_match_ = found;
  started_at_ = now;
}

std::vector<Sequence::Mark> Sequence::take_marks(Position published) {
  std::vector<Mark> taken;
  std::erase_if(marks_, [&](const Mark& mark) {
    if (mark.position > published) return false;
    taken.push_back(mark);
    return true;
  });
  return taken;
}

Usage Sequence::usage() const {
  Usage usage;
  usage.prompt_tokens = prompt_length_;
  usage.completion_tokens = completion_tokens_;
  const auto reached = static_cast<std::ptrdiff_t>(std::min(reached_, prompt_length_));
  // What a sibling forwarded was computed for the same submission: no cache gave it.
  if (!no_prompt_cache && request_.prompt_logprobs < 0) {
    usage.cached_tokens =
        std::count(was_forwarded_.begin(), was_forwarded_.begin() + reached, false);
  }
  // What was found may have been given up again before it was of use.
  if (usage.cached_tokens == 0) usage.miss = first_match_.miss.value_or(MissReason::evicted);
  if (request_.prompt_logprobs >= 0) usage.miss = no_prompt_cache.value_or(MissReason::disabled);
  usage.diverged_at = first_match_.common;
  usage.retokenised_at = retokenised_at_;
  usage.is_pinned = is_pinned_;
  return usage;
}

Timings Sequence::timings(EngineClock::time_point now) const {
  const EngineClock::time_point started = started_at_.value_or(now);
  const EngineClock::time_point first_token = first_token_at_.value_or(now);
  return {.queued_ms = milliseconds(started - accepted_at_),
          .prefill_ms = milliseconds(first_token - started),
          .decode_ms = milliseconds(now - first_token)};
}

}  // namespace reprise
