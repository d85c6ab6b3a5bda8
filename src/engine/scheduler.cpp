// What runs next: prefix matching, the plan, and the step that ties all together.
#include "engine/scheduler.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/clock.h"

namespace reprise {
namespace {

PromptCacheOptions with_words(PromptCacheOptions options, const Model& model) {
  if (options.words.family.empty()) options.words = model.snapshot_words();
  return options;
}

// Of sequences that run at the same time: nothing to take out, to wait for or to look back at.
PromptCacheOptions sibling_options() {
  return {.needs_snapshots = false, .min_prefix = 1, .ghosts_per_salt = 0, .idle_salts_max = 1};
}

// Rows of a step whose logits are wanted for the prompt's own tokens: a large vocabulary's logits
// take a MiB a row.
constexpr int kPromptLogitRows = 32;

int draft_rows_max(const EngineOptions& options) {
  return options.speculation == Speculation::off ? 0 : kDraftRowsMax;
}

}  // namespace

Scheduler::Scheduler(const Model& model, const kernels::KernelTable& kernels, ThreadPool& pool,
                     const EngineOptions& options)
    : options_(options),
      vocabulary_(static_cast<std::size_t>(model.config().vocabulary)),
      pages_(model.config().kv_layout(options.kv_type), options.kv_budget_bytes),
      prompt_cache_(pages_, with_words(options.cache, model), unix_milliseconds),
      sibling_cache_(pages_, sibling_options(), unix_milliseconds),
      decoder_(model, kernels, pool,
               options.prefill_rows_max + options.sequences_max + draft_rows_max(options),
               options.sequences_max + draft_rows_max(options) + kPromptLogitRows),
      pool_(&pool),
      samplers_(static_cast<std::size_t>(pool.threads()), Sampler(kernels)),
      speed_(options.step_target_ms, options.decode_target_ms, options.prefill_rows_max) {}

void Scheduler::step() {
  admit();
  match_prefixes();
  const std::vector<PlannedRows> planned = plan();
  start_prefills(planned);
  std::vector<Chunk> chunks = reserve(planned);
  if (chunks.empty()) return;
  add_drafts(chunks);

  const Pass pass = forward(chunks);
  std::span<const float> logits = pass.logits;
  const std::vector<std::optional<SampledToken>> first =
      sample_first_rows(chunks, pass.entries, logits);
  observe_speed(chunks, pass.begin);
  for (std::size_t index = 0; index < chunks.size(); index++) {
    const std::size_t size = static_cast<std::size_t>(pass.entries[index].logit_rows) * vocabulary_;
    finish_chunk(chunks[index], pass.entries[index].finite_rows, first[index], logits.first(size));
    logits = logits.subspan(size);
  }
}

void Scheduler::accept(RequestId first, std::vector<GenerationRequest> requests,
                       EngineClock::time_point at) {
  const bool has_siblings = requests.size() > 1;
  for (std::size_t index = 0; index < requests.size(); index++) {
    GenerationRequest& request = requests[index];
    stats_.requests++;
    stats_.prompt_tokens += request.prompt.size();
    shares_.enter(request.scope.tenant);
    const RequestId id{static_cast<std::uint64_t>(first) + index};
    waiting_.push_back(std::make_unique<Sequence>(id, first, std::move(request), pages_, at));
    choose_prefixes(*waiting_.back(), has_siblings);
  }
}

void Scheduler::choose_prefixes(Sequence& sequence, bool has_siblings) {
  const GenerationRequest& request = sequence.request();
  sequence.scope = request.scope;
  if (!options_.cache.enabled || !request.use_cache) {
    sequence.no_prompt_cache = MissReason::disabled;
  } else if (prompt_cache_.refuses_mode()) {
    sequence.no_prompt_cache = MissReason::mode_refused;
  }
  if (!sequence.no_prompt_cache) {
    sequence.prefixes = &prompt_cache_;
  } else if (has_siblings) {
    sequence.prefixes = &sibling_cache_;
    const auto number = static_cast<std::uint64_t>(sequence.submission());
    sequence.scope.salt = fmt::format("{}", number);
    siblings_[sequence.submission()]++;
  }
}

void Scheduler::match_prefixes() {
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence->is_decoding() || sequence->prefixes == nullptr) continue;
    if (!sequence->is_restore_refused) match_prefix(*sequence);
  }
}

// One token at least is always forwarded: its logits are not kept.
void Scheduler::match_prefix(Sequence& sequence) {
  if (sequence.judges_prompt() && sequence.skippable() == 0) {
    sequence.match = {.miss = MissReason::disabled};
    return;
  }
  const CacheScope& scope = sequence.scope;
  PromptCache& prefixes = *sequence.prefixes;
  PromptCache::Match match = prefixes.match(scope, sequence.tokens(), sequence.skippable());
  if (match.length > sequence.offset()) {
    if (prefixes.restore(scope, sequence.tokens(), match, sequence.cache, sequence.path)) {
      sequence.restored = match.length;
    } else {
      match.length = 0;
      match.miss = MissReason::corrupt;
      sequence.is_restore_refused = true;
    }
  }
  // What was restored counts, though a reset may have emptied the cache while the sequence waits.
  if (!sequence.has_started() && match.length >= sequence.offset()) sequence.match = match;
}

