// Row by row kernels: one result on every ISA, equal to the plain loops below, near exact maths.
#include "kernels/rowwise.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "compare.h"
#include "kernels/math.h"

namespace reprise::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<KernelTable> tables() {
  std::vector<KernelTable> all(1);
  all[0].isa = "scalar";
  scalar::add_rowwise_kernels(all[0]);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    all.emplace_back();
    all[1].isa = "avx2";
    avx2::add_rowwise_kernels(all[1]);
  }
  if (all.size() == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    all.emplace_back();
    all[2].isa = "avx512";
    avx512::add_rowwise_kernels(all[2]);
  }
  return all;
}

// The kernels over `count` values as one shape: x in place, y a second operand.
struct Case {
  const char* name;
  std::function<void(const KernelTable&, float* x, const float* y, std::size_t count)> run;
  // The same in plain loops.
  std::function<void(float* x, const float* y, std::size_t count)> specification;
};

void plain_rms_norm(float* x, const float* weight, std::size_t count) {
  float lanes[32] = {};
  for (std::size_t i = 0; i < count; i++) lanes[i % 32] = __builtin_fmaf(x[i], x[i], lanes[i % 32]);
  for (std::size_t i = count; i % 32 != 0; i++) lanes[i % 32] = __builtin_fmaf(0, 0, lanes[i % 32]);
  for (int half = 16; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) lanes[i] = lanes[i] + lanes[i + half];
  }
  const float inverse = 1.0f / std::sqrt(lanes[0] / static_cast<float>(count) + 1e-6f);
  for (std::size_t i = 0; i < count; i++) {
    x[i] = x[i] * inverse;
    if (weight != nullptr) x[i] = x[i] * weight[i];
  }
}

template <class F>
auto each_value(F f) {
  return [f](float* x, const float* y, std::size_t count) {
    for (std::size_t i = 0; i < count; i++) x[i] = f(x[i], y[i]);
  };
}

std::vector<Case> cases() {
  return {
      {"rms_norm",
       [](const KernelTable& t, float* x, const float* y, std::size_t n) {
         t.rms_norm(x, n, y, 1e-6f, 1, static_cast<int>(n), x, n);
       },
       plain_rms_norm},
      {"rms_norm without weight",
       [](const KernelTable& t, float* x, const float*, std::size_t n) {
         t.rms_norm(x, n, nullptr, 1e-6f, 1, static_cast<int>(n), x, n);
       },
       [](float* x, const float*, std::size_t n) { plain_rms_norm(x, nullptr, n); }},
      {"add", [](const KernelTable& t, float* x, const float* y, std::size_t n) { t.add(x, y, n); },
       each_value([](float x, float y) { return x + y; })},
      {"scale",
       [](const KernelTable& t, float* x, const float*, std::size_t n) { t.scale(x, 1.7f, n); },
       each_value([](float x, float) { return x * 1.7f; })},
      {"add_scaled",
       [](const KernelTable& t, float* x, const float* y, std::size_t n) {
         t.add_scaled(x, y, -1.7f, n);
       },
       each_value([](float x, float y) { return __builtin_fmaf(y, -1.7f, x); })},
      {"multiply",
       [](const KernelTable& t, float* x, const float* y, std::size_t n) { t.multiply(x, y, n); },
       each_value([](float x, float y) { return x * y; })},
      {"sigmoid_multiply",  // x is the gate, so that awkward values reach it
       [](const KernelTable& t, float* x, const float* y, std::size_t n) {
         std::vector<float> values(y, y + n);
         t.sigmoid_multiply(values.data(), x, n);
         std::copy(values.begin(), values.end(), x);
       },
       each_value([](float x, float y) { return y * sigmoid_f32(x); })},
      {"gelu_tanh_multiply",
       [](const KernelTable& t, float* x, const float* y, std::size_t n) {
         t.gelu_tanh_multiply(x, y, n);
       },
       each_value([](float x, float y) {
         const float t = x * __builtin_fmaf(x * x, 0.07135481627159626f, 1.5957691216057308f);
         return x / (1.0f + exp_f32(-t)) * y;
       })},
      {"gelu_multiply",
       [](const KernelTable& t, float* x, const float* y, std::size_t n) {
         t.gelu_multiply(x, y, n);
       },
       each_value(
           [](float x, float y) { return x * 0.5f * (1.0f + erf_f32(x * 0.70710678f)) * y; })},
      {"silu_multiply",
       [](const KernelTable& t, float* x, const float* y, std::size_t n) {
         t.silu_multiply(x, y, n);
       },
       each_value([](float x, float y) { return x / (1.0f + exp_f32(-x)) * y; })},
      {"softcap",
       [](const KernelTable& t, float* x, const float*, std::size_t n) { t.softcap(x, 30.0f, n); },
       each_value([](float x, float) { return tanh_f32(x / 30.0f) * 30.0f; })},
      {"exponentials",
       [](const KernelTable& t, float* x, const float*, std::size_t n) { t.exponentials(x, n); },
       each_value([](float x, float) { return exp_f32(x); })},
  };
}

