// Tiny checkpoints of every family and form against the vendor's float32 logits (transformers): 40
// tokens, windows and chunks of 8, so that they are passed five times. Made by tools/goldens.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "support/runner.h"
#include "support/tiny_family.h"

namespace reprise {
namespace {

using kernels::KvType;
using testing::FamilyForm;
using testing::Runner;

class TinyGolden : public ::testing::TestWithParam<FamilyForm> {
 protected:
  TinyGolden()
      : tiny(GetParam().first),
        expected(tiny.logits(GetParam().second)),
        model(testing::load_family(GetParam(), pool)) {}

  std::vector<float> run(KvType kv_type, int chunk) {
    Runner runner(*model, {.kv_type = kv_type});
    SequenceCache cache = runner.sequence();
    return runner.feed(cache, tiny.ids(), chunk);
  }
  bool is_quantised() const { return GetParam().second.starts_with("mlx"); }

  ThreadPool pool{1};
  testing::TinyCase tiny;
  std::vector<float> expected;  // [ids, vocabulary]
  std::unique_ptr<Model> model;
};

TEST_P(TinyGolden, FloatWeightsAgreeWithTransformers) {
  if (is_quantised()) return;  // the next test
  const auto [least, most] = std::ranges::minmax(expected);
  // Rounding keys and values alone moves tiny models by this share of the logits' range. Int8 errs
  // by up to 1/254 of a row's largest element, which is about twice to three times a typical one:
  // four times bf16's 2^-9 of each element.
  const std::pair<KvType, double> bounds[] = {
      {KvType::f32, 2e-5}, {KvType::f16, 1e-3}, {KvType::bf16, 1e-2}, {KvType::int8, 4e-2}};
  for (const auto& [kv_type, bound] : bounds) {
    for (const int chunk : {0, 1, 7}) {
      const std::vector<float> logits = run(kv_type, chunk);
      ASSERT_EQ(logits.size(), expected.size());
      double worst = 0;
      for (std::size_t i = 0; i < logits.size(); i++) {
        worst = std::max(worst, static_cast<double>(std::fabs(logits[i] - expected[i])));
      }
      EXPECT_LT(worst, bound * static_cast<double>(most - least))
          << "kv type " << static_cast<int>(kv_type) << ", chunk " << chunk;
    }
  }
}

// Int8 activations err by 0.6 % of their rms in groups of 64 (gaussian). A row passes 7 products a
// layer and one for the head, whose errors are independent and which norms and softmax may amplify;
// twice the root of their number bounds the rms error of a row against the logits' rms. A row that
// stands near a tie of its router may take another expert: such rows are few, so the median row is
// judged.
TEST_P(TinyGolden, QuantisedWeightsAgreeWithinTheErrorOfInt8Activations) {
  if (!is_quantised()) return;  // the test before
  constexpr double kActivationError = 0.006;
  const double products = 7.0 * static_cast<double>(model->config().layers.size()) + 1;
  const double bound = 2 * std::sqrt(products) * kActivationError;
  const std::vector<float> logits = run(KvType::f32, 0);
  ASSERT_EQ(logits.size(), expected.size());
  const auto vocabulary = static_cast<std::size_t>(tiny.vocabulary());
  std::vector<double> errors;
  for (std::size_t row = 0; row < tiny.ids().size(); row++) {
    double error = 0, size = 0;
    for (std::size_t i = row * vocabulary; i < (row + 1) * vocabulary; i++) {
      const double difference = static_cast<double>(logits[i]) - static_cast<double>(expected[i]);
      error += difference * difference;
      size += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
    }
    errors.push_back(std::sqrt(error / size));
  }
  std::ranges::sort(errors);
  RecordProperty("median_error", std::to_string(errors[errors.size() / 2]));
  EXPECT_LT(errors[errors.size() / 2], bound) << "worst row " << errors.back();
}

INSTANTIATE_TEST_SUITE_P(Families, TinyGolden, ::testing::ValuesIn(testing::all_family_forms()),
                         [](const auto& param_info) { return testing::name_of(param_info.param); });

}  // namespace
}  // namespace reprise
