// The engine thread's own state: all sequences, the KV memory, the prompt cache, the decoder.
// One step moves every sequence that can be moved. Used by one thread only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/sequence.h"
#include "engine/side_thread.h"
#include "engine/step_plan.h"
#include "engine/tenant_shares.h"
#include "engine/turns.h"
#include "model/decoder.h"

namespace reprise {

class Scheduler {
 public:
  Scheduler(const Model& model, const kernels::KernelTable& kernels, ThreadPool& pool,
            const EngineOptions& options);

  // ---- between steps ----------------------------------------------------------------------------
  // Requests that were submitted together, with the ids `first`, first + 1, ...
  void accept(RequestId first, std::vector<GenerationRequest> requests, EngineClock::time_point at);
  void cancel(RequestId id);
  void cancel_all();
  // Ends what is past its own time limit.
  void end_late();
  // After an exception out of step(): every request ends with this error. Nothing else is touched,
  // since pages and tries may be half changed: from now on only accept() and another fail(),
  // tell_ends() and stats() may be called, and the scheduler must never be destroyed.
  void fail(const std::string& reason);
  bool has_work() const { return !running_.empty() || !waiting_.empty(); }
  PromptCache& prompt_cache() { return prompt_cache_; }
  const PromptCache& prompt_cache() const { return prompt_cache_; }
  EngineStats stats() const;  // without the prompt cache's
  bool has_ends() const { return !ended_.empty(); }
  // Calls on_end of the requests that ended since the last call; returns the tenant of each.
  std::vector<std::string> tell_ends();
  // CHECKs the ledger and the cache.
  void check_invariants() const;

  // Moves some pages together so that memory goes back to the system; false: nothing is left to do.
  bool compact() { return pages_.compact() > 0; }

  // ---- one step ---------------------------------------------------------------------------------
  void step();

 private:
  // A planned chunk whose places are reserved.
  struct Chunk {
    Sequence* sequence = nullptr;
    Position rows = 0;
    bool has_logits = false;     // its last token is the sequence's last: a token can be sampled
    bool judges_prompt = false;  // logits of all its rows are wanted: what follows is in the prompt
    // Of a decoding sequence: what may follow, and how much of that is forwarded too, places being
    // reserved. Such rows are scratch until they come true.
    Draft draft = {};
    int drafted = 0;
    std::vector<TokenId> tokens = {};  // where something is: the last token, then the draft's

    bool samples() const { return has_logits && sequence->tokens_left() > 0; }
    int logit_rows() const {
      return judges_prompt ? static_cast<int>(rows) : has_logits ? 1 + drafted : 0;
    }
    // Of them the one that the next token is sampled from.
    int sampled_row() const { return logit_rows() - 1 - drafted; }
  };
  struct Ending {
    FinishReason reason = FinishReason::stop;
    std::optional<Error> error = {};
  };
  // What the forward pass of all chunks gave.
  struct Pass {
    std::vector<BatchEntry> entries = {};  // one a chunk
    std::span<const float> logits = {};    // their rows, one after another
    EngineClock::time_point begin = {};
  };
  using SequenceList = std::vector<std::unique_ptr<Sequence>>;
  // What the plan grants a sequence.
  struct PlannedRows {
    Sequence* sequence = nullptr;
    Position rows = 0;
  };

  // ---- scheduler_admission.cpp
  void admit();
  // Starts one waiting sequence; false: it must wait for room.
  bool try_admit(Sequence& sequence);
  bool has_room() const;
  bool make_place(const Sequence& candidate);
  Turn turn_of(const Sequence& sequence) const;
  std::vector<Turn> turns(std::span<const std::unique_ptr<Sequence>> sequences) const;

  // ---- scheduler.cpp
  void choose_prefixes(Sequence& sequence, bool has_siblings);
  // Lets every prefilling sequence stand at the deepest position that is known now.
  void match_prefixes();
  void match_prefix(Sequence& sequence);
  std::vector<PlannedRows> plan() const;
  // A number for all running sequences that use each other's blocks; -1: it uses nobody's.
  int share_of(const Sequence& sequence) const;
  void start_prefills(std::span<const PlannedRows> planned);
  void count_lookup(Sequence& sequence);