TEST(Rowwise, EveryIsaEqualsThePlainLoopsForEveryLengthAndAlignment) {
  const std::vector<KernelTable> all = tables();
  for (const Case& kernel : cases()) {
    for (std::size_t count = 0; count <= 70; count++) {
      for (const std::size_t shift : {0, 1, 3}) {
        for (const unsigned kind : {0u, 1u, 2u}) {
          const unsigned seed = static_cast<unsigned>(count) * 3 + kind;
          // Sixteen values behind the end must stay as they are.
          std::vector<float> x = kind == 0 ? normal_values(count + shift + 16, seed, 4.0f)
                                           : awkward_values(count + shift + 16, seed);
          if (kind == 2) {
            for (float& v : x) v = std::isfinite(v) ? std::ldexp(v, -140) : v;  // denormal rows
          }
          const std::vector<float> y = normal_values(count + shift + 16, seed + 1);
          std::vector<float> want = x;
          if (count > 0) kernel.specification(&want[shift], &y[shift], count);
          for (const KernelTable& table : all) {
            std::vector<float> got = x;
            kernel.run(table, &got[shift], &y[shift], count);
            ASSERT_EQ(first_difference(got, want), -1)
                << kernel.name << " " << table.isa << " count " << count << " shift " << shift
                << " kind " << kind;
          }
        }
      }
    }
  }
}

TEST(Rowwise, ElementaryLanesEqualTheirFunctionsOverTheWholeRange) {
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits < 0x7f900000u; bits += 0x3001) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(-x.back());
  }
  std::vector<float> ones(x.size(), 1.0f), want_silu = x, want_tanh = x, want_gelu = x,
                                           want_exp = x;
  for (float& v : want_exp) v = exp_f32(v);
  for (float& v : want_silu) v = v / (1.0f + exp_f32(-v));
  for (float& v : want_tanh) v = tanh_f32(v / 1.0f) * 1.0f;
  for (float& v : want_gelu) v = v * 0.5f * (1.0f + erf_f32(v * 0.70710678f));
  for (const KernelTable& table : tables()) {
    std::vector<float> silu = x, tanh = x, gelu = x, exponentials = x;
    table.exponentials(exponentials.data(), exponentials.size());
    EXPECT_EQ(first_difference(exponentials, want_exp), -1) << table.isa;
    table.gelu_multiply(gelu.data(), ones.data(), gelu.size());
    EXPECT_EQ(first_difference(gelu, want_gelu), -1) << table.isa;
    table.silu_multiply(silu.data(), ones.data(), silu.size());
    table.softcap(tanh.data(), 1.0f, tanh.size());
    EXPECT_EQ(first_difference(silu, want_silu), -1) << table.isa;
    EXPECT_EQ(first_difference(tanh, want_tanh), -1) << table.isa;
  }
}