// Sequences are planned in the order of their turns.
std::vector<Scheduler::PlannedRows> Scheduler::plan() const {
  const std::vector<Turn> all = turns(running_);
  std::vector<std::size_t> order(running_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return is_sooner(all[a], all[b], options_.ageing_ms);
  });
  std::vector<PlanSequence> sequences;
  Position decode_rows = 0;
  for (const std::size_t index : order) {
    const Sequence& sequence = *running_[index];
    PlanSequence planned{.tokens = sequence.tokens(),
                         .offset = sequence.offset(),
                         .is_decoding = sequence.is_decoding(),
                         .tenant = all[index].tenant};
    if (planned.is_decoding) decode_rows++;
    planned.share = share_of(sequence);
    sequences.push_back(planned);
  }
  std::vector<PlannedRows> planned;
  Position judged = 0;
  for (const PlanChunk& chunk : plan_step(sequences, speed_.prefill_rows(decode_rows))) {
    Sequence* sequence = running_[order[chunk.sequence]].get();
    Position rows = chunk.rows;
    if (sequence->judges_prompt()) {
      rows = std::min<Position>(rows, kPromptLogitRows - judged);
      judged += rows;
    }
    if (rows > 0) planned.push_back({sequence, rows});
  }
  return planned;
}

// Those whose prompt is judged use only what is judged for them.
int Scheduler::share_of(const Sequence& sequence) const {
  if (sequence.prefixes == nullptr) return -1;
  const auto first = std::ranges::find_if(running_, [&](const auto& other) {
    if (other->prefixes != sequence.prefixes || other->scope != sequence.scope) return false;
    return sequence.judges_prompt() ? sequence.judges_with(*other) : !other->judges_prompt();
  });
  return static_cast<int>(first - running_.begin());
}

// A request's lookup counts when its first row is planned: until then it may wait for a block that
// another sequence is computing.
void Scheduler::start_prefills(std::span<const PlannedRows> planned) {
  for (const PlannedRows& rows : planned) {
    Sequence& sequence = *rows.sequence;
    if (sequence.has_started()) continue;
    // What a sibling forwarded no cache gave; and a judged prompt finds nothing else.
    if (sequence.no_prompt_cache || sequence.request().prompt_logprobs >= 0) {
      sequence.match = {.miss = sequence.no_prompt_cache.value_or(MissReason::disabled)};
    }
    sequence.start_prefill(sequence.match, EngineClock::now());
    if (!sequence.is_restore_refused) count_lookup(sequence);
  }
}

// Where the prompt leaves the cached path inside a reply, its sink says whether only the tokens
// differ.
void Scheduler::count_lookup(Sequence& sequence) {
  constexpr std::size_t kCompared = 64;  // tokens of both
  const CacheScope& scope = sequence.request().scope;
  prompt_cache_.count_lookup(scope, sequence.tokens(), sequence.match);
  const Position at = sequence.match.common;
  if (sequence.no_prompt_cache || sequence.match.miss == MissReason::disabled) return;
  if (at >= sequence.prompt_length()) return;
  const std::span<const TokenId> prompt =
      sequence.tokens().first(static_cast<std::size_t>(sequence.prompt_length()));
  const std::vector<TokenId> cached =
      prompt_cache_.sampled_continuation(scope, prompt, sequence.match, kCompared);
  if (cached.empty()) return;
  const std::span<const TokenId> rest = prompt.subspan(static_cast<std::size_t>(at));
  if (!sequence.sink().is_same_text(cached, rest.first(std::min(kCompared, rest.size())))) return;
  sequence.set_retokenised(at);
  prompt_cache_.count_retokenised(scope, at);
}

EngineStats Scheduler::stats() const {
  EngineStats stats = stats_;
  stats.running = running_.size();
  stats.waiting = waiting_.size();
  stats.prefill_rows_per_second = speed_.rows_per_second();
  stats.kv_budget_bytes = pages_.budget_bytes();
  stats.kv_used_bytes = pages_.used_bytes();
  stats.kv_committed_bytes = pages_.committed_bytes();
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    stats.sequence_pages_bytes += sequence->cache.held_bytes();
  }
  return stats;
}

void Scheduler::check_invariants() const {
  prompt_cache_.check_invariants();
  sibling_cache_.check_invariants();
  CHECK(pages_.used_bytes() <= pages_.budget_bytes());
  CHECK(running_.size() <= static_cast<std::size_t>(options_.sequences_max));
  const std::size_t of_siblings = sibling_cache_.stats().bytes;
  if (running_.empty()) CHECK(pages_.used_bytes() == prompt_cache_.stats().bytes + of_siblings);
  if (siblings_.empty()) CHECK(of_siblings == 0);
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    CHECK(sequence->left() >= 1);
    CHECK(sequence->cache.reserved() == sequence->offset());  // drafts leave nothing behind
    CHECK(sequence->path.published() <= sequence->offset());
  }
  for (const std::unique_ptr<Sequence>& sequence : waiting_) {
    CHECK(sequence->cache.held_bytes() == 0);
  }
}

}  // namespace reprise