  // ---- scheduler_room.cpp: places for the plan's rows. Evicts from the prompt cache, shortens or
  // postpones prefill, preempts the last in turn.
  std::vector<Chunk> reserve(std::span<const PlannedRows> planned);
  Position reserve_rows(Sequence& sequence, Position rows, bool others_proceed);
  bool try_reserve(Sequence& sequence, Position rows);
  Sequence& last_in_turn() const;
  void preempt(Sequence& sequence);
  void preempt_for_room(Sequence& sequence);
  void restart_cold(Sequence& sequence);

  // ---- scheduler_drafts.cpp: guesses at what the decoding sequences will sample.
  void add_drafts(std::span<Chunk> chunks);
  void propose(Chunk& chunk) const;
  void plan_drafted(std::span<Chunk* const> decoding);
  void draft_rows(Chunk& chunk, int rows);
  // Whether the token that was sampled from the chunk's row was guessed.
  bool judge_guess(const Chunk& chunk, std::size_t row, TokenId sampled) const;

  // ---- scheduler_commit.cpp
  // Forwards all chunks; then each one's token is sampled, its rows committed, its blocks
  // published.
  Pass forward(std::span<const Chunk> chunks);
  // A step's forward pass began then; its first rows are sampled now.
  void observe_speed(std::span<const Chunk> chunks, EngineClock::time_point begin);
  // What follows each chunk, by its first row of logits.
  std::vector<std::optional<SampledToken>> sample_first_rows(std::span<const Chunk> chunks,
                                                             std::span<const BatchEntry> entries,
                                                             std::span<const float> logits);
  void finish_chunk(const Chunk& chunk, int finite_rows, const std::optional<SampledToken>& first,
                    std::span<const float> logits);
  // How the sequence ends, if it does, after the tokens of all rows that came true.
  std::optional<Ending> take_rows(const Chunk& chunk, int finite_rows,
                                  std::optional<SampledToken> token, std::span<const float> logits);
  // The same, after this token.
  std::optional<Ending> take_token(Sequence& sequence, const SampledToken& token);
  // nullopt: nothing may follow, or the constraint failed.
  std::optional<SampledToken> sample(const Sequence& sequence, std::span<const float> logits,
                                     int worker);
  void count_forwarded(const Sequence& sequence, Position rows);
  void publish(Sequence& sequence, bool with_tail);

  void pin(Sequence& sequence);

  // ---- scheduler_rows.cpp: what rows of logits are wanted for besides the next token.
  // Computes the masks of all that sample in this step, beside the forward pass.
  SideThread::Work start_masks(std::span<const Chunk> chunks);
  // Tells it and its siblings what the chunk's rows think of the prompt's tokens.
  void judge_prompt(const Chunk& chunk, std::span<const float> logits);

  // ---- scheduler_ends.cpp
  // Ends a running sequence: its forwarded tokens stay in the prompt cache, except after an error.
  void end(Sequence& sequence, FinishReason reason, std::optional<Error> error = std::nullopt);
  void end_waiting(const Sequence& sequence, FinishReason reason, std::optional<Error> error);
  // All three leave the sequence where it is if memory is refused, so that fail() finds it there.
  static void move(SequenceList& from, SequenceList& to, const Sequence& sequence);
  void leave(SequenceList& list, const Sequence& sequence, FinishReason reason,
             std::optional<Error> error);
  void add_end(std::unique_ptr<Sequence>& sequence, FinishReason reason,
               std::optional<Error> error);
  static SequenceList::iterator find(SequenceList& list, const Sequence& sequence);
  void count_end(const SequenceEnd& end);

  const EngineOptions options_;
  const std::size_t vocabulary_;
  PagePool pages_;
  PromptCache prompt_cache_;
  // What requests that were submitted together have in common, where they may not use the prompt
  // cache: a scope for each submission, until the last of its requests ended.
  PromptCache sibling_cache_;
  std::map<RequestId, std::size_t> siblings_;  // requests that did not end, of each such submission
  Decoder decoder_;
  ThreadPool* pool_;
  std::vector<Sampler> samplers_;  // one a worker
  SideThread mask_thread_;
  StepSpeed speed_;
  StepCosts step_costs_;

  SequenceList waiting_, running_;
  SequenceList failed_;             // what fail() ended: never destroyed, as the scheduler itself
  TenantShares shares_;             // of the tenants of both
  std::uint64_t running_ends_ = 0;  // running sequences that ended

  struct Ended {
    std::unique_ptr<Sequence> sequence;
    SequenceEnd end;
  };
  std::vector<Ended> ended_;  // not told yet
  EngineStats stats_;         // counters; gauges are filled in by stats()
};

}  // namespace reprise