TEST(Rowwise, ErrorsAgainstDoubleStayWithinTheirFormulas) {
  const std::size_t count = 20000;
  const std::vector<float> x = normal_values(count, 1, 6.0f), y = normal_values(count, 2);
  const double u = 0x1p-24;  // half an ulp of 1
  const KernelTable table = tables().back();
  std::vector<float> gelu = x, exact_form = x, silu = x, capped = x, gated = y;
  table.gelu_multiply(exact_form.data(), y.data(), count);
  table.gelu_tanh_multiply(gelu.data(), y.data(), count);
  table.silu_multiply(silu.data(), y.data(), count);
  table.softcap(capped.data(), 30.0f, count);
  table.sigmoid_multiply(gated.data(), x.data(), count);
  for (std::size_t i = 0; i < count; i++) {
    const double v = x[i], t = v * (1.5957691216057308 + 0.07135481627159626 * v * v);
    // exp 2 ulp = 4u, one u for each of sum, quotient, product; e^-t turns t's 3u into 3 |t| u.
    const double exact_gelu = v / (1 + std::exp(-t)) * y[i];
    const double gelu_bound = std::fabs(exact_gelu) * (7 + 3 * std::fabs(t)) * u;
    EXPECT_NEAR(gelu[i], exact_gelu, t > -87 ? gelu_bound : 1e-34);  // beyond, exp is capped
    // erf 1 ulp = 2u of at most 1, its argument's rounding and the constant's another u each times
    // x erf'(x) < 0.5, the sum u, in all 4 u of half x; then two products.
    const double exact_erf = 0.5 * v * (1 + std::erf(v * std::sqrt(0.5)));
    const double erf_bound = (4 * std::fabs(0.5 * v) + 2 * std::fabs(exact_erf)) * u;
    EXPECT_NEAR(exact_form[i], exact_erf * y[i], erf_bound * std::fabs(y[i]));
    const double exact_silu = v / (1 + std::exp(-v)) * y[i];
    EXPECT_NEAR(silu[i], exact_silu, std::fabs(exact_silu) * 7 * u);
    const double exact_gated = y[i] / (1 + std::exp(-v));
    EXPECT_NEAR(gated[i], exact_gated, std::fabs(exact_gated) * 7 * u);
    // tanh 4 ulp = 8u, quotient and product u each; tanh's condition number is at most 1.
    const double exact_cap = 30 * std::tanh(v / 30);
    EXPECT_NEAR(capped[i], exact_cap, std::fabs(exact_cap) * 10 * u);
  }
  for (const int columns : {16, 640, 2560, 4099}) {
    const std::size_t n = static_cast<std::size_t>(columns);
    std::vector<float> out(n);
    table.rms_norm(x.data(), n, y.data(), 1e-6f, 1, columns, out.data(), n);
    double mean = 0;
    for (std::size_t i = 0; i < n; i++) mean += static_cast<double>(x[i]) * x[i] / columns;
    const double inverse = 1 / std::sqrt(mean + 1e-6);
    // A lane's chain and the five joins on the sum, halved by the root; then five roundings.
    const double bound = ((columns / 32 + 1 + 5 + 2) / 2.0 + 5) * u;
    for (std::size_t i = 0; i < n; i++) {
      const double exact = x[i] * inverse * y[i];
      EXPECT_NEAR(out[i], exact, std::fabs(exact) * bound) << columns;
    }
  }
}

TEST(Rowwise, RowsKeepTheirStrides) {
  for (const KernelTable& table : tables()) {
    const std::vector<float> x = normal_values(3 * 40, 3), weight = normal_values(19, 4);
    std::vector<float> out(3 * 50, 7.0f), biased = x;
    table.rms_norm(x.data(), 40, weight.data(), 1e-5f, 3, 19, out.data(), 50);
    table.add_row(biased.data(), 40, weight.data(), 3, 19);
    for (std::size_t row = 0; row < 3; row++) {
      std::vector<float> alone(19);
      table.rms_norm(&x[row * 40], 40, weight.data(), 1e-5f, 1, 19, alone.data(), 19);
      for (std::size_t i = 0; i < 50; i++) {
        EXPECT_EQ(out[row * 50 + i], i < 19 ? alone[i] : 7.0f);
      }
      for (std::size_t i = 0; i < 40; i++) {
        const float plain = x[row * 40 + i];
        EXPECT_EQ(biased[row * 40 + i], i < 19 ? plain + weight[i] : plain);
      }
    }
  }
}

