// Samples, and the proof that every way to compute the same rows gave the same bits.
#include "cli/bench_runner.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/machine.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Room for every depth's sequences, and for the copies that one sample makes of their last pages.
std::size_t budget_bytes(const KvLayout& layout, const BenchPlan& plan) {
  std::size_t bytes = std::size_t{256} << 20;
  const auto sequences = static_cast<std::size_t>(plan.batch_max());
  for (const Position depth : plan.depths) {
    const Position length = depth + plan.length_max() - plan.depths.back();
    bytes += 2 * (sequences + 1) * layout.sequence_bytes(length);
  }
  return bytes;
}

std::string name_of(const BenchCell& cell) {
  return fmt::format("depth {}, {} rows, {} sequences, {} threads", cell.depth, cell.rows,
                     cell.batch, cell.threads);
}

}  // namespace

BenchRunner::BenchRunner(const Stack& stack, kernels::KvType kv_type, BenchPlan plan)
    : stack_(&stack), kv_type_(kv_type), plan_(std::move(plan)) {
  for (const BenchCell& cell : plan_.cells()) results_.push_back({cell, {}, {}, {}});
}

Status BenchRunner::make_pages() {
  KvLayout layout = stack_->bundle->model().config().kv_layout(kv_type_);
  const std::size_t budget = budget_bytes(layout, plan_);
  if (const Status room = PagePool::check(layout, budget); !room) {
    return fail(room.error().code, room.error().message, "--depths");
  }
  pages_ = std::make_unique<PagePool>(std::move(layout), budget);
  return {};
}

Status BenchRunner::make_teams() {
  const int rows = std::max({kBenchChunk, plan_.rows_max(), plan_.batch_max()});
  for (const int threads : plan_.threads) {
    Team team;
    if (threads != stack_->pool->threads()) team.own = std::make_unique<ThreadPool>(threads);
    team.pool = team.own ? team.own.get() : stack_->pool.get();
    TRY(check_started(*team.pool, threads));
    team.decoder = std::make_unique<Decoder>(stack_->bundle->model(), *stack_->kernels, *team.pool,
                                             rows, plan_.batch_max());
    teams_.push_back(std::move(team));
  }
  return {};
}

BenchRunner::Team& BenchRunner::team(int threads) {
  const auto found = std::ranges::find(plan_.threads, threads);
  CHECK(found != plan_.threads.end());
  return teams_[static_cast<std::size_t>(found - plan_.threads.begin())];
}

ThreadPool& BenchRunner::pool(int threads) {
  return *team(threads).pool;
}

BenchRunner::Depth& BenchRunner::at(Position depth) {
  const auto found = std::ranges::find(depths_, depth, &Depth::depth);
  CHECK(found != depths_.end());
  return *found;
}

// Ids spread over the vocabulary, a function of the position: the same in every run and cell.
std::vector<TokenId> BenchRunner::tokens(Position first, int count) const {
  const auto vocabulary = static_cast<std::uint64_t>(stack_->bundle->model().config().vocabulary);
  std::vector<TokenId> ids;
  for (int i = 0; i < count; i++) {
    std::uint64_t mixed = static_cast<std::uint64_t>(first + i) * 0x9E3779B97F4A7C15U + 1;
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9U;
    ids.push_back(static_cast<TokenId>((mixed >> 32) % vocabulary));
  }
  return ids;
}

// `rows` more tokens of each sequence, and one row of logits of each.
std::span<const float> BenchRunner::forward(Team& team, std::vector<SequenceCache>& sequences,
                                            int rows) {
  const Position offset = sequences.front().offset();
  const std::vector<TokenId> ids = tokens(offset, rows);
  std::vector<BatchEntry> entries;
  for (SequenceCache& sequence : sequences) {
    CHECK(sequence.reserve(offset + rows));
    entries.push_back({.cache = &sequence, .tokens = ids, .logit_rows = 1});
  }
  const std::span<const float> logits = team.decoder->forward(entries);
  for (SequenceCache& sequence : sequences) {
    sequence.commit(offset + rows);
    sequence.drop_unneeded();
  }
  return logits;
}

SequenceCache BenchRunner::copy_of(const SequenceCache& sequence) {
  const Model& model = stack_->bundle->model();
  if (sequence.offset() == 0 || 4 * sequence.held_bytes() > memory_available_bytes()) {
    return sequence.fork();
  }
  const Result<StateSnapshot> snapshot = model.snapshot_sequence_state(sequence);
  if (!snapshot) return sequence.fork();
  Result<SequenceCache> copy = model.restore_sequence_state(*snapshot, *pages_);
  return copy ? std::move(*copy) : sequence.fork();
}

