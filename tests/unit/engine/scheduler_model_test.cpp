// Random requests, cancellations and steps against a naive twin that knows only what each request
// answers when it runs alone: nothing is lost, nothing is told twice, everything goes on, whatever
// the budget, the places, the tenants, the priorities and the drafts.
#include <cstdlib>
#include <map>
#include <random>

#include "engine/scheduler.h"
#include "engine_harness.h"
#include "fake_grammar.h"
#include "support/random_sampling.h"

namespace reprise::testing {
namespace {

std::size_t operations() {
  const char* wanted = std::getenv("REPRISE_MODEL_OPERATIONS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 100'000;
}

constexpr std::uint32_t kChoicesMax = 3;

// A request in flight.
struct Flight {
  Ask ask;
  std::size_t number = 0;  // of its answer
  Recording recording;
  RequestId id{0};
  bool was_cancelled = false;
};

struct Answer {
  std::string bytes;
  std::vector<TokenId> tokens;  // the prompt's and the reply's
};
using Answers = std::map<std::size_t, Answer>;

class SchedulerTwin {
 public:
  // `cold`: what each request answers alone, by number; kept over worlds.
  SchedulerTwin(const Model& model, EngineOptions options, std::uint32_t seed, Answers& cold)
      : cold_(cold), model_(model), options_(std::move(options)), random_(seed), pool_(1) {
    options_.draft = [this](std::span<const TokenId> tokens, std::size_t most) {
      return draft(tokens, most);
    };
    scheduler_ = std::make_unique<Scheduler>(model, kernels(), pool_, options_);
  }

  void run(std::size_t count) {
    for (std::size_t i = 0; i < count && !::testing::Test::HasFailure(); i++) operate();
    finish();
  }

  std::size_t below(std::size_t bound) { return random_() % bound; }

  // So many choices of the same prompt, together.
  void accept(const Ask& ask, std::size_t number, std::uint32_t choices = 1) {
    const RequestId first{last_id_ + 1};
    std::vector<GenerationRequest> requests;
    for (std::uint32_t choice = 0; choice < choices; choice++) {
      auto flight = std::make_unique<Flight>();
      flight->ask = ask;
      flight->ask.choice = choice;
      flight->number = number * kChoicesMax + choice;
      flight->id = RequestId{++last_id_};
      cold(*flight);  // known from now on: drafts come from it
      requests.push_back(make_request(flight->ask, flight->recording));
      flights_.push_back(std::move(flight));
    }
    scheduler_->accept(first, std::move(requests), EngineClock::now());
  }

  void cancel(std::size_t index) {
    if (index >= flights_.size()) return;
    flights_[index]->was_cancelled = true;
    scheduler_->cancel(flights_[index]->id);
    collect();
  }

  // What time and people do between steps; who stands in the cache goes on.
  void end_late() {
    scheduler_->end_late();
    collect();
  }
  void reset(const std::string& tenant) {
    scheduler_->prompt_cache().reset({tenant, tenant});
    scheduler_->check_invariants();
  }

  void step() {
    const std::uint64_t before = progress();
    const std::uint64_t preemptions = scheduler_->stats().preemptions;
    const bool had_work = scheduler_->has_work();
    scheduler_->step();
    scheduler_->check_invariants();
    const EngineStats stats = scheduler_->stats();
    EXPECT_LE(stats.kv_used_bytes, options_.kv_budget_bytes);
    const std::size_t in_flight = flights_.size();
    EXPECT_EQ(stats.running + stats.waiting + collect(), in_flight);
    // A step may only make room; two such steps in a row would be a wheel that turns in the air.
    const bool moved = progress() > before || stats.preemptions > preemptions;
    idle_steps_ = !had_work || moved ? 0 : idle_steps_ + 1;
    EXPECT_LE(idle_steps_, 1);
  }

  // Everything that is left runs to its end, in as many steps as its tokens could need at most.
  void finish() {
    std::size_t bound = 1000;
    for (const auto& flight : flights_) {
      bound += 50 * (flight->ask.prompt.size() + static_cast<std::size_t>(flight->ask.max_tokens));
    }
    while (scheduler_->has_work() && bound-- > 0 && !::testing::Test::HasFailure()) step();
    collect();
    EXPECT_TRUE(flights_.empty()) << flights_.size() << " requests never ended";
    for (const std::string tenant : {"a", "b", "c"}) {
      scheduler_->prompt_cache().reset({tenant, tenant});
    }
    EXPECT_EQ(scheduler_->stats().kv_used_bytes, 0u);
  }

  EngineStats stats() const { return scheduler_->stats(); }
  std::size_t finished() const { return finished_; }
  std::size_t hits() const { return hits_; }
  std::size_t late() const { return late_; }

 private:
  static const kernels::KernelTable& kernels() { return *kernels::choose_kernels("").value(); }
  std::uint64_t progress() const {
    const EngineStats stats = scheduler_->stats();
    return stats.forwarded_rows + ends_;
  }

  // Prompts grow out of each other: the same number is the same request everywhere.
  std::vector<TokenId> prompt(std::size_t number) {
    std::vector<TokenId> tokens = random_tokens(60 + static_cast<int>(number % 3) * 40, 0);
    tokens.resize(tokens.size() - number % 5);
    return joined(tokens, random_tokens(1 + static_cast<int>(number * 7 % 90),
                                        1 + static_cast<std::uint32_t>(number)));
  }

  static SamplingParams sampling(std::size_t number) {
    std::mt19937 random(static_cast<std::uint32_t>(number));
    return number % 2 == 0 ? SamplingParams{.seed = number}
                           : random_sampling(random, kTinyVocabulary);
  }

  void operate() {
    const std::size_t dice = below(100);
    if (dice < 12 && flights_.size() < 12) {
      const std::size_t number = below(24);
      const std::string tenant(1, static_cast<char>('a' + below(3)));
      Ask ask{.prompt = prompt(number),
              .max_tokens = 1 + static_cast<Position>(number % 4 * 20),
              .sampling = sampling(number),
              .tenant = tenant,
              .salt = tenant,
              .use_cache = below(4) != 0,
              .priority = static_cast<Priority>(below(3)),
              .pin_ms = below(10) == 0 ? 5 : 0,
              .timeout_ms = below(10) == 0 ? 4 : 0};
      if (number % 6 == 1) ask.prompt_logprobs = 2;
      if (number % 5 == 2) {
        ask.constraint = [] { return std::make_unique<FakeGrammar>(FakeGrammarOptions{}); };
      }
      accept(ask, number, below(3) == 0 ? 2 + static_cast<std::uint32_t>(below(2)) : 1);
    } else if (dice < 15 && !flights_.empty()) {
      cancel(below(flights_.size()));
    } else if (dice < 17) {
      end_late();
    } else if (dice == 17) {
      reset(std::string(1, static_cast<char>('a' + below(3))));
    } else if (dice == 18) {
      scheduler_->prompt_cache().expire();
      scheduler_->compact();
    } else {
      step();
    }
  }

  // What a request will sample, right up to a place at random.
  std::vector<TokenId> draft(std::span<const TokenId> tokens, std::size_t most) {
    std::vector<TokenId> draft;
    if (below(3) == 0) return draft;
    for (const auto& [number, answer] : cold_) {
      const std::vector<TokenId>& known = answer.tokens;
      if (known.size() <= tokens.size()) continue;
      if (!std::equal(tokens.begin(), tokens.end(), known.begin())) continue;
      while (draft.size() < most && tokens.size() + draft.size() < known.size()) {
        const TokenId right = known[tokens.size() + draft.size()];
        draft.push_back(below(8) == 0 ? (right + 1) % kTinyVocabulary : right);
      }
      break;
    }
    return draft;
  }

  // Hears the ends; returns how many there were.
  std::size_t collect() {
    const std::size_t in_flight = flights_.size();
    const std::size_t told = scheduler_->tell_ends().size();
    ends_ += told;
    std::erase_if(flights_, [&](const std::unique_ptr<Flight>& flight) {
      if (flight->recording.ends() == 0) return false;
      judge(*flight);
      return true;
    });
    EXPECT_EQ(in_flight - flights_.size(), told);
    return told;
  }

  void judge(const Flight& flight) {
    EXPECT_EQ(flight.recording.ends(), 1);
    const SequenceEnd& end = flight.recording.end();
    const std::string& whole = cold(flight).bytes;
    const std::string bytes = flight.recording.bytes();
    if (flight.was_cancelled) {
      EXPECT_EQ(end.reason, FinishReason::cancelled);
      EXPECT_EQ(whole.compare(0, bytes.size(), bytes), 0) << "request " << flight.number;
      return;
    }
    if (flight.ask.timeout_ms > 0 && end.reason == FinishReason::timeout) {
      EXPECT_EQ(whole.compare(0, bytes.size(), bytes), 0) << "request " << flight.number;
      late_++;
      return;
    }
    EXPECT_EQ(end.reason, FinishReason::length) << (end.error ? end.error->message : "");
    EXPECT_EQ(bytes, whole) << "request " << flight.number;
    EXPECT_EQ(end.usage.completion_tokens, flight.ask.max_tokens);
    if (!flight.ask.use_cache) {
      EXPECT_EQ(end.usage.cached_tokens, 0);
    }
    EXPECT_NE(end.usage.cached_tokens > 0, end.usage.miss.has_value());
    finished_++;
    hits_ += end.usage.cached_tokens > 0;
  }

  const Answer& cold(const Flight& flight) {
    Answer& answer = cold_[flight.number];
    if (answer.bytes.empty()) {
      HarnessOptions options = HarnessOptions{}.without_cache();
      options.engine.speculation = Speculation::off;
      Harness harness(model_, options);
      Ask patient = flight.ask;
      patient.timeout_ms = 0;
      const Recording& reply = harness.run(patient);
      answer = {reply.bytes(), joined(patient.prompt, reply.ids())};
    }
    return answer;
  }

  Answers& cold_;
  const Model& model_;
  EngineOptions options_;
  std::mt19937 random_;
  ThreadPool pool_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::uint64_t last_id_ = 0, ends_ = 0;
  std::size_t finished_ = 0, hits_ = 0, late_ = 0;
  int idle_steps_ = 0;
};

// Tokens of one sequence that the budget holds, running sequences, rows of a step.
struct World {
  Position fits;
  int places, rows;
};

EngineOptions options_of(const Model& model, const World& world) {
  const KvLayout layout = model.config().kv_layout(kernels::KvType::f16);
  EngineOptions options = HarnessOptions{}.engine;
  options.kv_budget_bytes = layout.sequence_bytes(world.fits);
  options.cache.pinned_bytes_per_tenant = options.kv_budget_bytes / 4;
  options.cache.pinned_bytes_max = options.kv_budget_bytes / 2;
  options.sequences_max = world.places;
  options.prefill_rows_max = world.rows;
  options.ageing_ms = 2;
  return options;
}

class SchedulerModel : public TinyFamilies {};

TEST_P(SchedulerModel, NothingIsLostWhateverHappens) {
  const World worlds[] = {{340, 3, 64}, {600, 8, 512}, {400, 8, 23}, {3000, 4, 64}};
  std::uint32_t seed = 1;
  std::uint64_t preemptions = 0, late = 0, drafted = 0, accepted = 0;
  Answers cold;
  for (const World& world : worlds) {
    SCOPED_TRACE(seed);
    SchedulerTwin twin(model(), options_of(model(), world), seed++, cold);
    twin.run(operations() / std::size(worlds) / 2);  // two families
    EXPECT_GT(twin.finished(), operations() / 1000);
    EXPECT_GT(twin.hits(), 0u);
    late += twin.late();
    preemptions += twin.stats().preemptions;
    drafted += twin.stats().drafted_tokens;
    accepted += twin.stats().accepted_tokens;
  }
  EXPECT_GT(accepted, 100u);
  EXPECT_GT(drafted, accepted);
  EXPECT_GT(preemptions, 0u);
  EXPECT_GT(late, 0u);
}

// Every order of five operations (six in the long run, four in a short one) on three requests of
// which two begin alike, where the budget holds little more than one.
TEST_P(SchedulerModel, EveryShortHistoryEndsWell) {
  constexpr std::size_t kOperations = 5;
  const std::size_t depth = operations() >= 1'000'000 ? 6 : operations() >= 100'000 ? 5 : 4;
  std::size_t histories = 1;
  for (std::size_t i = 0; i < depth; i++) histories *= kOperations;
  const std::vector<TokenId> head = random_tokens(70, 1);
  const Ask asks[] = {
      {.prompt = joined(head, random_tokens(20, 2)), .max_tokens = 3, .tenant = "a", .salt = "a"},
      {.prompt = joined(head, random_tokens(9, 3)), .max_tokens = 2, .tenant = "a", .salt = "a"},
      {.prompt = random_tokens(65, 4), .max_tokens = 2, .tenant = "b", .salt = "b"}};
  Answers cold;
  for (std::size_t history = 0; history < histories && !HasFailure(); history++) {
    SCOPED_TRACE(history);
    SchedulerTwin twin(model(), options_of(model(), {170, 2, 40}), 1, cold);
    for (std::size_t i = 0, rest = history; i < depth; i++, rest /= kOperations) {
      const std::size_t operation = rest % kOperations;
      if (operation < 3) {
        twin.accept(asks[operation], operation);
      } else if (operation == 3) {
        twin.step();
      } else {
        twin.cancel(0);
      }
    }
    twin.finish();
  }
}

// Windows around a page's size, where what is kept and what resuming needs begin at pages' edges.
TEST(SchedulerWindows, NothingIsLostWhateverHappens) {
  const World worlds[] = {{400, 3, 64}, {700, 8, 23}};
  std::uint32_t seed = 100;
  ThreadPool pool(1);
  for (const int window : {64, 65, 100}) {
    const TinyModel tiny = make_tiny_model({.window = window}, pool);
    Answers cold;
    for (const World& world : worlds) {
      SCOPED_TRACE(seed);
      SchedulerTwin twin(*tiny.model, options_of(*tiny.model, world), seed++, cold);
      twin.run(operations() / 40);
      EXPECT_GT(twin.hits(), 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, SchedulerModel, ::testing::Values("gemma3", "llama"),
                         family_name);

}  // namespace
}  // namespace reprise::testing
