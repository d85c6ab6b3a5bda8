// The forward, and after it: sample, ask whether to stop, commit, publish. Nothing can fail from
// there.
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/clock.h"
#include "engine/scheduler.h"

namespace reprise {

std::vector<BatchEntry> Scheduler::forward(std::span<const Chunk> chunks,
                                           std::span<const float>& logits) {
  std::vector<BatchEntry> entries;
  Position prefill_rows = 0, decode_rows = 0;
  for (const Chunk& chunk : chunks) {
    Sequence& sequence = *chunk.sequence;
    entries.push_back(
        {.cache = &sequence.cache,
         .tokens = sequence.tokens().subspan(static_cast<std::size_t>(sequence.offset()),
                                             static_cast<std::size_t>(chunk.rows)),
         .logit_rows = chunk.has_logits ? 1 : 0});
    (sequence.is_decoding() ? decode_rows : prefill_rows) += chunk.rows;
    shares_.serve(sequence.request().scope.tenant, static_cast<std::uint64_t>(chunk.rows));
  }
  if (options_.before_forward) options_.before_forward();
  const EngineClock::time_point begin = EngineClock::now();
  logits = decoder_.forward(entries);
  const std::chrono::duration<double, std::milli> elapsed = EngineClock::now() - begin;
  speed_.observe(prefill_rows, decode_rows, elapsed.count());
  stats_.steps++;
  stats_.forwarded_rows += static_cast<std::uint64_t>(prefill_rows + decode_rows);
  return entries;
}

void Scheduler::finish_chunk(const Chunk& chunk, bool is_finite, std::span<const float> logits) {
  Sequence& sequence = *chunk.sequence;
  if (!is_finite) {
    end(sequence, FinishReason::error,
        Error{
            Errc::corrupt,
            fmt::format("the model gave a key, value or logit that is not a finite number between "
                        "tokens {} and {}",
                        sequence.offset(), sequence.offset() + chunk.rows)});
    return;
  }
  const bool is_prefill = !sequence.has_sampled();
  const bool completes_prompt = is_prefill && chunk.has_logits;
  std::optional<FinishReason> reason;
  sequence.commit(chunk.rows);
  if (is_prefill) sequence.sink().on_prefill(sequence.offset(), sequence.prompt_length());
  if (completes_prompt) sequence.sink().on_prompt_done(sequence.usage());
  if (chunk.has_logits) reason = sample(sequence, logits);
  if (reason) {
    end(sequence, *reason);
  } else {
    publish(sequence, completes_prompt);
  }
}

std::optional<FinishReason> Scheduler::sample(Sequence& sequence, std::span<const float> logits) {
  const GenerationRequest& request = sequence.request();
  const SampledToken token = sampler_.sample(logits, request.sampling, request.choice,
                                             sequence.length(), request.top_logprobs);
  sequence.count_sampled(EngineClock::now());
  stats_.completion_tokens++;
  if (std::ranges::find(request.stop_ids, token.id) != request.stop_ids.end()) {
    return FinishReason::stop;
  }
  sequence.append(token.id);
  switch (sequence.sink().on_token(token)) {
    case SequenceSink::Verdict::stop:
      return FinishReason::stop;
    case SequenceSink::Verdict::cancel:
      return FinishReason::cancelled;
    case SequenceSink::Verdict::go_on:
      break;
  }
  if (sequence.length() - sequence.prompt_length() >= request.max_tokens) {
    return FinishReason::length;
  }
  return std::nullopt;
}

// The unfinished block is published at the prompt's end and at the reply's: places where others
// begin.
void Scheduler::publish(Sequence& sequence, bool with_tail) {
  if (sequence.uses_prompt_cache) {
    const std::span<const TokenId> tokens = sequence.forwarded_tokens();
    prompt_cache_.publish(sequence.path, tokens, sequence.cache, with_tail);
    const Position published = with_tail ? sequence.offset() : sequence.path.published();
    for (const Sequence::Mark& mark : sequence.take_marks(published)) {
      prompt_cache_.mark(sequence.path, tokens, mark.position, mark.kind);
    }
  }
  sequence.cache.drop_unneeded();
}

// After the end was published: what a return to the conversation needs stays for a while.
void Scheduler::pin(Sequence& sequence) {
  const std::int64_t pin_ms = sequence.request().pin_ms;
  if (pin_ms <= 0 || !sequence.uses_prompt_cache) return;
  if (prompt_cache_.pin(sequence.path, sequence.forwarded_tokens(), sequence.offset(),
                        unix_milliseconds() + pin_ms)) {
    sequence.set_pinned();
  }
}

}  // namespace reprise
