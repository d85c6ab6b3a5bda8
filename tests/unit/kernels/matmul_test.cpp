// The matrix multiply and its activations: every ISA gives the scalar twin's bits, whatever shares
// the call; and the scalar twin multiplies, within what rounding to int8 explains.
#include "kernels/matmul.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "compare.h"
#include "kernels/activation_group.h"
#include "kernels/kernels.h"
#include "matrices.h"

namespace reprise::kernels {
namespace {

struct Isa {
  const char* name;
  decltype(&scalar::make_activations) make_activations;
  decltype(&scalar::matmul) matmul;
};

// Those of available_kernels(), the scalar twin first.
std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const KernelTable* table : available_kernels()) {
    isas.push_back({table->isa, table->make_activations, table->matmul});
  }
  return isas;
}

// Rows of x, `stride` floats apart.
struct Rows {
  const float* x;
  std::size_t stride;
  int count;
};

AlignedBytes activations_of(const Isa& isa, const PanelMatrix& matrix, const Rows& rows) {
  const ActivationFormat format = matrix.activations();
  AlignedBytes activations(activation_bytes(format, rows.count, matrix.columns));
  isa.make_activations(format, rows.x, rows.stride, rows.count, matrix.columns, 0,
                       tile_count(rows.count), activations.data());
  return activations;
}

constexpr float kUntouched = -12345.0f;

// [rows, outputs + 5]; the five must stay untouched.
std::vector<float> multiply(const Isa& isa, const PanelMatrix& matrix, const Rows& rows,
                            int panels_at_once = 1 << 20) {
  const AlignedBytes activations = activations_of(isa, matrix, rows);
  const AlignedBytes scratch(kMatmulScratchBytes);
  const std::size_t stride = static_cast<std::size_t>(matrix.rows) + 5;
  std::vector<float> out(static_cast<std::size_t>(rows.count) * stride, kUntouched);
  for (int panel = 0; panel < matrix.panel_count(); panel += panels_at_once) {
    const int end = std::min(matrix.panel_count() - panel, panels_at_once) + panel;
    isa.matmul(matrix, activations.data(), rows.count, panel, end, out.data(), stride,
               scratch.data());
  }
  return out;
}

// Rows of every character: ordinary with outliers, all of one magnitude (every |q| is 127: the
// overflow bound), with groups of zeros, huge, tiny, denormal.
std::vector<float> mixed_rows(int rows, int columns, unsigned seed) {
  const std::size_t width = static_cast<std::size_t>(columns);
  std::vector<float> x = normal_values(static_cast<std::size_t>(rows) * width, seed);
  for (int m = 0; m < rows; m++) {
    for (int k = 0; k < columns; k++) {
      float& value = x[static_cast<std::size_t>(m) * width + static_cast<std::size_t>(k)];
      switch (m % 8) {
        case 0:
          value = k % 50 == 7 ? value * 20.0f : value;
          break;
        case 1:
          value = k / 32 % 3 == 1 ? 0.0f : value;
          break;
        case 2:
          value = 1.0f;
          break;
        case 3:
          value = k % 3 == 0 ? -0.7f : 0.7f;
          break;
        case 4:
          value *= 1e30f;
          break;
        case 5:
          value *= k < columns / 2 ? 1e-35f : 1e-41f;
          break;
        case 6:
          value = k % 32 == 5 ? -1.0f : value * 1e-4f;
          break;
        default:
          break;
      }
    }
  }
  return x;
}

ActivationFormat activations_of(const WeightForm& form) {
  return form.shape(1, 0).activations();
}

std::vector<int> column_counts(const WeightForm& form) {
  switch (activations_of(form)) {
    case ActivationFormat::f32:
      return {1, 7, 300};
    case ActivationFormat::int8_group32:
      return {32, 640, 1120};
    case ActivationFormat::int8_group64:
      return {64, 640, 1088};
    case ActivationFormat::int8_group128:
      return {128, 640, 1152};
    case ActivationFormat::int8_group256:
      return {256, 1280};
  }
  return {};
}

class MatmulTest : public testing::TestWithParam<WeightForm> {};

INSTANTIATE_TEST_SUITE_P(Types, MatmulTest, testing::ValuesIn(all_weight_forms()),
                         [](const auto& test) { return form_name(test.param); });

TEST_P(MatmulTest, EveryIsaGivesTheScalarBits) {
  for (int columns : column_counts(GetParam())) {
    const PackedMatrix packed = random_matrix(GetParam(), 40, columns, 11);
    for (int count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 32, 33, 67, 131, 133}) {
      const std::size_t stride = static_cast<std::size_t>(columns) + 3;
      const std::vector<float> x = mixed_rows(count, columns + 3, static_cast<unsigned>(count));
      const Rows rows = {x.data(), stride, count};
      const std::vector<float> want = multiply(available_isas()[0], packed.matrix, rows);
      for (const Isa& isa : available_isas()) {
        const std::vector<float> got = multiply(isa, packed.matrix, rows);
        EXPECT_EQ(first_difference(got, want), -1) << isa.name << " " << count << "x" << columns;
      }
    }
  }
}

