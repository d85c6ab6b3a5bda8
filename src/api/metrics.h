// What /metrics says: the engine's published counters, and the service's own. Counts only, no text.
#pragma once
#include <memory>
#include <string>

#include "api/routes.h"
#include "engine/engine.h"

namespace reprise {

// Status of a generation whose client left before its head was sent (nginx's number).
inline constexpr int kClientLeft = 499;

// Prometheus metrics under the prefix reprise_. Any thread.
class Metrics {
 public:
  explicit Metrics(const Engine& engine);  // must outlive this
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  void count_reply(Endpoint endpoint, int status);
  void observe_first_token(double seconds);
  void observe_inter_token(double seconds);  // between two tokens of one reply
  void observe_end(const SequenceEnd& end, double seconds);

  // The text exposition format, version 0.0.4.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
