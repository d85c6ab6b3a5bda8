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
  int decoding = 0, drafted = 0;
  for (const Chunk& chunk : chunks) {
    Sequence& sequence = *chunk.sequence;
    const std::span<const TokenId> tokens = sequence.tokens().subspan(
        static_cast<std::size_t>(sequence.offset()), static_cast<std::size_t>(chunk.rows));
    entries.push_back({.cache = &sequence.cache,
                       .tokens = chunk.drafted > 0 ? chunk.tokens : tokens,
                       .logit_rows = chunk.has_logits ? 1 + chunk.drafted : 0});
    (sequence.is_decoding() ? decode_rows : prefill_rows) += chunk.rows + chunk.drafted;
    decoding += sequence.is_decoding() ? 1 : 0;
    drafted += chunk.drafted;
    count_forwarded(sequence, chunk.rows);
  }
  if (options_.before_forward) options_.before_forward();
  const EngineClock::time_point begin = EngineClock::now();
  logits = decoder_.forward(entries);
  const std::chrono::duration<double, std::milli> elapsed = EngineClock::now() - begin;
  speed_.observe(prefill_rows, decode_rows, elapsed.count());
  if (prefill_rows == 0) step_costs_.observe(decoding, drafted, elapsed.count());
  stats_.steps++;
  stats_.drafted_tokens += static_cast<std::uint64_t>(drafted);
  return entries;
}

// Rows that became nothing are no service: neither the tenant nor anybody else gained by them.
void Scheduler::count_forwarded(const Sequence& sequence, Position rows) {
  shares_.serve(sequence.request().scope.tenant, static_cast<std::uint64_t>(rows));
  stats_.forwarded_rows += static_cast<std::uint64_t>(rows);
}

// All workers sample: a vocabulary takes long enough to be felt when many sequences decode. A token
// depends on its own row, parameters and position only (law L1).
std::vector<SampledToken> Scheduler::sample_first_rows(std::span<const Chunk> chunks,
                                                       std::span<const BatchEntry> entries,
                                                       std::span<const float> logits) {
  std::vector<SampledToken> tokens(chunks.size());
  std::vector<std::size_t> with_logits, rows;  // chunks, and where their logits begin
  std::size_t row = 0;
  for (std::size_t index = 0; index < chunks.size(); index++) {
    if (chunks[index].has_logits && entries[index].finite_rows >= chunks[index].rows) {
      with_logits.push_back(index);
      rows.push_back(row);
    }
    row += static_cast<std::size_t>(entries[index].logit_rows);
  }
  pool_->parallel_for(static_cast<int>(with_logits.size()), [&](int task, int worker) {
    const auto i = static_cast<std::size_t>(task);
    const Sequence& sequence = *chunks[with_logits[i]].sequence;
    tokens[with_logits[i]] =
        sample(sequence, logits.subspan(rows[i] * vocabulary_, vocabulary_), worker);
  });
  return tokens;
}

SampledToken Scheduler::sample(const Sequence& sequence, std::span<const float> logits,
                               int worker) {
  const GenerationRequest& request = sequence.request();
  return samplers_[static_cast<std::size_t>(worker)].sample(
      logits, request.sampling, request.choice, sequence.length(), request.top_logprobs);
}

void Scheduler::finish_chunk(const Chunk& chunk, int finite_rows, const SampledToken& first,
                             std::span<const float> logits) {
  Sequence& sequence = *chunk.sequence;
  if (finite_rows < chunk.rows) {
    sequence.cache.give_back();
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
  if (chunk.has_logits) reason = take_rows(chunk, finite_rows, first, logits);
  sequence.cache.give_back();
  if (reason) {
    end(sequence, *reason);
  } else {
    publish(sequence, completes_prompt);
  }
}

// A drafted row counts when its token is what was sampled from the row before: then it is the row
// that plain decoding would forward next, and everything happens as there. One that is not finite,
// or that came too late, is left to the next step, which ends the sequence.
std::optional<FinishReason> Scheduler::take_rows(const Chunk& chunk, int finite_rows,
                                                 SampledToken token,
                                                 std::span<const float> logits) {
  Sequence& sequence = *chunk.sequence;
  for (int row = 0;; row++) {
    const std::optional<FinishReason> reason = take_token(sequence, token);
    const bool was_guessed = judge_guess(chunk, static_cast<std::size_t>(row), token.id);
    if (reason || row == chunk.drafted || !was_guessed) return reason;
    if (finite_rows <= chunk.rows + row || sequence.is_late(EngineClock::now())) return reason;
    sequence.commit(1);
    count_forwarded(sequence, 1);
    stats_.accepted_tokens++;
    const auto next = static_cast<std::size_t>(row + 1);
    token = sample(sequence, logits.subspan(next * vocabulary_, vocabulary_), 0);
  }
}

std::optional<FinishReason> Scheduler::take_token(Sequence& sequence, const SampledToken& token) {
  const GenerationRequest& request = sequence.request();
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
  if (sequence.tokens_left() <= 0) return FinishReason::length;
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
