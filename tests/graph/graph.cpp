// Running and judging a graph.
#include "graph/graph.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "kernels/kernels.h"
#include "support/tiny_family.h"

namespace reprise::testing {
namespace {

std::size_t column_bytes(const KvLayout& layout) {
  std::size_t bytes = 0;
  for (const SpanGroup& group : layout.groups) bytes += group.page_bytes();
  return bytes;
}

// What a sequence that grows to `length` occupies at most, with a page more of every group for the
// chunk that is being written.
std::size_t growing_bytes(const KvLayout& layout, Position length) {
  std::size_t most = 0;
  for (Position at = 1; at <= length; at++) most = std::max(most, layout.sequence_bytes(at));
  return most + column_bytes(layout);
}

bool is_whole(const Outcome& outcome) {
  return outcome.ends > 0 &&
         (outcome.end.reason == FinishReason::stop || outcome.end.reason == FinishReason::length);
}

// Families walk through different graphs: more kinds of them in the same time.
std::uint64_t seed_of(const std::string& family, std::uint64_t seed) {
  std::uint64_t mixed = seed;
  for (const char letter : family) mixed = mixed * 1'000'003 + static_cast<unsigned char>(letter);
  return mixed;
}

std::vector<TokenId> forwarded_tokens(const GraphRequest& request, const Outcome& outcome) {
  std::vector<TokenId> tokens = request.prompt;
  tokens.insert(tokens.end(), outcome.answer.ids.begin(), outcome.answer.ids.end());
  tokens.resize(static_cast<std::size_t>(outcome.forwarded(request)));
  return tokens;
}

// Drafts that are forced, so that a graph runs the same way every time: what followed the newest
// token like the last one. Often wrong, often right up to a place.
std::vector<TokenId> guess(std::span<const TokenId> tokens, std::size_t most) {
  std::vector<TokenId> draft;
  const std::size_t last = tokens.size() - 1;
  std::size_t source = last;
  while (source > 0 && tokens[source - 1] != tokens[last]) source--;
  for (std::size_t i = source; source > 0 && i <= last && draft.size() < most; i++) {
    draft.push_back(tokens[i]);
  }
  return draft;
}

}  // namespace

std::string Tally::line(const std::string& family) const {
  return fmt::format(
      "{}: {} graphs, {} requests ({} answered whole, {} cancelled), {} hits ({} certain), {} "
      "tokens reused, {} "
      "forwarded, {} drafted ({} accepted), {} preemptions, {} evictions, {} window pages dropped, "
      "{} retokenised",
      family, graphs, requests, whole, cancelled, hits, certain, tokens_reused, tokens_forwarded,
      drafted, accepted, preemptions, evictions, window_pages_dropped, retokenised);
}

GraphFamily::GraphFamily(std::string name)
    : name_(std::move(name)), model_(load_family({name_, "hf"}, threads_)) {}

ColdModel& GraphFamily::cold(kernels::KvType kv_type) {
  std::unique_ptr<ColdModel>& cold = cold_.at(static_cast<std::size_t>(kv_type));
  if (!cold) cold = std::make_unique<ColdModel>(*model_, threads_, kv_type, kLengthMax);
  return *cold;
}

Graph::Graph(GraphFamily& family, std::uint64_t seed)
    : family_(family), seed_(seed), dice_(seed_of(family.name(), seed)) {
  const int kind = static_cast<int>(dice_.between(1, 100));
  options_.kv_type = kind % 10 == 0   ? kernels::KvType::f32
                     : kind % 10 == 1 ? kernels::KvType::bf16
                                      : kernels::KvType::f16;
  options_.context_length = GraphFamily::kLengthMax;
  options_.sequences_max = static_cast<int>(dice_.between(1, 5));
  options_.prefill_rows_max = static_cast<int>(
      dice_.pick(std::vector<std::int64_t>{5, 16, 23, 64, 100, GraphFamily::kLengthMax}));
  // No step is cut by the clock: a graph runs the same way every time.
  options_.step_target_ms = options_.decode_target_ms = 1e9;
  options_.ageing_ms = std::int64_t{1} << 40;
  options_.speculation = seed_ % 3 == 0 ? Speculation::off : Speculation::ngram;
  options_.draft = guess;
  options_.check_invariants = dice_.chance(10);
  options_.cache.min_prefix = dice_.chance(50) ? 16 : dice_.between(1, 40);
  if (dice_.chance(25)) options_.cache.store = CacheStore::materialised;

  const KvLayout layout = family_.model().config().kv_layout(options_.kv_type);
  is_ample_ = dice_.chance(45);
  Position length_max = dice_.between(90, GraphFamily::kLengthMax);
  WriterLimits limits{.vocabulary = family_.model().config().vocabulary};
  limits.reply_max = dice_.chance(25) ? 80 : 30;
  limits.reply_usual = limits.reply_max / 4 + 1;
  if (is_ample_) {
    options_.kv_budget_bytes = 1000 * column_bytes(layout);
  } else {
    // From just enough for one sequence to enough for a few.
    const auto sequences = static_cast<std::size_t>(dice_.chance(30) ? 0 : dice_.between(0, 30));
    options_.kv_budget_bytes =
        growing_bytes(layout, length_max) + sequences * layout.sequence_bytes(length_max) / 10;
  }
  limits.pins = dice_.chance(30);
  if (limits.pins) {
    options_.cache.pinned_bytes_per_tenant = options_.kv_budget_bytes / 3;
    options_.cache.pinned_bytes_max = options_.kv_budget_bytes / 2;
  }
  limits.scopes = static_cast<int>(dice_.between(1, 3));
  limits.together_max = dice_.between(2, 5);
  if (!is_ample_ && dice_.chance(40)) {  // a crowd of long replies: somebody must give way
    options_.sequences_max = static_cast<int>(dice_.between(3, 6));
    limits.reply_max = 120;
    limits.reply_usual = 100;
    limits.together_usual = 80;
    limits.together_max = 5;
  }
  engine_ = std::make_unique<Engine>(family_.model(), *kernels::choose_kernels("").value(),
                                     family_.threads(), options_);
  limits.length_max = std::min(length_max, engine_->fitting_length());
  CHECK(limits.length_max >= 64);
  writer_ = std::make_unique<GraphWriter>(dice_, limits);
}

std::string Graph::run(Tally& tally) {
  const std::int64_t batches = dice_.between(4, 10);
  for (std::int64_t i = 0; i < batches && trouble_.empty(); i++) {
    if (i > 0 && dice_.chance(6)) reset_cache(dice_.pick(writer_->scopes()));
    run_batch(writer_->next_batch());
  }
  if (trouble_.empty()) run_batch(writer_->replay_of_newest());
  if (trouble_.empty()) check_end();
  engine_.reset();
  check_answers();
  for (const std::unique_ptr<Batch>& batch : batches_) {
    if (batch->gate_ends() != 1) fail("the gate did not end exactly once");
    for (std::size_t i = 0; i < batch->planned().size(); i++) {
      const int ends = batch->outcomes()[i].ends;
      if (ends != 1) fail(batch->planned()[i], fmt::format("{} ends", ends));
    }
  }
  tally.graphs++;
  tally.requests += tally_.requests;
  tally.whole += tally_.whole;
  tally.cancelled += tally_.cancelled;
  tally.hits += tally_.hits;
  tally.certain += tally_.certain;
  tally.tokens_reused += tally_.tokens_reused;
  tally.tokens_forwarded += tally_.tokens_forwarded;
  tally.drafted += tally_.drafted;
  tally.accepted += tally_.accepted;
  tally.preemptions += tally_.preemptions;
  tally.evictions += tally_.evictions;
  tally.window_pages_dropped += tally_.window_pages_dropped;
  tally.retokenised += tally_.retokenised;
  return trouble_;
}

bool Graph::run_batch(std::vector<PlannedRequest> planned) {
  if (planned.empty()) return true;
  batches_.push_back(std::make_unique<Batch>(*engine_, std::move(planned)));
  Batch& batch = *batches_.back();
  if (!batch.run()) {
    fail(batch.planned().front(), "the engine fell silent");
    return false;
  }
  rows_++;  // the gate's
  for (std::size_t i = 0; i < batch.planned().size(); i++) {
    operation_++;
    check_request(batch.planned()[i], batch.outcomes()[i]);
    check_usage(batch, i);
    count(batch.planned()[i], batch.outcomes()[i]);
  }
  for (std::size_t i = 0; i < batch.planned().size(); i++) {
    const GraphRequest& request = batch.planned()[i].request;
    const Outcome& outcome = batch.outcomes()[i];
    if (request.use_cache) forwarded_.add(request.scope, forwarded_tokens(request, outcome));
    writer_->remember(batch.planned()[i], outcome);
  }
  return trouble_.empty();
}

void Graph::check_request(const PlannedRequest& planned, const Outcome& outcome) {
  if (!outcome.trouble.empty()) fail(planned, outcome.trouble);
  if (outcome.ends == 0) return;  // refused: said so
  if (outcome.end.reason == FinishReason::cancelled) {
    const bool is_asked_to =
        planned.is_cancelled_in_queue || planned.leaves_at > 0 || planned.cancelled_at.has_value();
    if (!is_asked_to) fail(planned, "cancelled, though nobody asked");
  } else if (!is_whole(outcome)) {
    fail(planned, fmt::format("ended with reason {}: {}", static_cast<int>(outcome.end.reason),
                              outcome.end.error ? outcome.end.error->message : ""));
  }
}

// At the end, the longest first: most of the others are beginnings of them.
void Graph::check_answers() {
  struct Case {
    const PlannedRequest* planned = nullptr;
    const Outcome* outcome = nullptr;
    Answer cold;
    std::size_t length() const {
      return planned->request.prompt.size() + outcome->answer.ids.size();
    }
  };
  std::vector<Case> cases;
  for (const std::unique_ptr<Batch>& batch : batches_) {
    for (std::size_t i = 0; i < batch->planned().size(); i++) {
      cases.push_back({&batch->planned()[i], &batch->outcomes()[i], {}});
    }
  }
  std::vector<Case*> longest_first;
  for (Case& it : cases) longest_first.push_back(&it);
  std::ranges::stable_sort(longest_first, std::greater(),
                           [](const Case* it) { return it->length(); });
  ColdModel& model = family_.cold(options_.kv_type);
  model.forget();
  for (Case* it : longest_first)
    it->cold = model.answer(it->planned->request, it->outcome->answer.ids);
  operation_ = 0;
  for (Case& it : cases) {
    operation_++;
    check_answer(*it.planned, *it.outcome, std::move(it.cold));
    if (is_whole(*it.outcome) && dice_.chance(4)) check_against_engine(*it.planned, *it.outcome);
  }
}

void Graph::check_answer(const PlannedRequest& planned, const Outcome& outcome, Answer cold) {
  if (!is_whole(outcome)) {  // what came before it was cancelled is the answer's beginning
    cold.ids.resize(std::min(cold.ids.size(), outcome.answer.ids.size()));
    cold.bytes.resize(std::min(cold.bytes.size(), outcome.answer.bytes.size()));
    cold.reason = outcome.answer.reason;
  }
  if (cold.ids != outcome.answer.ids) {
    const auto ends = std::ranges::mismatch(cold.ids, outcome.answer.ids);
    fail(planned,
         fmt::format("token {} of the answer is {}, cold it is {}", ends.in1 - cold.ids.begin(),
                     ends.in2 == outcome.answer.ids.end() ? -1 : *ends.in2,
                     ends.in1 == cold.ids.end() ? -1 : *ends.in1));
  } else if (cold.bytes != outcome.answer.bytes) {
    fail(planned, "the ids are the cold answer's, the logprobs are not");
  } else if (cold.reason != outcome.answer.reason) {
    fail(planned,
         fmt::format("finish reason {}, cold it is {}", static_cast<int>(outcome.end.reason),
                     cold.reason ? static_cast<int>(*cold.reason) : -1));
  }
}

// The same request alone in an engine without a cache: what ColdModel says is what a user gets.
void Graph::check_against_engine(const PlannedRequest& planned, const Outcome& outcome) {
  EngineOptions options = options_;
  options.cache.enabled = false;
  options.speculation = Speculation::off;
  options.kv_budget_bytes =
      1000 * column_bytes(family_.model().config().kv_layout(options_.kv_type));
  PlannedRequest alone;
  alone.request = planned.request;
  Engine engine(family_.model(), *kernels::choose_kernels("").value(), family_.threads(), options);
  Batch cold(engine, {alone});
  if (!cold.run()) return fail(planned, "the engine without a cache fell silent");
  const Outcome& expected = cold.outcomes().front();
  if (expected.answer.bytes != outcome.answer.bytes ||
      expected.answer.reason != outcome.answer.reason ||
      expected.end.usage.completion_tokens != outcome.end.usage.completion_tokens) {
    fail(planned, "an engine without a cache answers otherwise");
  }
}

// A materialised page begins with what its snapshot kept: places before that may be found in an
// earlier block only.
Position Graph::copies_lose() const {
  return options_.cache.store == CacheStore::materialised ? kPagePositions : 0;
}

ForwardedTokens Graph::of_others(const Batch& batch, std::size_t index) const {
  ForwardedTokens others;
  for (std::size_t i = 0; i < batch.planned().size(); i++) {
    const GraphRequest& other = batch.planned()[i].request;
    if (i == index || !other.use_cache) continue;
    others.add(other.scope, forwarded_tokens(other, batch.outcomes()[i]));
  }
  return others;
}

void Graph::check_usage(const Batch& batch, std::size_t index) {
  const PlannedRequest& planned = batch.planned()[index];
  const GraphRequest& request = planned.request;
  const Outcome& outcome = batch.outcomes()[index];
  const Usage& usage = outcome.end.usage;
  const auto length = static_cast<Position>(request.prompt.size());
  if (usage.prompt_tokens != length) fail(planned, "usage counts other prompt tokens");
  if (!request.use_cache) {
    if (usage.cached_tokens != 0) fail(planned, "cached tokens without the cache");
    return;
  }
  // Others of the batch may have forwarded what this one found, or may not have yet.
  const Position before = forwarded_.common(request.scope, request.prompt);
  const Position with_others =
      std::max(before, of_others(batch, index).common(request.scope, request.prompt));
  const auto resumed = [&](Position common) {
    const Position most = std::min(common, length - 1);
    return most >= options_.cache.min_prefix ? most : 0;
  };
  const bool is_certain = is_ample_ && outcome.forwarded(request) > 0;
  const Position least = is_certain ? resumed(std::min(before, length - 1) - copies_lose()) : 0;
  const Position most = resumed(with_others);
  tally_.certain += least > 0 ? 1 : 0;
  if (usage.cached_tokens < least || usage.cached_tokens > most) {
    fail(planned, fmt::format("{} cached tokens, expected {} to {}: the prompt shares {} tokens "
                              "with what was forwarded before, {} with all",
                              usage.cached_tokens, least, most, before, with_others));
  }
  if (usage.diverged_at > with_others) {
    fail(planned, fmt::format("the prompt left the cached path at {}, but shares {} tokens with it",
                              usage.diverged_at, with_others));
  }
}

void Graph::count(const PlannedRequest& planned, const Outcome& outcome) {
  const Usage& usage = outcome.end.usage;
  const Position forwarded = outcome.forwarded(planned.request);
  tally_.requests++;
  tally_.whole += is_whole(outcome) ? 1 : 0;
  tally_.cancelled += outcome.end.reason == FinishReason::cancelled ? 1 : 0;
  tally_.hits += usage.cached_tokens > 0 ? 1 : 0;
  tally_.tokens_reused += static_cast<std::uint64_t>(usage.cached_tokens);
  tally_.retokenised += usage.retokenised_at ? 1 : 0;
  tally_.uncached += planned.request.use_cache ? 0 : 1;
  if (forwarded > 0) rows_ += static_cast<std::uint64_t>(forwarded - usage.cached_tokens);
}

void Graph::check_end() {
  const EngineStats stats = engine_->stats();
  tally_.preemptions = stats.preemptions;
  tally_.evictions = stats.cache.evictions_lru;
  tally_.window_pages_dropped = stats.cache.window_pages_dropped;
  tally_.tokens_forwarded = stats.forwarded_rows;
  tally_.drafted = stats.drafted_tokens;
  tally_.accepted = stats.accepted_tokens;
  if (stats.running + stats.waiting > 0) fail("requests are left when all have ended");
  if (!stats.failure.empty()) fail(fmt::format("the engine failed: {}", stats.failure));
  if (is_ample_) {
    if (stats.cache.evictions_lru + stats.cache.window_pages_dropped > 0) {
      fail(fmt::format("{} evictions and {} window pages dropped, though there was room for all",
                       stats.cache.evictions_lru, stats.cache.window_pages_dropped));
    }
    // One may still give way to a higher priority. Then it finds its tokens again, except without
    // the cache, or where they are too few, or what a materialised copy lost.
    const bool is_bounded = stats.preemptions == 0 || tally_.uncached == 0;
    const auto repeated =
        static_cast<Position>(stats.preemptions) * (options_.cache.min_prefix + copies_lose());
    if (stats.forwarded_rows < rows_ ||
        (is_bounded && stats.forwarded_rows > rows_ + static_cast<std::uint64_t>(repeated))) {
      fail(fmt::format("{} rows were forwarded, {} should have been; {} preemptions",
                       stats.forwarded_rows, rows_, stats.preemptions));
    }
  }
  for (const CacheScope& scope : writer_->scopes()) reset_cache(scope);
  const std::size_t left = engine_->stats().kv_used_bytes;
  if (left > 0) fail(fmt::format("{} bytes of keys and values are left after the resets", left));
}

void Graph::reset_cache(const CacheScope& scope) {
  engine_->reset_cache(scope);
  forwarded_.forget(scope);
}

void Graph::fail(const std::string& what) {
  trouble_ += fmt::format(
      "{} seed {}: {} (budget {}{}, {} sequences, {} rows a step, min_prefix {}, {} store)\n",
      family_.name(), seed_, what, options_.kv_budget_bytes, is_ample_ ? ", ample" : "",
      options_.sequences_max, options_.prefill_rows_max, options_.cache.min_prefix,
      options_.cache.store == CacheStore::materialised ? "materialised" : "reference");
}

void Graph::fail(const PlannedRequest& planned, const std::string& what) {
  fail(fmt::format("operation {} ({}): {}\n  {}\n ", operation_, planned.operation, what,
                   planned.request.describe()));
}

}  // namespace reprise::testing
