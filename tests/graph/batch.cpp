// The gate holds the engine thread while the batch's first requests are submitted, so that the
// engine finds them all at once; everything later happens on the engine thread itself.
#include "graph/batch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>

namespace reprise::testing {
namespace {

constexpr std::chrono::minutes kSilence{5};

}  // namespace

class Batch::Sink final : public SequenceSink {
 public:
  Sink(Batch& batch, std::size_t index) : batch_(&batch), index_(index) {}

  Verdict on_token(const SampledToken& token) override { return batch_->on_token(index_, token); }
  void on_end(const SequenceEnd& end) override { batch_->on_end(index_, end); }
  void on_prefill(Position done, Position, Position) override {
    batch_->on_prefill(index_, done);
  }
  bool is_same_text(std::span<const TokenId> cached, std::span<const TokenId> prompt) override {
    return (cached.size() + prompt.size()) % 2 == 0;
  }

 private:
  Batch* batch_;
  std::size_t index_;
};

// A request of one token that stays in its step until the batch is submitted.
class Batch::Gate final : public SequenceSink {
 public:
  explicit Gate(Batch& batch) : batch_(&batch) {}

  Verdict on_token(const SampledToken&) override {
    batch_->gate_reached_.release();
    batch_->gate_open_.acquire();
    return Verdict::go_on;
  }
  void on_end(const SequenceEnd&) override {
    const std::lock_guard lock(batch_->mutex_);
    batch_->gate_ends_++;
    batch_->changed_.notify_all();
  }

 private:
  Batch* batch_;
};

Batch::Batch(Engine& engine, std::vector<PlannedRequest> planned)
    : engine_(&engine),
      planned_(std::move(planned)),
      outcomes_(planned_.size()),
      started_(planned_.size(), Started::no),
      ids_(planned_.size()),
      is_cancelled_(planned_.size(), false) {}

bool Batch::run() {
  GraphRequest gate;
  gate.prompt = {0};
  gate.use_cache = false;
  if (!engine_->submit(gate.with_sink(std::make_unique<Gate>(*this)))) return false;
  if (!gate_reached_.try_acquire_for(kSilence)) return false;
  {
    const std::lock_guard lock(mutex_);
    act();
  }
  gate_open_.release();
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kSilence, [&] {
    bool is_over = gate_ends_ > 0;
    for (std::size_t i = 0; i < planned_.size(); i++) {
      is_over = is_over && (started_[i] == Started::refused || outcomes_[i].ends > 0);
    }
    return is_over;
  });
}

SequenceSink::Verdict Batch::on_token(std::size_t index, const SampledToken& token) {
  const std::lock_guard lock(mutex_);
  const PlannedRequest& planned = planned_[index];
  Outcome& outcome = outcomes_[index];
  if (outcome.ends > 0) outcome.trouble = "a token after the end";
  if (outcome.prefilled != static_cast<Position>(planned.request.prompt.size())) {
    outcome.trouble = "a token before the prompt was forwarded";
  }
  outcome.answer.add(token);
  act();
  if (planned.leaves_at == static_cast<Position>(outcome.answer.ids.size())) {
    return SequenceSink::Verdict::cancel;
  }
  return planned.request.stops_text(token.id) ? SequenceSink::Verdict::stop
                                              : SequenceSink::Verdict::go_on;
}

void Batch::on_end(std::size_t index, const SequenceEnd& end) {
  const std::lock_guard lock(mutex_);
  Outcome& outcome = outcomes_[index];
  outcome.ends++;
  outcome.end = end;
  outcome.answer.reason = end.reason;
  act();
  changed_.notify_all();
}

void Batch::on_prefill(std::size_t index, Position done) {
  const std::lock_guard lock(mutex_);
  Outcome& outcome = outcomes_[index];
  if (outcome.ends > 0) outcome.trouble = "prefill after the end";
  outcome.prefilled = std::max(outcome.prefilled, done);  // a preempted one goes back
  act();
}

bool Batch::is_reached(const Moment& moment) const {
  const Outcome& outcome = outcomes_[moment.request];
  if (outcome.ends > 0 || started_[moment.request] == Started::refused) return true;
  switch (moment.kind) {
    case Moment::Kind::prefilled:
      return outcome.prefilled >= moment.count;
    case Moment::Kind::tokens:
      return static_cast<Position>(outcome.answer.ids.size()) >= moment.count;
  }
  return false;
}

void Batch::submit(std::size_t index) {
  const PlannedRequest& planned = planned_[index];
  const Result<RequestId> id =
      engine_->submit(planned.request.with_sink(std::make_unique<Sink>(*this, index)));
  started_[index] = id ? Started::yes : Started::refused;
  if (!id) outcomes_[index].trouble = fmt::format("refused: {}", id.error().message);
  if (id) ids_[index] = *id;
  if (id && planned.is_cancelled_in_queue) engine_->cancel(*id);
}

void Batch::act() {
  for (std::size_t i = 0; i < planned_.size(); i++) {
    const PlannedRequest& planned = planned_[i];
    if (started_[i] == Started::no && (!planned.starts_at || is_reached(*planned.starts_at))) {
      submit(i);
    }
    if (started_[i] != Started::yes || is_cancelled_[i] || !planned.cancelled_at) continue;
    if (!is_reached(*planned.cancelled_at)) continue;
    is_cancelled_[i] = true;
    engine_->cancel(ids_[i]);
  }
}

}  // namespace reprise::testing
