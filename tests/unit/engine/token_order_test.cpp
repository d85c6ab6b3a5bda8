// The total order of a row against sorting all of it, however far it is asked for, and what that
// costs.
#include "engine/token_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "engine/sampling.h"

namespace reprise {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

std::vector<TokenId> sorted_ids(std::span<const float> row) {
  std::vector<TokenId> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, std::ranges::greater{},
                           [&](TokenId id) { return row[static_cast<std::size_t>(id)]; });
  return ids;
}

std::vector<float> normal_row(std::size_t count, unsigned seed, float mean, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, spread);
  std::vector<float> row(count);
  for (float& logit : row) logit = normal(random);
  return row;
}

// Rows that lie badly in buckets, in radix digits or in the heap.
std::vector<std::vector<float>> hard_rows(std::size_t count) {
  std::vector<std::vector<float>> rows = {
      normal_row(count, 1, 0, 5), normal_row(count, 2, 7, 0.01f), std::vector<float>(count, 1.5f),
      std::vector<float>(count, kImpossible)};
  std::vector<float> rising = normal_row(count, 3, 0, 30), few = rising, zeros = rising;
  std::ranges::sort(rising);
  std::mt19937 random(4);
  constexpr float kMost = std::numeric_limits<float>::max();
  const float values[] = {0.0f, -0.0f, 1e-45f, -1e-45f, kMost, -kMost, kImpossible, 2};
  for (float& logit : few) logit = std::round(logit / 8);
  for (float& logit : zeros) logit = values[random() % std::size(values)];
  rows.push_back(rising);
  rows.emplace_back(rising.rbegin(), rising.rend());
  rows.push_back(few);
  rows.push_back(zeros);
  return rows;
}

TEST(TokenOrder, EqualsSortingTheRow) {
  for (const kernels::KernelTable* table : kernels::available_kernels()) {
    TokenOrder order(*table);
    for (const std::size_t count : {1, 2, 127, 128, 129, 500, 3000, 70'000}) {
      std::mt19937 random(static_cast<unsigned>(count));
      for (const std::vector<float>& row : hard_rows(count)) {
        const std::vector<TokenId> expected = sorted_ids(row);
        for (int round = 0; round < 4; round++) {
          order.start(row);
          EXPECT_TRUE(order.ids().empty());
          for (std::size_t asked = random() % 3; asked < 4 * count;
               asked = 1 + asked * (1 + random() % 40)) {
            order.rank(asked);
            const std::span<const TokenId> ids = order.ids();
            ASSERT_GE(ids.size(), std::min(asked, count));
            ASSERT_TRUE(std::ranges::equal(ids, std::span(expected).first(ids.size())))
                << table->isa << " " << count << " " << asked;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise
