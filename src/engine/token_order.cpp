// The total order of a row: a heap for its beginning, buckets and a radix sort for the rest.
#include "engine/token_order.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace reprise {
namespace {

constexpr std::size_t kFew = 128;  // ranked with a heap
constexpr int kKeyBits = 32;

// Falls as logits rise: larger positive floats have larger bits, larger negative ones smaller bits.
std::uint32_t falling_key(float logit) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0f);  // no negative zero
  return (bits >> 31) != 0 ? bits : bits ^ 0x7fffffffu;
}

std::uint64_t entry_of(float logit, std::size_t id) {
  return std::uint64_t{falling_key(logit)} << kKeyBits | id;
}

TokenId id_of(std::uint64_t entry) {
  return static_cast<TokenId>(entry & 0xffffffffu);
}

}  // namespace

void TokenOrder::start(std::span<const float> logits) {
  logits_ = logits;
  ids_.clear();
  has_buckets_ = false;
}

void TokenOrder::rank(std::size_t count) {
  count = std::min(count, logits_.size());
  if (ids_.size() >= count) return;
  if (!has_buckets_ && count <= kFew) {
    rank_few(count);
    return;
  }
  if (!has_buckets_) count_buckets();
  rank_buckets(count);
}

// One pass with a heap, whose top is the worst entry held. Blocks whose maximum is not above it are
// passed over: an equal logit with a higher id is behind it.
void TokenOrder::rank_few(std::size_t count) {
  constexpr auto kBlock = static_cast<std::size_t>(kernels::kMaximumBlock);
  maxima_.resize((logits_.size() + kBlock - 1) / kBlock);
  kernels_->block_maxima(logits_.data(), static_cast<int>(logits_.size()), maxima_.data());
  entries_.clear();
  float least = 0;  // of the entries, once there are `count`
  for (std::size_t block = 0; block < maxima_.size(); block++) {
    if (entries_.size() == count && maxima_[block] <= least) continue;
    const std::size_t end = std::min((block + 1) * kBlock, logits_.size());
    for (std::size_t id = block * kBlock; id < end; id++) {
      if (entries_.size() < count) {
        entries_.push_back(entry_of(logits_[id], id));
        if (entries_.size() == count) std::ranges::make_heap(entries_);
      } else if (logits_[id] > least) {
        std::ranges::pop_heap(entries_);
        entries_.back() = entry_of(logits_[id], id);
        std::ranges::push_heap(entries_);
      } else {
        continue;
      }
      least = logits_[static_cast<std::size_t>(id_of(entries_.front()))];
    }
  }
  std::ranges::sort(entries_);
  ids_.clear();
  append_ids(entries_.size());
}

// From here on the order is ranked anew: buckets know nothing of the heap's.
void TokenOrder::count_buckets() {
  ids_.clear();
  bucket_sizes_.fill(0);
  for (const float logit : logits_) bucket_sizes_[falling_key(logit) >> (kKeyBits - kBucketBits)]++;
  next_bucket_ = 0;
  has_buckets_ = true;
}

void TokenOrder::rank_buckets(std::size_t count) {
  std::size_t end = next_bucket_, more = 0;
  while (ids_.size() + more < count) more += bucket_sizes_[end++];
  if (entries_.size() < more + 1) entries_.resize(more + 1);  // each is written, then kept or not
  std::size_t found = 0;
  for (std::size_t id = 0; id < logits_.size(); id++) {
    entries_[found] = entry_of(logits_[id], id);
    const auto bucket = static_cast<std::size_t>(entries_[found] >> (2 * kKeyBits - kBucketBits));
    found += bucket - next_bucket_ < end - next_bucket_ ? 1 : 0;
  }
  sort_entries(found);
  append_ids(found);
  next_bucket_ = end;
}

// By key, least significant digit first; they come in the order of their ids. Source: Knuth, The
// Art of Computer Programming 3, algorithm 5.2.5R, with counts in place of lists.
void TokenOrder::sort_entries(std::size_t count) {
  constexpr int kDigitBits = 11, kDigits = 3;
  constexpr std::size_t kValues = std::size_t{1} << kDigitBits;
  const auto digit_of = [](std::uint64_t entry, int digit) {
    return static_cast<std::size_t>(entry >> (kKeyBits + digit * kDigitBits)) & (kValues - 1);
  };
  std::array<std::array<std::uint32_t, kValues>, kDigits> places = {};
  for (std::size_t i = 0; i < count; i++) {
    places[0][digit_of(entries_[i], 0)]++;
    places[1][digit_of(entries_[i], 1)]++;
    places[2][digit_of(entries_[i], 2)]++;
  }
  if (spare_.size() < count) spare_.resize(count);
  for (int digit = 0; digit < kDigits; digit++) {
    std::array<std::uint32_t, kValues>& place = places[static_cast<std::size_t>(digit)];
    if (place[digit_of(entries_[0], digit)] == count) continue;  // all have the same
    std::uint32_t sum = 0;
    for (std::uint32_t& each : place) sum += std::exchange(each, sum);
    for (std::size_t i = 0; i < count; i++) {
      spare_[place[digit_of(entries_[i], digit)]++] = entries_[i];
    }
    std::swap(entries_, spare_);
  }
}

void TokenOrder::append_ids(std::size_t count) {
  ids_.reserve(ids_.size() + count);
  for (std::size_t i = 0; i < count; i++) ids_.push_back(id_of(entries_[i]));
}

}  // namespace reprise