// Every integer at its extreme, with activations of one sign and of alternating signs.
TEST_P(MatmulTest, ExtremeIntegersDoNotOverflow) {
  for (int fill : {0x00, 0x0f, 0x7f, 0x80, 0xf0, 0xff}) {
    if (activations_of(GetParam()) == ActivationFormat::f32) continue;
    const int columns = column_counts(GetParam()).back();
    const PackedMatrix packed = random_matrix(GetParam(), 19, columns, 12, fill);
    std::vector<float> x(static_cast<std::size_t>(9 * columns));
    for (std::size_t i = 0; i < x.size(); i++) {
      const std::size_t row = i / static_cast<std::size_t>(columns);
      const bool negative = row % 3 == 1 || (row % 3 == 2 && i % 2 == 1);
      x[i] = negative ? -1.0f : 1.0f;
    }
    for (int count : {1, 9}) {
      const Rows rows = {x.data(), static_cast<std::size_t>(columns), count};
      const std::vector<float> want = multiply(available_isas()[0], packed.matrix, rows);
      std::vector<float> weights(static_cast<std::size_t>(columns));
      unpack_row(packed.matrix, 3, weights.data());
      double exact = 0;
      double size = 0;
      for (float w : weights) {
        exact += w;
        size += std::fabs(w);
      }
      EXPECT_NEAR(want[3], exact, size * 1e-5 + 1e-4) << "fill " << fill;
      for (const Isa& isa : available_isas()) {
        EXPECT_EQ(first_difference(multiply(isa, packed.matrix, rows), want), -1)
            << isa.name << " fill " << fill;
      }
    }
  }
}

TEST_P(MatmulTest, ARowAloneEqualsTheRowAmongOthers) {
  const int columns = column_counts(GetParam()).back();
  const int count = 23;
  const PackedMatrix packed = random_matrix(GetParam(), 40, columns, 13);
  const std::size_t width = static_cast<std::size_t>(columns);
  const std::vector<float> x = mixed_rows(count, columns, 14);
  for (const Isa& isa : available_isas()) {
    const std::vector<float> together = multiply(isa, packed.matrix, {x.data(), width, count});
    for (int m = 0; m < count; m++) {
      const std::size_t row = static_cast<std::size_t>(m);
      const std::vector<float> alone = multiply(isa, packed.matrix, {&x[row * width], width, 1});
      const auto begin = together.begin() + static_cast<std::ptrdiff_t>(row * alone.size());
      const std::vector<float> among(begin, begin + static_cast<std::ptrdiff_t>(alone.size()));
      EXPECT_EQ(first_difference(alone, among), -1) << isa.name << " row " << m;
    }
  }
}

TEST_P(MatmulTest, AnySplitOfPanelsGivesTheSame) {
  const int columns = column_counts(GetParam()).back();
  const PackedMatrix packed = random_matrix(GetParam(), 150, columns, 15);
  for (int count : {1, 2, 3, 4, 6, 12}) {
    const std::vector<float> x = mixed_rows(count, columns, 16);
    const Rows rows = {x.data(), static_cast<std::size_t>(columns), count};
    for (const Isa& isa : available_isas()) {
      const std::vector<float> whole = multiply(isa, packed.matrix, rows);
      for (int panels : {1, 2, 3, 7}) {
        EXPECT_EQ(first_difference(multiply(isa, packed.matrix, rows, panels), whole), -1)
            << isa.name << " rows " << count << ", panels at once " << panels;
      }
    }
  }
}

TEST_P(MatmulTest, OutputsBeyondTheMatrixAreNotWritten) {
  const int columns = column_counts(GetParam()).front();
  const PackedMatrix packed = random_matrix(GetParam(), 21, columns, 17);
  for (int count : {1, 5, 17}) {
    const std::vector<float> x = mixed_rows(count, columns, 18);
    for (const Isa& isa : available_isas()) {
      const std::vector<float> out =
          multiply(isa, packed.matrix, {x.data(), static_cast<std::size_t>(columns), count});
      for (int m = 0; m < count; m++) {
        for (int n = 21; n < 26; n++) {
          EXPECT_EQ(out[static_cast<std::size_t>(m * 26 + n)], kUntouched) << isa.name;
        }
      }
    }
  }
}

// So many columns that the scratch memory holds something of a few rows only at a time.
TEST(Matmul, ManyColumnsGiveTheScalarBits) {
  struct Case {
    WeightType type;
    int columns;
  };
  for (const Case& c : {Case{WeightType::q4_0, 1 << 17}, Case{WeightType::q6_k, 3 << 14},
                        Case{WeightType::iq4_xs, 1 << 16}}) {
    const WeightForm form = {c.type};
    const PackedMatrix packed = random_matrix(form, 3, c.columns, 26);
    const std::vector<float> x = normal_values(static_cast<std::size_t>(37 * c.columns), 27);
    const Rows rows = {x.data(), static_cast<std::size_t>(c.columns), 37};
    const std::vector<float> want = multiply(available_isas()[0], packed.matrix, rows);
    for (const Isa& isa : available_isas()) {
      const std::vector<float> got = multiply(isa, packed.matrix, rows);
      EXPECT_EQ(first_difference(got, want), -1) << isa.name << " " << form_name(form);
    }
  }
}

// The largest error of x[k] that its conversion can cause: half a unit of its int8 scale.
std::vector<double> conversion_errors(ActivationFormat format, const float* x, int columns) {
  std::vector<double> errors(static_cast<std::size_t>(columns), 0.0);
  const int group = format == ActivationFormat::int8_group256   ? 256
                    : format == ActivationFormat::int8_group128 ? 128
                    : format == ActivationFormat::int8_group64  ? 64
                                                                : 32;
  if (format == ActivationFormat::f32) return errors;
  for (int k = 0; k < columns; k++) {
    double largest = 0;
    double largest32 = 0;
    for (int i = k / group * group; i < (k / group + 1) * group; i++) {
      largest = std::fmax(largest, std::fabs(x[i]));
      if (i / 32 == k / 32) largest32 = std::fmax(largest32, std::fabs(x[i]));
    }
    const double unit = group < 256 ? largest / 127 : largest32 / 127 + largest / (8 * 127);
    errors[static_cast<std::size_t>(k)] = 0.5001 * unit;
  }
  return errors;
}

TEST_P(MatmulTest, AgreesWithDoublePrecision) {
  const WeightForm form = GetParam();
  const int columns = column_counts(form).back();
  const int count = 12;
  const int outputs = 33;
  const PackedMatrix packed = random_matrix(form, outputs, columns, 19);
  const std::size_t width = static_cast<std::size_t>(columns);
  const std::vector<float> x = normal_values(count * width, 20);
  const Rows rows = {x.data(), width, count};
  const std::vector<float> out = multiply(available_isas()[0], packed.matrix, rows);
  std::vector<std::vector<double>> errors;  // of each row of x
  for (std::size_t m = 0; m < count; m++) {
    errors.push_back(conversion_errors(activations_of(form), &x[m * width], columns));
  }
  std::vector<float> weights(width);
  double error_squares = 0;
  double squares = 0;
  for (int n = 0; n < outputs; n++) {
    unpack_row(packed.matrix, n, weights.data());
    double largest_weight = 0;
    for (float w : weights) largest_weight = std::fmax(largest_weight, std::fabs(w));
    for (int m = 0; m < count; m++) {
      const float* row = &x[static_cast<std::size_t>(m) * width];
      double exact = 0;
      double bound = 0;
      for (std::size_t k = 0; k < width; k++) {
        exact += static_cast<double>(weights[k]) * row[k];
        bound += std::fabs(weights[k]) * errors[static_cast<std::size_t>(m)][k] +
                 2e-6 * largest_weight * std::fabs(row[k]);
      }
      const double got = out[static_cast<std::size_t>(m * (outputs + 5) + n)];
      EXPECT_LE(std::fabs(got - exact), bound) << "row " << m << " output " << n;
      error_squares += (got - exact) * (got - exact);
      squares += exact * exact;
    }
  }
  EXPECT_LT(std::sqrt(error_squares / squares), 0.009);
}

