// A reply on its way to the client, whatever its form: choices grow by deltas, end, and then the
// reply ends. One implementation for each form of reply, whole or streamed.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "base/types.h"
#include "engine/request.h"
#include "text/reply_parser.h"

namespace reprise {

// What is new of a choice. The first one comes with the first token and may be all empty: text may
// still be held back. Put together, they are the reply, whole or streamed.
struct ChoiceDelta {
  std::vector<ReplyPart> parts;        // in order
  std::vector<SampledToken> logprobs;  // of the tokens behind the parts, when they were asked for
  std::vector<TokenId> token_ids;      // the same, when these were asked for
  std::size_t token_count = 0;         // the same, always
  bool is_empty() const { return parts.empty() && logprobs.empty() && token_ids.empty(); }
};

struct ChoiceEnd {
  enum class Reason : std::uint8_t { stop, length, tool_calls };
  Reason reason = Reason::stop;
  std::string stop_string;  // the one that ended it; empty: another thing did
  Usage usage;
  Position reasoning_tokens = 0;  // of usage.completion_tokens: those that thoughts took
  Timings timings;
};
std::string_view finish_reason_name(ChoiceEnd::Reason reason);  // as OpenAI says it

// All calls come on the engine thread, none may wait. After end() or fail() there are no more.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  // The prompt of a choice is so far (return_progress): tokens done, of them cached, in all;
  // before its prompt_done.
  virtual void progress(int choice, Position done, Position cached, Position total,
                        double elapsed_ms) = 0;
  // A prompt is forwarded; before its choice's first delta. What the head says about the cache.
  virtual void prompt_done(int choice, const Usage& usage) = 0;
  // Log probabilities of the prompt's tokens from the second on (echo), before prompt_done.
  virtual void prompt_logprobs(int choice, std::vector<SampledToken> tokens) = 0;
  virtual void delta(int choice, ChoiceDelta delta) = 0;
  virtual void choice_end(int choice, const ChoiceEnd& end) = 0;
  // All choices have ended: usage is the sum (a prompt counts once for all its choices).
  virtual void end(const Usage& usage) = 0;
  // The reply ends in an error, before or after its head.
  virtual void fail(const ApiError& error) = 0;
};

}  // namespace reprise
