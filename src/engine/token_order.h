// A row's tokens from the likeliest down, ranked only as far as somebody asks.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "kernels/kernels.h"

namespace reprise {

// The total order: logits descending, equal ones (zeros of both signs are) by ascending id.
//
// The first few come from one pass with a heap. Beyond, logits are put into buckets by the upper
// bits of an integer that falls as they rise, and whole buckets are radix-sorted as they are asked
// for: O(vocabulary) whatever the row, and nothing is sorted twice.
class TokenOrder {
 public:
  explicit TokenOrder(const kernels::KernelTable& kernels) : kernels_(&kernels) {}

  // Of this row, which has no NaN and must live; nothing is ranked yet.
  void start(std::span<const float> logits);
  // Ranks the first `count` at least, as far as there are so many.
  void rank(std::size_t count);
  // What is ranked, in order.
  std::span<const TokenId> ids() const { return ids_; }

 private:
  static constexpr int kBucketBits = 13;

  void rank_few(std::size_t count);
  void count_buckets();
  void rank_buckets(std::size_t count);
  void sort_entries(std::size_t count);
  void append_ids(std::size_t count);

  const kernels::KernelTable* kernels_;
  std::span<const float> logits_;
  std::vector<TokenId> ids_;
  bool has_buckets_ = false;
  std::size_t next_bucket_ = 0;  // those before it are ranked
  std::array<std::uint32_t, std::size_t{1} << kBucketBits> bucket_sizes_ = {};
  // Scratch, reused. An entry is a token's place in the total order as one number: its falling
  // key, then its id.
  std::vector<std::uint64_t> entries_, spare_;
  std::vector<float> maxima_;  // of blocks of the row
};

}  // namespace reprise
