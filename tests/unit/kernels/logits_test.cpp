// The kernels over a row of logits: maxima of blocks and exponents, the same from every ISA.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "compare.h"
#include "kernels/kernels.h"

namespace reprise::kernels {
namespace {

TEST(Logits, MaximaOfBlocksPassOverNan) {
  for (const int count : {1, 7, 8, 127, 128, 129, 300, 1024, 1031}) {
    for (unsigned seed = 0; seed < 4; seed++) {
      const auto n = static_cast<std::size_t>(count);
      std::vector<float> x = seed == 0 ? awkward_values(n, 3) : normal_values(n, seed, 4.0f);
      for (std::size_t i = seed; seed > 1 && i < n; i += 3) {
        x[i] = std::numeric_limits<float>::quiet_NaN();
      }
      std::vector<float> expected;
      for (std::size_t first = 0; first < n; first += kMaximumBlock) {
        float largest = -std::numeric_limits<float>::infinity();
        for (std::size_t i = first; i < std::min<std::size_t>(n, first + kMaximumBlock); i++) {
          if (x[i] > largest) largest = x[i];
        }
        expected.push_back(largest);
      }
      for (const KernelTable* table : available_kernels()) {
        std::vector<float> maxima(expected.size());
        table->block_maxima(x.data(), count, maxima.data());
        for (std::size_t block = 0; block < maxima.size(); block++) {
          EXPECT_EQ(maxima[block], expected[block]) << table->isa << " " << count << " " << block;
        }
      }
    }
  }
}

// A mask leaves few tokens, or none; what is suppressed has no weight.
TEST(Logits, SuppressedTokensWeighNothing) {
  constexpr float kImpossible = -std::numeric_limits<float>::infinity();
  for (const int count : {1, 5, 16, 17, 127, 129, 300, 1031}) {
    const auto n = static_cast<std::size_t>(count);
    for (unsigned seed = 1; seed < 5; seed++) {
      const std::vector<float> whole = normal_values(n, seed, 4.0f);
      std::vector<float> x(n, kImpossible), finite(n, -1e9f);
      for (std::size_t i = seed * 37 % n; i < n; i += seed * 53) x[i] = finite[i] = whole[i];
      for (const KernelTable* table : available_kernels()) {
        const int best = table->argmax(x.data(), count);
        EXPECT_EQ(best, table->argmax(finite.data(), count)) << table->isa << count;
        const float largest = x[static_cast<std::size_t>(best)];
        const double sum = table->sum_exp(x.data(), count, largest);
        EXPECT_EQ(sum, table->sum_exp(finite.data(), count, largest)) << table->isa << count;
        EXPECT_GE(sum, 1.0);
        std::vector<float> exponents(n);
        table->scaled_exponents(x.data(), count, largest, 0.7, exponents.data());
        EXPECT_EQ(table->argmax(exponents.data(), count), best);
        EXPECT_GE(table->sum_exp(exponents.data(), count, 0), 1.0);
      }
    }
    const std::vector<float> none(n, kImpossible);
    for (const KernelTable* table : available_kernels()) {
      EXPECT_EQ(table->argmax(none.data(), count), 0) << table->isa;
      std::vector<float> maxima((n + kMaximumBlock - 1) / kMaximumBlock, 1.0f);
      table->block_maxima(none.data(), count, maxima.data());
      for (const float maximum : maxima) EXPECT_EQ(maximum, kImpossible) << table->isa;
    }
  }
}

TEST(Logits, ExponentsAreDividedInDoubleAndRoundedOnce) {
  for (const double temperature : {0.7, 1.3, 1e-6, 37.0}) {
    for (const int count : {1, 7, 8, 9, 100}) {
      for (const std::size_t shift : {0, 1, 3}) {
        const auto n = static_cast<std::size_t>(count);
        std::vector<float> x = normal_values(n + shift, 7, 6.0f);
        x[shift] = -std::numeric_limits<float>::infinity();  // a suppressed token
        std::vector<float> expected(n);
        for (std::size_t i = 0; i < n; i++) {
          const double difference = static_cast<double>(x[i + shift]) - 9.0;
          expected[i] = static_cast<float>(difference / temperature);
        }
        for (const KernelTable* table : available_kernels()) {
          std::vector<float> exponents(n);
          table->scaled_exponents(x.data() + shift, count, 9.0f, temperature, exponents.data());
          EXPECT_EQ(first_difference(exponents, expected), -1) << table->isa << " " << count;
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::kernels
