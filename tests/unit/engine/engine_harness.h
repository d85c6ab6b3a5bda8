// An engine over a tiny model, requests with sensible defaults, and recordings of all that sinks
// hear.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "support/tiny_model.h"

namespace reprise::testing {

// What one sink heard. Outlives the engine.
class Recording {
 public:
  void add_token(const SampledToken& token) {
    const std::lock_guard lock(mutex_);
    tokens_.push_back(token);
    changed_.notify_all();
  }
  void add_end(const SequenceEnd& end) {
    const std::lock_guard lock(mutex_);
    end_ = end;
    ends_++;
    changed_.notify_all();
  }
  void add_prompt(std::span<const SampledToken> tokens) {
    const std::lock_guard lock(mutex_);
    prompt_.insert(prompt_.end(), tokens.begin(), tokens.end());
  }
  void add_prefill(Position done) {
    const std::lock_guard lock(mutex_);
    prefilled_ = done;
    changed_.notify_all();
  }

  void wait_for_end() {
    wait([&] { return ends_ > 0; });
  }
  void wait_for_tokens(std::size_t count) {
    wait([&] { return tokens_.size() >= count || ends_ > 0; });
  }

  // Read these when the end was heard.
  const std::vector<SampledToken>& tokens() const { return tokens_; }
  const std::vector<SampledToken>& prompt() const { return prompt_; }  // prompt_logprobs
  const SequenceEnd& end() const { return end_; }
  int ends() const {
    const std::lock_guard lock(mutex_);
    return ends_;
  }
  Position prefilled() const { return prefilled_; }
  std::vector<TokenId> ids() const {
    std::vector<TokenId> ids;
    for (const SampledToken& token : tokens_) ids.push_back(token.id);
    return ids;
  }

  // Ids, logprobs and top logprobs, the prompt's too, as bytes: equal runs give equal strings.
  std::string bytes() const { return bytes_of(prompt_) + bytes_of(tokens_); }

  static std::string bytes_of(const std::vector<SampledToken>& tokens) {
    std::string bytes;
    const auto add = [&](const auto& value) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    for (const SampledToken& token : tokens) {
      add(token.id);
      add(token.logprob);
      for (const TokenLogprob& entry : token.top) {
        add(entry.id);
        add(entry.logprob);
      }
    }
    return bytes;
  }

 private:
  template <class Condition>
  void wait(Condition condition) {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, std::chrono::minutes(2), condition);
    ASSERT_TRUE(came) << "the engine is silent";
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<SampledToken> tokens_, prompt_;
  SequenceEnd end_;
  int ends_ = 0;
  Position prefilled_ = 0;
};

// What a test asks for; the defaults are a sampled reply with five top logprobs.
struct Ask {
  std::vector<TokenId> prompt;
  Position max_tokens = 12;
  SamplingParams sampling = {.seed = 7};
  std::vector<TokenId> stop_ids = {};
  std::vector<TokenId> banned_ids = {};
  Position min_tokens = 0;
  int prompt_logprobs = -1;
  std::uint32_t choice = 0;
  std::function<std::unique_ptr<TokenConstraint>()> constraint = {};
  Position history_boundary = 0;
  std::string tenant = {};
  std::string salt = {};
  bool use_cache = true;
  std::vector<Position> turn_ends = {};
  Priority priority = Priority::normal;
  std::int64_t pin_ms = 0;
  std::int64_t timeout_ms = 0;
  // Called on the engine thread; the count includes this token.
  std::function<SequenceSink::Verdict(std::size_t tokens)> on_token = {};
  std::function<void(Position done)> on_prefill = {};
  std::function<bool(std::span<const TokenId>, std::span<const TokenId>)> is_same_text = {};
};

class RecordingSink final : public SequenceSink {
 public:
  RecordingSink(Recording& recording, const Ask& ask)
      : recording_(&recording),
        on_token_(ask.on_token),
        on_prefill_(ask.on_prefill),
        is_same_text_(ask.is_same_text) {}

  Verdict on_token(const SampledToken& token) override {
    EXPECT_EQ(recording_->ends(), 0);
    recording_->add_token(token);
    EXPECT_TRUE(prompt_cached_.has_value());
    tokens_++;
    return on_token_ ? on_token_(tokens_) : Verdict::go_on;
  }
  void on_prompt_done(const Usage& usage) override {
    EXPECT_FALSE(prompt_cached_.has_value());
    EXPECT_EQ(tokens_, 0u);
    prompt_cached_ = usage.cached_tokens;
  }
  void on_prompt_logprobs(std::span<const SampledToken> tokens) override {
    EXPECT_FALSE(tokens.empty());
    EXPECT_FALSE(prompt_cached_.has_value());
    recording_->add_prompt(tokens);
  }
  void on_end(const SequenceEnd& end) override {
    EXPECT_TRUE(prompt_cached_.has_value() || end.usage.completion_tokens == 0);
    EXPECT_EQ(prompt_cached_.value_or(end.usage.cached_tokens), end.usage.cached_tokens);
    recording_->add_end(end);
  }
  bool is_same_text(std::span<const TokenId> cached, std::span<const TokenId> prompt) override {
    return is_same_text_ && is_same_text_(cached, prompt);
  }
  void on_prefill(Position done, Position, Position total) override {
    EXPECT_LE(done, total);
    recording_->add_prefill(done);
    if (on_prefill_) on_prefill_(done);
  }

