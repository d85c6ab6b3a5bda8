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
namespace {

double milliseconds_since(EngineClock::time_point begin) {
  return std::chrono::duration<double, std::milli>(EngineClock::now() - begin).count();
}

}  // namespace

Scheduler::Pass Scheduler::forward(std::span<const Chunk> chunks) {
  Pass pass;
  int decoding = 0, drafted = 0;
  for (const Chunk& chunk : chunks) {
    Sequence& sequence = *chunk.sequence;
    const std::span<const TokenId> tokens = sequence.tokens().subspan(
        static_cast<std::size_t>(sequence.offset()), static_cast<std::size_t>(chunk.rows));
    pass.entries.push_back({.cache = &sequence.cache,
                            .tokens = chunk.drafted > 0 ? chunk.tokens : tokens,
                            .logit_rows = chunk.logit_rows()});
    decoding += sequence.is_decoding() ? 1 : 0;
    drafted += chunk.drafted;
    count_forwarded(sequence, chunk.rows);
  }
  SideThread::Work masks = start_masks(chunks);
  if (options_.before_forward) options_.before_forward();
  pass.begin = EngineClock::now();
  pass.logits = decoder_.forward(pass.entries);
  if (static_cast<std::size_t>(decoding) == chunks.size()) {
    step_costs_.observe(decoding, drafted, milliseconds_since(pass.begin));
  }
  masks.wait();
  stats_.steps++;
  stats_.drafted_tokens += static_cast<std::uint64_t>(drafted);
  return pass;
}

// Clients feel the whole step: to the forward pass come masks that take longer, and a vocabulary to
// sample from for each stream.
void Scheduler::observe_speed(std::span<const Chunk> chunks, EngineClock::time_point begin) {
  Position prefill_rows = 0, decode_rows = 0;
  for (const Chunk& chunk : chunks) {
    if (chunk.judges_prompt) return;  // logits of prompt rows cost what no other prefill row does
    (chunk.sequence->is_decoding() ? decode_rows : prefill_rows) += chunk.rows + chunk.drafted;
  }
  speed_.observe(prefill_rows, decode_rows, milliseconds_since(begin));
}

// Rows that became nothing are no service: neither the tenant nor anybody else gained by them.
void Scheduler::count_forwarded(const Sequence& sequence, Position rows) {
  shares_.serve(sequence.request().scope.tenant, static_cast<std::uint64_t>(rows));
  stats_.forwarded_rows += static_cast<std::uint64_t>(rows);
}

