// Drafts for decoding sequences: what each may sample next, and how much of that to forward now.
// They take what room is left and push nobody aside; rows that do not come true leave no trace.
#include <algorithm>

#include "base/check.h"
#include "engine/scheduler.h"

namespace reprise {

void Scheduler::add_drafts(std::span<Chunk> chunks) {
  if (options_.speculation == Speculation::off) return;
  std::vector<Chunk*> decoding;
  for (Chunk& chunk : chunks) {
    if (!chunk.sequence->is_decoding()) continue;
    propose(chunk);
    decoding.push_back(&chunk);
  }
  if (options_.draft) {
    int left = kDraftRowsMax;
    for (Chunk* chunk : decoding) {
      draft_rows(*chunk, std::min(left, static_cast<int>(chunk->draft.tokens.size())));
      left -= chunk->drafted;
    }
  } else if (decoding.size() == chunks.size()) {  // rows beside a prefill are not cheap
    plan_drafted(decoding);
  }
}

// The last token of a reply is never forwarded.
void Scheduler::propose(Chunk& chunk) const {
  Sequence& sequence = *chunk.sequence;
  const auto most =
      static_cast<std::size_t>(std::clamp<Position>(sequence.tokens_left() - 1, 0, kDraftRowsMax));
  if (options_.draft) {
    chunk.draft.tokens = options_.draft(sequence.tokens(), most);
    CHECK(chunk.draft.tokens.size() <= most);
  } else {
    chunk.draft = sequence.drafter.propose(sequence.tokens(), most);
  }
}

void Scheduler::plan_drafted(std::span<Chunk* const> decoding) {
  std::vector<std::vector<double>> chances;
  for (const Chunk* chunk : decoding) {
    std::vector<double>& own = chances.emplace_back();
    for (std::size_t i = 0; i < chunk->draft.tokens.size(); i++) {
      own.push_back(chunk->sequence->guesses.chance(chunk->draft.matched + static_cast<int>(i)));
    }
  }
  const std::vector<int> drafted = plan_drafts(chances, step_costs_);
  for (std::size_t i = 0; i < decoding.size(); i++) draft_rows(*decoding[i], drafted[i]);
}

// Up to `rows` rows of the chunk's draft, as many as there is room for without asking anybody.
void Scheduler::draft_rows(Chunk& chunk, int rows) {
  SequenceCache& cache = chunk.sequence->cache;
  const Position length = chunk.sequence->length();
  if (cache.bytes_to_reserve(length + rows) > pages_.available_bytes()) {
    const Position to_page_end = (kPagePositions - length % kPagePositions) % kPagePositions;
    rows = static_cast<int>(std::min<Position>(rows, to_page_end));
  }
  if (rows <= 0) return;
  CHECK(cache.reserve(length + rows));
  chunk.drafted = rows;
  chunk.tokens.push_back(chunk.sequence->tokens().back());
  const auto end = chunk.draft.tokens.begin() + rows;
  chunk.tokens.insert(chunk.tokens.end(), chunk.draft.tokens.begin(), end);
}

bool Scheduler::judge_guess(const Chunk& chunk, std::size_t row, TokenId sampled) const {
  if (row >= chunk.draft.tokens.size()) return false;
  const bool is_right = chunk.draft.tokens[row] == sampled;
  chunk.sequence->guesses.observe(chunk.draft.matched + static_cast<int>(row), is_right);
  return is_right;
}

}  // namespace reprise
