// Runs a batch of rows through the model. One caller at a time; uses all threads of its pool.
#pragma once
#include <memory>
#include <span>

#include "base/thread_pool.h"
#include "base/types.h"
#include "kernels/kernels.h"
#include "kv/sequence_cache.h"
#include "model/model.h"

namespace reprise {

// Consecutive rows of one sequence: tokens at positions cache->offset() and on.
struct BatchEntry {
  SequenceCache* cache = nullptr;  // reserve(offset + tokens) was granted; not committed here
  std::span<const TokenId> tokens;
  int logit_rows = 0;  // logits are wanted for the last this many tokens
  // out: so many of its rows, from the first on, have finite keys, values and wanted logits only.
  int finite_rows = 0;

  bool is_finite() const { return finite_rows == static_cast<int>(tokens.size()); }
};

class Decoder {
 public:
  // Takes scratch memory for `rows_max` rows in a batch and `logit_rows_max` rows of logits.
  Decoder(const Model& model, const kernels::KernelTable& kernels, ThreadPool& pool, int rows_max,
          int logit_rows_max);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder();

  int rows_max() const;
  int logit_rows_max() const;

  // Writes keys and values of all rows into the entries' reserved places and returns the wanted
  // logits [logit rows in order of entries, vocabulary], valid until the next call. Two entries
  // never share a cache. A row's numbers depend on its own tokens and cache only (law L1).
  std::span<const float> forward(std::span<BatchEntry> entries);

 private:
  struct Workspace;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace reprise
