// Runs token sequences through a model and keeps what came out, to compare runs to the bit.
#pragma once
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "kv/sequence_cache.h"
#include "model/decoder.h"
#include "support/tiny_model.h"

namespace reprise::testing {

struct RunnerOptions {
  int threads = 1;
  const char* isa = "";  // "": the best one
  kernels::KvType kv_type = kernels::KvType::f16;
  int rows_max = 512;
  std::size_t budget_bytes = std::size_t{64} << 20;
};

class Runner {
 public:
  Runner(const Model& model, const RunnerOptions& options)
      : threads(options.threads),
        pool(model.config().kv_layout(options.kv_type), options.budget_bytes),
        vocabulary(static_cast<std::size_t>(model.config().vocabulary)),
        decoder(model, *kernels::choose_kernels(options.isa).value(), threads, options.rows_max,
                options.rows_max) {}

  // Feeds `tokens` to the sequence in chunks of `chunk` rows (0: all at once) and returns the
  // logits of every row, one after another.
  std::vector<float> feed(SequenceCache& cache, std::span<const TokenId> tokens, int chunk = 0) {
    std::vector<float> logits;
    const std::size_t step = chunk > 0 ? static_cast<std::size_t>(chunk) : tokens.size();
    for (std::size_t at = 0; at < tokens.size(); at += step) {
      const std::span<const TokenId> part = tokens.subspan(at, std::min(step, tokens.size() - at));
      BatchEntry entry{&cache, part, static_cast<int>(part.size())};
      const std::span<const float> rows = feed_batch({&entry, 1});
      logits.insert(logits.end(), rows.begin(), rows.end());
    }
    return logits;
  }

  // One forward pass of several sequences, committed.
  std::span<const float> feed_batch(std::span<BatchEntry> entries) {
    for (BatchEntry& entry : entries) {
      EXPECT_TRUE(
          entry.cache->reserve(entry.cache->offset() + static_cast<Position>(entry.tokens.size())));
    }
    const std::span<const float> logits = decoder.forward(entries);
    for (BatchEntry& entry : entries) {
      EXPECT_TRUE(entry.is_finite());
      entry.cache->commit(entry.cache->offset() + static_cast<Position>(entry.tokens.size()));
      entry.cache->drop_unneeded();
    }
    return logits;
  }

  SequenceCache sequence() { return SequenceCache(pool); }

  ThreadPool threads;
  PagePool pool;
  std::size_t vocabulary;
  Decoder decoder;
};

// Byte equality: NaNs and signed zeros count.
inline ::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " values against " << b.size();
  }
  for (std::size_t i = 0; i < a.size(); i++) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "value " << i << ": " << a[i] << " against " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace reprise::testing
