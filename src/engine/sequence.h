// One accepted request on its way: its tokens, its keys and values, and what is still to be done.
#pragma once
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "engine/ngram_drafter.h"
#include "engine/request.h"
#include "engine/speculation.h"
#include "kv/prompt_cache.h"
#include "kv/sequence_cache.h"

namespace reprise {

using EngineClock = std::chrono::steady_clock;

class Sequence {
 public:
  // `submission`: the first of the requests that it was submitted with; alone its own id.
  Sequence(RequestId id, RequestId submission, GenerationRequest request, PagePool& pool,
           EngineClock::time_point now);

  // A place that the prompt cache shall keep longest, once it is published.
  struct Mark {
    Position position = 0;
    MarkKind kind = MarkKind::prompt_end;
  };

  RequestId id() const { return id_; }
  RequestId submission() const { return submission_; }
  const GenerationRequest& request() const { return request_; }
  SequenceSink& sink() { return *request_.sink; }
  // After on_end, of a sequence that stays: its service waits until its sinks are gone.
  void drop_sink() { request_.sink.reset(); }

  // The prompt, then what was sampled (never an end-of-sequence token).
  std::span<const TokenId> tokens() const { return tokens_; }
  std::span<const TokenId> forwarded_tokens() const;
  Position length() const { return static_cast<Position>(tokens_.size()); }
  Position prompt_length() const { return prompt_length_; }
  Position offset() const { return cache.offset(); }
  // Tokens that may still be sampled.
  Position tokens_left() const { return request_.max_tokens - (length() - prompt_length_); }
  // Where the next token is sampled, and what stands there.
  SamplingPlace place() const;
  // Tokens to forward before the next one can be sampled; at least 1.
  Position left() const { return length() - offset(); }
  bool has_sampled() const { return completion_tokens_ > 0; }
  bool is_decoding() const { return has_sampled() && left() == 1; }

  // ---- its constraint, if it has one
  // Whether the mask of the place after the last token is still to be computed.
  bool needs_mask() const { return request_.constraint && !has_mask_ && !constraint_error_; }
  void compute_mask();
  // Goes on by a token that ends nothing. False: the reply is complete. Errors: see
  // constraint_error(), which is set then.
  bool advance_constraint(TokenId token);
  const std::optional<Error>& constraint_error() const { return constraint_error_; }

  // ---- logprobs of the prompt's tokens (prompt_logprobs)
  // Whether some of them are still to be told: then the logits of rows are wanted from
  // rows_judged() on.
  bool judges_prompt() const {
    return request_.prompt_logprobs >= 0 && rows_judged_ < prompt_length_ - 1;
  }
  Position rows_judged() const { return rows_judged_; }
  void set_rows_judged(Position rows) { rows_judged_ = rows; }
  // Whether the other one was submitted with this one and is to be told the same.
  bool judges_with(const Sequence& other) const;
  // Tokens that need not be forwarded where the prompt cache has them: the logits of the last one
  // are always wanted.
  Position skippable() const { return judges_prompt() ? rows_judged_ : length() - 1; }

  // The next `rows` tokens were forwarded: their keys and values become part of the sequence.
  void commit(Position rows);
  // A token was sampled; an end-of-sequence token counts but is not appended.
  void count_sampled(EngineClock::time_point now);
  void append(TokenId token) { tokens_.push_back(token); }
  // Gives up all pages: everything will be matched or forwarded again, the sampled tokens included.
  void release_pages(PagePool& pool);

  // What the prompt cache found when prefill started, and that prefill started now.
  void start_prefill(const PromptCache::Match& match, EngineClock::time_point now);
  bool has_started() const { return started_at_.has_value(); }

  EngineClock::time_point accepted_at() const { return accepted_at_; }
  // It waits for a place from its acceptance on, and whenever it lost one.
  void begin_waiting(EngineClock::time_point now) { waits_since_ = now; }
  void end_waiting(EngineClock::time_point now);
  EngineClock::duration waited(EngineClock::time_point now) const;
  // Past its own limit (timeout_ms).
  bool is_late(EngineClock::time_point now) const;
  // Its reply's text stands in the prompt in other tokens, from this place on.
  void set_retokenised(Position at) { retokenised_at_ = at; }
  void set_pinned() { is_pinned_ = true; }

  // Takes the marks at or before `published`.
  std::vector<Mark> take_marks(Position published);
  void add_mark(Position position, MarkKind kind) { marks_.push_back({position, kind}); }

  Usage usage() const;
  Timings timings(EngineClock::time_point now) const;

  SequenceCache cache;
  // Where it finds prefixes and leaves its own, and under which scope; null: nowhere.
  PromptCache* prefixes = nullptr;
  CacheScope scope;
  // Why those are not the prompt cache's.
  std::optional<MissReason> no_prompt_cache;
  PromptCache::Path path;
  PromptCache::Match match;  // the newest, until prefill starts
  Position restored = 0;     // the offset that the newest restore gave
  // A check failed (and was counted), or the restored state left no room to go on: prefill cold.
  bool is_restore_refused = false;
  // How many running sequences had ended when it was preempted for want of room.
  std::optional<std::uint64_t> preempted_after;
  NgramDrafter drafter;
  GuessRecord guesses;

 private:
  RequestId id_, submission_;
  GenerationRequest request_;  // its prompt was moved into tokens_
  std::vector<TokenId> tokens_;
  Position prompt_length_;
  std::vector<Mark> marks_;
  std::vector<bool> was_forwarded_;  // by prompt position, until a token was sampled
  Position reached_ = 0;             // the largest offset so far
  Position completion_tokens_ = 0;
  Position rows_judged_ = 0;  // rows of the prompt whose next token's logprob was told
  bool has_mask_ = false;
  std::optional<Error> constraint_error_;
  PromptCache::Match first_match_;
  std::optional<Position> retokenised_at_;
  bool is_pinned_ = false;
  EngineClock::time_point accepted_at_;
  std::optional<EngineClock::time_point> waits_since_;
  EngineClock::duration waited_ = {};  // before that
  std::optional<EngineClock::time_point> started_at_, first_token_at_;
};

}  // namespace reprise