TEST_P(MatmulTest, ARowThatIsNotFiniteFailsAlone) {
  const int columns = column_counts(GetParam()).back();
  const std::size_t width = static_cast<std::size_t>(columns);
  const PackedMatrix packed = random_matrix(GetParam(), 40, columns, 21);
  using Limits = std::numeric_limits<float>;
  for (float bad :
       {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
    for (int count : {2, 3, 9, 15}) {
      std::vector<float> x = mixed_rows(count, columns, 22);
      const std::size_t bad_row = 1;
      for (const Isa& isa : available_isas()) {
        x[bad_row * width + width - 3] = 0.5f;
        std::vector<float> want = multiply(isa, packed.matrix, {x.data(), width, count});
        x[bad_row * width + width - 3] = bad;
        std::vector<float> got = multiply(isa, packed.matrix, {x.data(), width, count});
        for (std::size_t i = bad_row * 45; i < bad_row * 45 + 40; i++) {
          EXPECT_FALSE(std::isfinite(got[i])) << isa.name << " " << bad;
          got[i] = want[i] = 0.0f;
        }
        EXPECT_EQ(first_difference(got, want), -1) << isa.name << " " << bad;
      }
    }
  }
}

class ActivationsTest : public testing::TestWithParam<ActivationFormat> {};

INSTANTIATE_TEST_SUITE_P(Formats, ActivationsTest,
                         testing::Values(ActivationFormat::f32, ActivationFormat::int8_group32,
                                         ActivationFormat::int8_group64,
                                         ActivationFormat::int8_group128,
                                         ActivationFormat::int8_group256));

TEST_P(ActivationsTest, TilesAloneEqualTheScalarBytesFiniteOrNot) {
  const int columns = 768;
  for (int count : {1, 2, 3, 4, 7, 8, 21}) {
    std::vector<float> x = mixed_rows(count, columns, 23);
    for (int k = 0; k < columns && count >= 8; k++) {  // scale 1 and ties, to both sides
      x[static_cast<std::size_t>(7 * columns + k)] =
          k % 32 == 0 ? 127.0f : static_cast<float>(k % 253) - 125.5f;
    }
    if (count >= 3) x[2 * columns + 300] = std::numeric_limits<float>::infinity();
    if (count >= 8) x[7 * columns + 255] = std::numeric_limits<float>::quiet_NaN();
    const std::size_t bytes = activation_bytes(GetParam(), count, columns);
    const AlignedBytes want(bytes);
    scalar::make_activations(GetParam(), x.data(), columns, count, columns, 0, tile_count(count),
                             want.data());
    for (const Isa& isa : available_isas()) {
      const AlignedBytes got(bytes);
      for (int tile = tile_count(count) - 1; tile >= 0; tile--) {
        isa.make_activations(GetParam(), x.data(), columns, count, columns, tile, tile + 1,
                             got.data());
      }
      EXPECT_EQ(std::memcmp(want.data(), got.data(), bytes), 0) << isa.name << " rows " << count;
    }
  }
}

template <int Columns>
void expect_sums_of_integers(ActivationFormat format) {
  const std::vector<float> x = mixed_rows(1, 256, 25);
  AlignedBytes bytes(activation_bytes(format, 1, 256));
  scalar::make_activations(format, x.data(), 256, 1, 256, 0, 1, bytes.data());
  for (int g = 0; g < 256 / Columns; g++) {
    ActivationGroup<Columns, 1> group;
    take_row(bytes.data() + static_cast<std::size_t>(g) * sizeof group, 1, 0, group);
    int sum = 0;
    for (int k = 0; k < Columns; k++) {
      const int q = group.q[k / 4][0][k % 4];
      sum += q;
      const float value = x[static_cast<std::size_t>(g * Columns + k)];
      EXPECT_NEAR(group.scale[0] * static_cast<float>(q), value, group.scale[0] * 0.5001f);
    }
    EXPECT_EQ(group.sum[0], group.scale[0] * static_cast<float>(sum));
  }
}

// What the biases rely on.
TEST(Activations, SumsOfAGroupAreThoseOfTheIntegers) {
  expect_sums_of_integers<32>(ActivationFormat::int8_group32);
  expect_sums_of_integers<64>(ActivationFormat::int8_group64);
  expect_sums_of_integers<128>(ActivationFormat::int8_group128);
}

// What the K-quants' minimums and the zero points rely on.
TEST(Activations, SumsAreThoseOfTheIntegers) {
  const std::vector<float> x = mixed_rows(1, 256, 24);
  ActivationGroup<256, 1> group;
  AlignedBytes bytes(activation_bytes(ActivationFormat::int8_group256, 1, 256));
  scalar::make_activations(ActivationFormat::int8_group256, x.data(), 256, 1, 256, 0, 1,
                           bytes.data());
  take_row(bytes.data(), 1, 0, group);
  for (int i = 0; i < 8; i++) {
    int sum = 0;
    for (int k = 32 * i; k < 32 * i + 32; k++) {
      const int q = group.q[k / 4][0][k % 4];
      sum += q;
      const float back = group.scale[0] * static_cast<float>(group.factor[i][0][0] * q);
      EXPECT_NEAR(back, x[static_cast<std::size_t>(k)], group.scale[0] * 4.001f);
    }
    EXPECT_EQ(group.sum32[i / 2][0][i % 2], sum * group.factor[i][0][0]);
    EXPECT_GE(group.factor[i][0][0], 1);
    EXPECT_LE(group.factor[i][0][0], 8);
  }
}

}  // namespace
}  // namespace reprise::kernels