 private:
  Recording* recording_;
  std::function<Verdict(std::size_t)> on_token_;
  std::function<void(Position)> on_prefill_;
  std::function<bool(std::span<const TokenId>, std::span<const TokenId>)> is_same_text_;
  std::size_t tokens_ = 0;
  std::optional<Position> prompt_cached_;  // as told before the first token
};

inline GenerationRequest make_request(const Ask& ask, Recording& recording) {
  GenerationRequest request;
  request.prompt = ask.prompt;
  request.history_boundary = ask.history_boundary;
  request.max_tokens = ask.max_tokens;
  request.sampling = ask.sampling;
  request.choice = ask.choice;
  request.stop_ids = ask.stop_ids;
  request.banned_ids = ask.banned_ids;
  request.min_tokens = ask.min_tokens;
  request.prompt_logprobs = ask.prompt_logprobs;
  if (ask.constraint) request.constraint = ask.constraint();
  request.top_logprobs = 5;
  request.scope = {ask.tenant, ask.salt};
  request.use_cache = ask.use_cache;
  request.turn_ends = ask.turn_ends;
  request.priority = ask.priority;
  request.pin_ms = ask.pin_ms;
  request.timeout_ms = ask.timeout_ms;
  request.sink = std::make_unique<RecordingSink>(recording, ask);
  return request;
}

struct HarnessOptions {
  EngineOptions engine = {.context_length = 600,
                          .kv_budget_bytes = std::size_t{64} << 20,
                          .cache = {},
                          .check_invariants = true};
  int threads = 1;
  const char* isa = "";  // "": the best one

  HarnessOptions without_cache() const {
    HarnessOptions options = *this;
    options.engine.cache.enabled = false;
    return options;
  }
};

class Harness {
 public:
  explicit Harness(const Model& model, const HarnessOptions& options = {})
      : pool_(options.threads),
        engine_(std::make_unique<Engine>(model, *kernels::choose_kernels(options.isa).value(),
                                         pool_, options.engine)) {}

  Engine& engine() { return *engine_; }
  void destroy_engine() { engine_.reset(); }

  Result<RequestId> submit(const Ask& ask, Recording& recording) {
    return engine_->submit(make_request(ask, recording));
  }

  // Starts a request that must be accepted.
  Recording& start(const Ask& ask) {
    Recording& recording = recordings_.emplace_back();
    const Result<RequestId> id = submit(ask, recording);
    EXPECT_TRUE(id.has_value()) << (id ? "" : id.error().message);
    last_id_ = id.value_or(RequestId{0});
    return recording;
  }
  RequestId last_id() const { return last_id_; }

  const Recording& run(const Ask& ask) {
    Recording& recording = start(ask);
    recording.wait_for_end();
    return recording;
  }

 private:
  std::deque<Recording> recordings_;
  ThreadPool pool_;
  std::unique_ptr<Engine> engine_;
  RequestId last_id_{0};
};

inline std::vector<TokenId> joined(std::vector<TokenId> first, const std::vector<TokenId>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// Names the cases of a suite over families.
inline std::string family_name(const ::testing::TestParamInfo<const char*>& family) {
  return family.param;
}

// One tiny model a family for the whole suite.
class TinyFamilies : public ::testing::TestWithParam<const char*> {
 protected:
  static const Model& family_model(const std::string& family) {
    static ThreadPool pool(1);
    static const TinyModel gemma3 = make_tiny_model({.family = "gemma3"}, pool);
    static const TinyModel llama = make_tiny_model({.family = "llama"}, pool);
    return family == "llama" ? *llama.model : *gemma3.model;
  }
  const Model& model() const { return family_model(GetParam()); }

  // The same request, cold and alone, a token a step.
  std::string cold(const Ask& ask) const {
    HarnessOptions options = HarnessOptions{}.without_cache();
    options.engine.speculation = Speculation::off;
    Harness harness(model(), options);
    Ask quiet = ask;
    quiet.on_token = {};
    quiet.on_prefill = {};
    return harness.run(quiet).bytes();
  }
};

}  // namespace reprise::testing