TEST(Rowwise, RopeEqualsThePlainLoopInBothLayouts) {
  for (const KernelTable& table : tables()) {
    for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved}) {
      for (int pairs = 1; pairs <= 33; pairs++) {
        const int rows = 2, heads = 3, head_dim = 80, n = rows * heads * head_dim;
        const auto angles = static_cast<std::size_t>(rows * pairs);
        const std::vector<float> x = normal_values(static_cast<std::size_t>(n), 7);
        const std::vector<float> cosines = normal_values(angles, 8);
        const std::vector<float> sines = normal_values(angles, 9);
        std::vector<float> got = x, want = x;
        table.rope(layout, got.data(), rows, heads, head_dim, 2 * pairs, cosines.data(),
                   sines.data());
        for (int head = 0; head < rows * heads; head++) {
          for (int i = 0; i < pairs; i++) {
            const bool split = layout == RopeLayout::half_split;
            float* a = &want[static_cast<std::size_t>(head * head_dim + (split ? i : 2 * i))];
            float* b = a + (split ? pairs : 1);
            const auto angle = static_cast<std::size_t>(head / heads * pairs + i);
            const float c = cosines[angle], s = sines[angle], first = *a;
            *a = __builtin_fmaf(-*b, s, first * c);
            *b = __builtin_fmaf(first, s, *b * c);
          }
        }
        ASSERT_EQ(first_difference(got, want), -1) << table.isa << " pairs " << pairs;
      }
    }
  }
}

TEST(Rowwise, RopeTurnsByTheAngle) {
  const double angle = 0.7;
  const std::vector<float> cosines(8, static_cast<float>(std::cos(angle)));
  const std::vector<float> sines(8, static_cast<float>(std::sin(angle)));
  for (const KernelTable& table : tables()) {
    const std::vector<float> x = normal_values(16, 5);
    std::vector<float> split = x, pairs = x;
    table.rope(RopeLayout::half_split, split.data(), 1, 1, 16, 16, cosines.data(), sines.data());
    table.rope(RopeLayout::interleaved, pairs.data(), 1, 1, 16, 16, cosines.data(), sines.data());
    for (std::size_t i = 0; i < 8; i++) {
      // cos and sin are rounded once, then two roundings: 2 half ulps of each operand's size.
      const auto near = [&](float got, double exact, float a, float b) {
        EXPECT_NEAR(got, exact, (std::fabs(a) + std::fabs(b)) * 0x1p-23);
      };
      const float a = x[i], b = x[i + 8], c = x[2 * i], d = x[2 * i + 1];
      near(split[i], a * std::cos(angle) - b * std::sin(angle), a, b);
      near(split[i + 8], b * std::cos(angle) + a * std::sin(angle), a, b);
      near(pairs[2 * i], c * std::cos(angle) - d * std::sin(angle), c, d);
      near(pairs[2 * i + 1], d * std::cos(angle) + c * std::sin(angle), c, d);
    }
  }
}

// Gemma 4's proportional RoPE: pairs span the whole head, all but the first have frequency 0.
TEST(Rowwise, RopePairsOfFrequencyZeroKeepTheirValues) {
  constexpr int kHeadDim = 48;
  constexpr int kPairs = kHeadDim / 2;
  constexpr int kTurning = 7;
  std::vector<double> frequencies(kPairs, 0.0);
  for (int i = 0; i < kTurning; i++) frequencies[static_cast<std::size_t>(i)] = 0.3 / (i + 1);
  std::vector<float> cosines(kPairs), sines(kPairs);
  rope_angles(123456, frequencies, 1.0, cosines.data(), sines.data());
  const std::vector<float> x = normal_values(kHeadDim, 12, 1e3f);
  for (const KernelTable& table : tables()) {
    std::vector<float> y = x;
    table.rope(RopeLayout::half_split, y.data(), 1, 1, kHeadDim, kHeadDim, cosines.data(),
               sines.data());
    for (std::size_t i = 0; i < kPairs; i++) {
      const bool turns = i < kTurning;
      EXPECT_EQ(y[i] == x[i], !turns) << table.isa << " " << i;
      EXPECT_EQ(y[i + kPairs] == x[i + kPairs], !turns) << table.isa << " " << i;
    }
    // A zero is still a zero, though perhaps of the other sign.
    std::vector<float> zeros(kHeadDim, -0.0f);
    zeros[kHeadDim - 1] = 5.0f;
    table.rope(RopeLayout::half_split, zeros.data(), 1, 1, kHeadDim, kHeadDim, cosines.data(),
               sines.data());
    EXPECT_EQ(zeros[kPairs - 1], 0.0f);
    EXPECT_EQ(zeros[kHeadDim - 1], 5.0f);
  }
}

