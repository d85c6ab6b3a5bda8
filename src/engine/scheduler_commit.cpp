// After the forward: sample, ask whether to stop, commit, publish, end. Nothing can fail from here.
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "engine/scheduler.h"

namespace reprise {

std::vector<BatchEntry> Scheduler::forward(std::span<const Chunk> chunks,
                                           std::span<const float>& logits) {
  std::vector<BatchEntry> entries;
  Position rows = 0;
  bool has_prefill = false;
  for (const Chunk& chunk : chunks) {
    Sequence& sequence = *chunk.sequence;
    entries.push_back(
        {.cache = &sequence.cache,
         .tokens = sequence.tokens().subspan(static_cast<std::size_t>(sequence.offset()),
                                             static_cast<std::size_t>(chunk.rows)),
         .logit_rows = chunk.has_logits ? 1 : 0});
    rows += chunk.rows;
    has_prefill = has_prefill || !sequence.is_decoding();
  }
  const EngineClock::time_point begin = EngineClock::now();
  logits = decoder_.forward(entries);
  const std::chrono::duration<double, std::milli> elapsed = EngineClock::now() - begin;
  if (has_prefill) speed_.observe(rows, elapsed.count());
  stats_.steps++;
  stats_.forwarded_rows += static_cast<std::uint64_t>(rows);
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

void Scheduler::end(Sequence& sequence, FinishReason reason, std::optional<Error> error) {
  if (reason != FinishReason::error && sequence.offset() > 0) {
    if (sequence.has_sampled()) {
      sequence.add_mark(sequence.offset(), MarkKind::completion_end);
    }
    publish(sequence, true);
  }
  sequence.release_pages(pages_);
  is_admission_held_ = false;
  SequenceEnd ending{reason, std::move(error), sequence.usage(),
                     sequence.timings(EngineClock::now())};
  count_end(ending);
  ended_.push_back({take_running(sequence), std::move(ending)});
}

void Scheduler::end_waiting(std::unique_ptr<Sequence> sequence, FinishReason reason) {
  SequenceEnd ending{reason, std::nullopt, sequence->usage(),
                     sequence->timings(EngineClock::now())};
  count_end(ending);
  ended_.push_back({std::move(sequence), std::move(ending)});
}

void Scheduler::cancel(RequestId id) {
  const auto has_id = [&](const auto& sequence) { return sequence->id() == id; };
  const auto running = std::ranges::find_if(running_, has_id);
  if (running != running_.end()) {
    end(**running, FinishReason::cancelled);
    return;
  }
  const auto waiting = std::ranges::find_if(waiting_, has_id);
  if (waiting == waiting_.end()) return;
  std::unique_ptr<Sequence> sequence = std::move(*waiting);
  waiting_.erase(waiting);
  end_waiting(std::move(sequence), FinishReason::cancelled);
}

void Scheduler::cancel_all() {
  while (!running_.empty()) cancel(running_.back()->id());
  while (!waiting_.empty()) cancel(waiting_.back()->id());
}

void Scheduler::count_end(const SequenceEnd& ending) {
  stats_.cached_tokens += static_cast<std::uint64_t>(ending.usage.cached_tokens);
  switch (ending.reason) {
    case FinishReason::stop:
      stats_.ends_stop++;
      break;
    case FinishReason::length:
      stats_.ends_length++;
      break;
    case FinishReason::cancelled:
      stats_.ends_cancelled++;
      break;
    case FinishReason::error:
      stats_.ends_error++;
      break;
  }
}

std::size_t Scheduler::tell_ends() {
  for (const Ended& ended : ended_) ended.sequence->sink().on_end(ended.end);
  const std::size_t count = ended_.size();
  ended_.clear();
  return count;
}

}  // namespace reprise