// The sequences of a batch have pages of their own, or reading them would cost what one costs.
// Filling one is a prefill; the others are deep copies of it, where the KV type has snapshots and
// there is memory enough.
Status BenchRunner::fill() {
  TRY(make_pages());
  TRY(make_teams());
  Team& fastest = team(std::ranges::max(plan_.threads));
  std::vector<SequenceCache> filling;
  filling.emplace_back(*pages_);
  for (const Position depth : plan_.depths) {
    while (filling.front().offset() < depth) {
      const Position left = depth - filling.front().offset();
      forward(fastest, filling, static_cast<int>(std::min<Position>(kBenchChunk, left)));
    }
    Depth filled{.depth = depth, .sequences = {}};
    filled.sequences.push_back(filling.front().fork());
    for (int i = 1; i < plan_.batch_max(); i++) {
      filled.sequences.push_back(copy_of(filling.front()));
    }
    depths_.push_back(std::move(filled));
  }
  return {};
}

void BenchRunner::run_round(bool warms_up) {
  const std::size_t count = results_.size();
  for (std::size_t i = 0; i < count; i++) {
    const std::size_t turned = round_ % 2 == 0 ? i : count - 1 - i;
    sample(results_[turned], !warms_up);
  }
  round_++;
}

void BenchRunner::sample(BenchResult& result, bool keeps) {
  const BenchCell& cell = result.cell;
  Team& workers = team(cell.threads);
  std::vector<SequenceCache> sequences;
  for (int i = 0; i < cell.batch; i++) {
    sequences.push_back(at(cell.depth).sequences[static_cast<std::size_t>(i)].fork());
  }
  const int steps = cell.is_decode() ? kBenchDecodeSteps + 2 : 1;
  std::vector<double> times;
  std::string hashes;
  for (int step = 0; step < steps; step++) {
    const bool first = cell.is_decode() && step == 0;  // copies shared pages
    const bool last = cell.is_decode() && step == steps - 1;
    if (last) workers.pool->measure_busy(true);
    const auto begin = Clock::now();
    const std::span<const float> logits = forward(workers, sequences, cell.rows);
    const double time = milliseconds_since(begin);
    if (last) {
      const double inside = 1000 * workers.pool->busy_seconds() / cell.threads;
      workers.pool->measure_busy(false);
      if (keeps) result.overhead.push_back(std::max(0.0, 1 - inside / time));
    } else if (!first) {
      times.push_back(time);
    }
    const std::size_t vocabulary = logits.size() / static_cast<std::size_t>(cell.batch);
    const std::string hash = content_hash(std::as_bytes(logits.first(vocabulary)));
    for (int i = 1; i < cell.batch; i++) {
      const auto row = logits.subspan(static_cast<std::size_t>(i) * vocabulary, vocabulary);
      if (content_hash(std::as_bytes(row)) != hash && mismatch_.empty()) {
        mismatch_ = fmt::format("{}: sequences 0 and {} differ", name_of(cell), i);
      }
    }
    hashes += hash;
  }
  const double total = std::accumulate(times.begin(), times.end(), 0.0);
  if (keeps) result.milliseconds.push_back(total / static_cast<double>(times.size()));
  note_hash(result, content_hash(std::as_bytes(std::span(hashes))));
}

void BenchRunner::note_hash(BenchResult& result, const std::string& hash) {
  if (result.hash.empty()) result.hash = hash;
  if (result.hash != hash && mismatch_.empty()) {
    mismatch_ = fmt::format("{}: two rounds differ", name_of(result.cell));
  }
}

Result<std::string> BenchRunner::logits_hash() const {
  if (!mismatch_.empty()) return fail(Errc::corrupt, "logits: " + mismatch_, "logits");
  std::map<std::pair<Position, int>, const BenchResult*> known;
  std::string hashes;
  for (const BenchResult& result : results_) {
    const auto [found, added] =
        known.emplace(std::pair(result.cell.depth, result.cell.rows), &result);
    if (added) hashes += result.hash;
    if (found->second->hash != result.hash) {
      return fail(Errc::corrupt,
                  fmt::format("logits: {} differ from {}", name_of(result.cell),
                              name_of(found->second->cell)),
                  "logits");
    }
  }
  return content_hash(std::as_bytes(std::span(hashes)));
}

}  // namespace reprise