TEST(Rowwise, ArgmaxTakesTheLowestOfEqualsAndNeverNan) {
  for (const KernelTable& table : tables()) {
    for (int count = 1; count <= 40; count++) {
      const auto n = static_cast<std::size_t>(count);
      const std::vector<float> x = normal_values(n, static_cast<unsigned>(count));
      for (std::size_t i = 0; i < n; i++) {
        std::vector<float> y = x;
        y[i] = 9.0f;
        EXPECT_EQ(table.argmax(y.data(), count), static_cast<int>(i));
        for (std::size_t j = i; j < n; j += 5) y[j] = 9.0f;
        for (std::size_t j = 0; j < n; j++) {
          if (y[j] != 9.0f && j % 3 == 0) y[j] = kNan;
        }
        EXPECT_EQ(table.argmax(y.data(), count), static_cast<int>(i)) << table.isa << " " << count;
      }
      const std::vector<float> nan(n, kNan), low(n, -kInfinity);
      EXPECT_EQ(table.argmax(nan.data(), count), 0);
      EXPECT_EQ(table.argmax(low.data(), count), 0);
      std::vector<float> late = nan;
      late.back() = -kInfinity;
      EXPECT_EQ(table.argmax(late.data(), count), count - 1);
    }
    const float zeros[] = {-1.0f, -0.0f, 0.0f};
    EXPECT_EQ(table.argmax(zeros, 3), 1) << "zeros are equal";
  }
}

TEST(Rowwise, AllFiniteFindsEachBadValue) {
  for (const KernelTable& table : tables()) {
    for (std::size_t count = 0; count <= 33; count++) {
      std::vector<float> x(count + 1, std::numeric_limits<float>::max());
      x[count] = kNan;  // behind the end
      EXPECT_TRUE(table.all_finite(x.data(), count));
      for (std::size_t i = 0; i < count; i++) {
        for (const float bad : {kNan, kInfinity, -kInfinity}) {
          std::vector<float> y = x;
          y[i] = bad;
          EXPECT_FALSE(table.all_finite(y.data(), count)) << table.isa << " " << count << " " << i;
        }
      }
    }
  }
}

TEST(Rowwise, SumExpHasOneLaneOrderAndSmallError) {
  for (int count = 0; count <= 300; count += count < 40 ? 1 : 37) {
    const std::vector<float> x = normal_values(static_cast<std::size_t>(count) + 2, 11, 5.0f);
    for (const std::size_t shift : {0, 1, 2}) {
      double lanes[16] = {}, exact = 0, range = 0;
      for (int i = 0; i < count; i++) {
        const float v = x[static_cast<std::size_t>(i) + shift];
        lanes[i % 16] += static_cast<double>(exp_f32(v - 9.0f));
        exact += std::exp(static_cast<double>(v) - 9.0);
        range = std::max(range, std::fabs(static_cast<double>(v) - 9.0));
      }
      for (int half = 8; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
      }
      // Each term: exp 2 ulp, and the rounded difference shifts the exponent by range / 2^24.
      EXPECT_NEAR(lanes[0], exact, exact * (4 + range) * 0x1p-24);
      for (const KernelTable& table : tables()) {
        EXPECT_TRUE(same(table.sum_exp(&x[shift], count, 9.0f), lanes[0])) << table.isa << count;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::kernels
