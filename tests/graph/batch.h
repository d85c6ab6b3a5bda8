// Several requests at once: when each is submitted and cancelled hangs on the others' progress, not
// on the clock, so that a graph runs the same way every time.
#pragma once
#include <condition_variable>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "graph/conversation.h"
#include "graph/graph_request.h"

namespace reprise::testing {

// When a request of the batch has come so far, or has ended.
struct Moment {
  enum class Kind : std::uint8_t { prefilled, tokens };
  std::size_t request = 0;
  Kind kind = Kind::tokens;
  Position count = 0;
};

struct PlannedRequest {
  std::string operation;  // what a client did to come to this request
  Conversation conversation;
  GraphRequest request;
  std::optional<Moment> starts_at;     // of an earlier request; nullopt: at once
  std::optional<Moment> cancelled_at;  // of any request of the batch
  bool is_cancelled_in_queue = false;  // cancelled before the engine looks at it
  Position leaves_at = 0;              // the sink says cancel at this token; 0: never
};

struct Outcome {
  Answer answer;
  SequenceEnd end;
  int ends = 0;
  Position prefilled = 0;  // as told
  std::string trouble;     // refused, or told something in the wrong order

  // Tokens whose keys and values were computed or restored: the entry that the cache may hold.
  Position forwarded(const GraphRequest& request) const {
    if (end.usage.completion_tokens == 0) return prefilled;
    return static_cast<Position>(request.prompt.size()) + end.usage.completion_tokens - 1;
  }
};

class Batch {
 public:
  // The engine must be idle, and gone before the batch is.
  Batch(Engine& engine, std::vector<PlannedRequest> planned);
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Until all have ended; false when the engine fell silent.
  bool run();
  const std::vector<PlannedRequest>& planned() const { return planned_; }
  // Read these after run(), or again when the engine is gone.
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  int gate_ends() const { return gate_ends_; }

 private:
  class Sink;
  class Gate;
  enum class Started : std::uint8_t { no, yes, refused };

  SequenceSink::Verdict on_token(std::size_t index, const SampledToken& token);
  void on_end(std::size_t index, const SequenceEnd& end);
  void on_prefill(std::size_t index, Position done);
  bool is_reached(const Moment& moment) const;
  void submit(std::size_t index);
  void act();  // submits and cancels what is due

  Engine* engine_;
  std::mutex mutex_;  // of what follows: sinks are called on the engine thread
  std::condition_variable changed_;
  std::vector<PlannedRequest> planned_;
  std::vector<Outcome> outcomes_;
  std::vector<Started> started_;
  std::vector<RequestId> ids_;
  std::vector<bool> is_cancelled_;
  int gate_ends_ = 0;
  std::binary_semaphore gate_reached_{0}, gate_open_{0};
};

}  // namespace reprise::testing
