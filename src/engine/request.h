// What the engine is asked to do, and whom it tells. Token ids only: the engine knows no words.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "engine/sampling.h"
#include "kv/prompt_cache.h"

namespace reprise {

enum class RequestId : std::uint64_t {};

enum class FinishReason : std::uint8_t {
  stop,       // end-of-sequence token, the sink said stop, or nothing may follow (TokenConstraint)
  length,     // max_tokens or the context length
  timeout,    // the request's own limit
  cancelled,  // the client left, or the server stops
  error,
};

struct Usage {
  Position prompt_tokens = 0;
  Position cached_tokens = 0;      // prompt tokens that were not forwarded for this request
  Position completion_tokens = 0;  // sampled, an end-of-sequence token included
  std::optional<MissReason> miss;  // why nothing was found, when cached_tokens is 0
  Position diverged_at = 0;        // where the prompt left the cached path
  // The prompt left it inside a reply whose text it repeats in other tokens.
  std::optional<Position> retokenised_at;
  bool is_pinned = false;  // what was asked to be kept (pin_ms) is
};

// Times in milliseconds of a monotonic clock, for logs and `run`.
struct Timings {
  double queued_ms = 0, prefill_ms = 0, decode_ms = 0;
};

struct SequenceEnd {
  FinishReason reason = FinishReason::stop;
  std::optional<Error> error;  // set when reason is error
  Usage usage;
  Timings timings;
};

// Which tokens may come next: a grammar, kept by whoever knows words. Never used by two threads at
// once, but not always by the same one.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // What may follow the tokens so far; beside the forward pass. Once before each token is sampled;
  // a preemption in between changes nothing. Errors end the request.
  virtual Status compute_mask() = 0;
  // Of the newest compute_mask: bit `id % 32` of word `id / 32` is set when the token may follow.
  // Stop tokens are among them; ids behind the last word may not follow. Empty: every token may.
  // Where bans (banned_ids; stop_ids before min_tokens) leave nothing, the reply ends with stop.
  virtual std::span<const std::uint32_t> mask() const = 0;
  // A token was sampled that ends nothing, and told. False: nothing can follow, the reply is
  // complete.
  virtual Result<bool> advance(TokenId token) = 0;
};

// Receives a request's tokens. Called on the engine thread; must not block. on_end comes exactly
// once, last, whatever happened (law L7), unless submit() itself refused the request.
class SequenceSink {
 public:
  virtual ~SequenceSink() = default;
  enum class Verdict : std::uint8_t { go_on, stop, cancel };
  // A sampled token (never an end-of-sequence id that ends the reply). The verdict decides whether
  // the sequence goes on: stop ends it with FinishReason::stop, before the token is forwarded.
  virtual Verdict on_token(const SampledToken& token) = 0;
  virtual void on_end(const SequenceEnd& end) = 0;
  // The prompt is forwarded and its part of the usage is final. Once, before the first token
  // (never, when the sequence ends before that): a reply's head can then say what the cache gave.
  virtual void on_prompt_done(const Usage& usage) { static_cast<void>(usage); }
  // Whether a prompt goes on as a cached reply did, in other tokens: both begin at the place where
  // they part, and either may be cut off. Asked at most once, before the first token.
  virtual bool is_same_text(std::span<const TokenId> cached, std::span<const TokenId> prompt) {
    static_cast<void>(cached);
    static_cast<void>(prompt);
    return false;
  }
  // What the model thought of the prompt's tokens (prompt_logprobs), in order, from the second on
  // (nothing comes before the first); in pieces, all of them before on_prompt_done.
  virtual void on_prompt_logprobs(std::span<const SampledToken> tokens) {
    static_cast<void>(tokens);
  }
  // Prompt tokens whose keys and values exist so far (cached ones included), after each prefill
  // chunk; of them, those that the cache gave; and all there are.
  virtual void on_prefill(Position done, Position cached, Position total) {
    static_cast<void>(done);
    static_cast<void>(cached);
    static_cast<void>(total);
  }
};

// Who goes first. Waiting raises it: a low one cannot starve.
enum class Priority : std::uint8_t { low, normal, high };

struct GenerationRequest {
  std::vector<TokenId> prompt;    // not empty
  Position history_boundary = 0;  // prompt tokens that the next turn's prompt begins with; 0: none
  std::vector<Position> turn_ends;  // prompt tokens up to each message's end, ascending
  // What exceeds the context is refused, never clamped. 0: nothing is sampled, the reply ends with
  // the prompt (FinishReason::length).
  Position max_tokens = 0;
  SamplingParams sampling;
  std::uint32_t choice = 0;
  std::vector<TokenId> stop_ids;                // end the reply, are not part of it
  std::vector<TokenId> banned_ids;              // never sampled
  Position min_tokens = 0;                      // stop_ids are banned until so many were sampled
  std::unique_ptr<TokenConstraint> constraint;  // null: none
  int top_logprobs = -1;                        // -1: no logprobs
  // The same of the prompt's tokens, from the second on. Then all of the prompt is forwarded:
  // cached prefixes have no logits (MissReason::disabled; it is published as any other). Once for
  // all of those submitted together that ask the same of the same prompt.
  int prompt_logprobs = -1;
  CacheScope scope;         // tenant and part of the prompt cache (law L8)
  bool use_cache = true;    // false: the prompt cache is neither read nor written
  std::int64_t pin_ms = 0;  // keep the conversation so long after its end (PromptCache::pin)
  Priority priority = Priority::normal;
  std::int64_t timeout_ms = 0;  // from acceptance to the end; 0: none
  std::unique_ptr<SequenceSink> sink;
};

}  // namespace reprise