// All workers sample: a vocabulary takes long enough to be felt when many sequences decode. A token
// depends on its own row, parameters and position only (law L1).
std::vector<std::optional<SampledToken>> Scheduler::sample_first_rows(
    std::span<const Chunk> chunks, std::span<const BatchEntry> entries,
    std::span<const float> logits) {
  std::vector<std::optional<SampledToken>> tokens(chunks.size());
  std::vector<std::size_t> with_logits, rows;  // chunks, and where their logits begin
  std::size_t row = 0;
  for (std::size_t index = 0; index < chunks.size(); index++) {
    if (chunks[index].samples() && entries[index].finite_rows >= chunks[index].rows) {
      with_logits.push_back(index);
      rows.push_back(row + static_cast<std::size_t>(chunks[index].sampled_row()));
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

std::optional<SampledToken> Scheduler::sample(const Sequence& sequence,
                                              std::span<const float> logits, int worker) {
  if (sequence.constraint_error()) return std::nullopt;
  const GenerationRequest& request = sequence.request();
  return samplers_[static_cast<std::size_t>(worker)].sample(logits, request.sampling,
                                                            sequence.place(), request.top_logprobs);
}

void Scheduler::finish_chunk(const Chunk& chunk, int finite_rows,
                             const std::optional<SampledToken>& first,
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
  std::optional<Ending> ending;
  if (chunk.judges_prompt) judge_prompt(chunk, logits);
  sequence.commit(chunk.rows);
  if (is_prefill) {
    sequence.sink().on_prefill(sequence.offset(), sequence.usage().cached_tokens,
                               sequence.prompt_length());
  }
  if (completes_prompt) sequence.sink().on_prompt_done(sequence.usage());
  if (chunk.samples()) {
    ending = take_rows(chunk, finite_rows, first, logits);
  } else if (chunk.has_logits) {  // max_tokens 0
    ending = Ending{FinishReason::length};
  }
  sequence.cache.give_back();
  if (ending) {
    end(sequence, ending->reason, std::move(ending->error));
  } else {
    publish(sequence, completes_prompt);
  }
}

// A drafted row counts when its token is what was sampled from the row before: then it is the row
// that plain decoding would forward next, and everything happens as there. One that is not finite,
// or that came too late, is left to the next step, which ends the sequence.
std::optional<Scheduler::Ending> Scheduler::take_rows(const Chunk& chunk, int finite_rows,
                                                      std::optional<SampledToken> token,
                                                      std::span<const float> logits) {
  Sequence& sequence = *chunk.sequence;
  for (int row = 0;; row++) {
    if (sequence.constraint_error()) {
      return Ending{FinishReason::error, sequence.constraint_error()};
    }
    if (!token) return Ending{FinishReason::stop};
    std::optional<Ending> ending = take_token(sequence, *token);
    const bool was_guessed = judge_guess(chunk, static_cast<std::size_t>(row), token->id);
    if (ending || row == chunk.drafted || !was_guessed) return ending;
    if (finite_rows <= chunk.rows + row || sequence.is_late(EngineClock::now())) return ending;
    sequence.commit(1);
    count_forwarded(sequence, 1);
    stats_.accepted_tokens++;
    if (sequence.needs_mask()) sequence.compute_mask();
    const auto next = static_cast<std::size_t>(row + 1);
    token = sample(sequence, logits.subspan(next * vocabulary_, vocabulary_), 0);
  }
}

std::optional<Scheduler::Ending> Scheduler::take_token(Sequence& sequence,
                                                       const SampledToken& token) {
  const GenerationRequest& request = sequence.request();
  sequence.count_sampled(EngineClock::now());
  stats_.completion_tokens++;
  if (std::ranges::find(request.stop_ids, token.id) != request.stop_ids.end()) {
    return Ending{FinishReason::stop};
  }
  sequence.append(token.id);
  switch (sequence.sink().on_token(token)) {
    case SequenceSink::Verdict::stop:
      return Ending{FinishReason::stop};
    case SequenceSink::Verdict::cancel:
      return Ending{FinishReason::cancelled};
    case SequenceSink::Verdict::go_on:
      break;
  }
  if (!sequence.advance_constraint(token.id)) {
    const std::optional<Error>& error = sequence.constraint_error();
    return Ending{error ? FinishReason::error : FinishReason::stop, error};
  }
  if (sequence.tokens_left() <= 0) return Ending{FinishReason::length};
  return std::nullopt;
}

// The unfinished block is published at the prompt's end and at the reply's: places where others
// begin.
void Scheduler::publish(Sequence& sequence, bool with_tail) {
  if (sequence.prefixes != nullptr) {
    const std::span<const TokenId> tokens = sequence.forwarded_tokens();
    sequence.prefixes->publish(sequence.path, tokens, sequence.cache, with_tail);
    const Position published = with_tail ? sequence.offset() : sequence.path.published();
    for (const Sequence::Mark& mark : sequence.take_marks(published)) {
      sequence.prefixes->mark(sequence.path, tokens, mark.position, mark.kind);
    }
  }
  sequence.cache.drop_unneeded();
}

// After the end was published: what a return to the conversation needs stays for a while.
void Scheduler::pin(Sequence& sequence) {
  const std::int64_t pin_ms = sequence.request().pin_ms;
  if (pin_ms <= 0 || sequence.no_prompt_cache) return;
  if (prompt_cache_.pin(sequence.path, sequence.forwarded_tokens(), sequence.offset(),
                        unix_milliseconds() + pin_ms)) {
    sequence.set_pinned();
  }
}

}  // namespace reprise
