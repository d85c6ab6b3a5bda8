// Loading: the panels hold the files' weights whoever packs them, the fingerprint is a function of
// the content, memory is what the files take, progress ends at the whole.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "model/model.h"
#include "support/limited_memory.h"
#include "support/tiny_family.h"
#include "support/tiny_model.h"

namespace reprise {
namespace {

using kernels::PanelMatrix;
using kernels::WeightType;

constexpr WeightType kTypes[] = {
    WeightType::f32,  WeightType::q4_0,   WeightType::q4_1,  WeightType::q5_0, WeightType::q5_1,
    WeightType::q8_0, WeightType::q4_k,   WeightType::q5_k,  WeightType::q6_k, WeightType::q2_k,
    WeightType::q3_k, WeightType::iq4_nl, WeightType::iq4_xs};

// Large enough that several threads have something to do, with rows that end inside a panel.
testing::TinyModelOptions options_for(WeightType type) {
  testing::TinyModelOptions options;
  options.type = type;
  options.hidden = 256;
  options.feed_forward = 512;
  options.head_dim = 64;
  options.layers = 2;
  return options;
}

std::vector<std::uint8_t> panels(const PanelMatrix& matrix) {
  const std::size_t size = static_cast<std::size_t>(matrix.panel_count()) * matrix.panel_bytes();
  return {matrix.panels, matrix.panels + size};
}

TEST(Loading, PanelsAreTheFilesWeightsForEveryNumberOfThreads) {
  for (const WeightType type : kTypes) {
    SCOPED_TRACE(kernels::weight_traits(type).name);
    const auto bytes = testing::tiny_gguf(options_for(type));
    const auto checkpoint = Checkpoint::from_gguf_bytes(bytes);
    ASSERT_TRUE(checkpoint.has_value());
    const StoredTensor* stored = checkpoint->find("token_embd.weight");
    ASSERT_NE(stored, nullptr);
    std::string fingerprint;
    for (const int threads : {1, 2, 5}) {
      ThreadPool pool(threads);
      const auto model = testing::load_gguf(bytes, pool);
      ASSERT_TRUE(model.has_value()) << model.error().message;
      const PanelMatrix& matrix = model->family().embedding.matrix;
      std::vector<std::uint8_t> expected(panels(matrix).size());
      kernels::pack_panels(*stored->type, stored->bytes.data(), matrix.rows, matrix.columns, 0,
                           matrix.panel_count(), expected.data());
      EXPECT_EQ(panels(matrix), expected);
      if (fingerprint.empty()) fingerprint = model->fingerprint();
      EXPECT_EQ(model->fingerprint(), fingerprint) << threads << " threads";
    }
  }
}

TEST(Loading, ResidentBytesAreTheFilesWithinThreePercent) {
  ThreadPool pool(2);
  const auto check = [](const Model& model) {
    const auto resident = static_cast<double>(model.weight_bytes());
    const auto stored = static_cast<double>(model.stored_bytes());
    EXPECT_GT(stored, 0);
    EXPECT_LE(resident, 1.03 * stored);
    EXPECT_GE(resident, 0.97 * stored);
    EXPECT_LE(model.token_bytes(), model.weight_bytes());
  };
  for (const WeightType type : kTypes) {
    SCOPED_TRACE(kernels::weight_traits(type).name);
    const auto bytes = testing::tiny_gguf(options_for(type));
    const auto model = testing::load_gguf(bytes, pool);
    ASSERT_TRUE(model.has_value());
    check(*model);
    EXPECT_EQ(model->token_bytes(), model->weight_bytes());  // tied, no experts
  }
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    SCOPED_TRACE(::testing::Message() << "MLX " << bits << " bits");
    check(*testing::load_family({"qwen3", "mlx4"}, pool, {}, {.bits = bits, .group = 32}));
  }
}

TEST(Loading, ATokenReadsOnlyTheExpertsItUses) {
  ThreadPool pool(2);
  const auto model = testing::load_family({"qwen3_moe", "hf"}, pool);
  EXPECT_GT(model->token_bytes(), 0U);
  EXPECT_LT(model->token_bytes(), model->weight_bytes());
}

TEST(Loading, EveryTensorsContentCounts) {
  ThreadPool pool(2);
  auto bytes = testing::tiny_gguf(options_for(WeightType::q8_0));
  const auto checkpoint = Checkpoint::from_gguf_bytes(bytes);
  ASSERT_TRUE(checkpoint.has_value());
  std::set<std::string> fingerprints = {testing::load_gguf(bytes, pool)->fingerprint()};
  std::size_t changes = 0;
  for (const StoredTensor& tensor : checkpoint->tensors()) {
    // The lowest mantissa byte of a vector, an integer of a matrix: the model stays valid.
    const std::size_t at = tensor.shape.size() == 1 ? 0 : tensor.bytes.size() - 1;
    std::byte& byte = bytes[tensor.offset + at];
    byte ^= std::byte{1};
    const auto model = testing::load_gguf(bytes, pool);
    ASSERT_TRUE(model.has_value()) << tensor.name;
    EXPECT_TRUE(fingerprints.insert(model->fingerprint()).second) << tensor.name;
    byte ^= std::byte{1};
    changes++;
  }
  EXPECT_GT(changes, 10U);
  EXPECT_FALSE(fingerprints.insert(testing::load_gguf(bytes, pool)->fingerprint()).second);
}

#if REPRISE_CAN_LIMIT_MEMORY
// Exits with 0 if the load fails as it should and works again when memory is there.
[[noreturn]] void load_beyond_the_limit(const std::vector<std::byte>& bytes, ThreadPool& pool) {
  testing::limit_memory(4 << 20);
  const auto refused = testing::load_gguf(bytes, pool);
  testing::limit_memory(-1);
  if (!refused) fmt::print(stderr, "{}\n", refused.error().message);
  const bool told = !refused && refused.error().code == Errc::exhausted;
  std::_Exit(told && testing::load_gguf(bytes, pool) ? 0 : 1);
}

TEST(LoadingDeathTest, RefusedMemoryForWeightsIsAnErrorWithTheBytes) {
  testing::TinyModelOptions options = options_for(WeightType::f32);
  options.feed_forward = 4096;
  const auto bytes = testing::tiny_gguf(options);
  ThreadPool pool(1);
  EXPECT_EXIT(load_beyond_the_limit(bytes, pool), ::testing::ExitedWithCode(0),
              "^weights: the system refused [0-9]+ bytes of memory \\(this process may map [0-9]+ "
              "bytes: ulimit -v\\), beside [0-9]+ that it gave, for about [0-9]+ in all\n$");
}
#endif

TEST(Loading, ProgressGrowsToTheWhole) {
  ThreadPool pool(3);
  const auto caller = std::this_thread::get_id();
  std::vector<std::size_t> done;
  std::size_t whole = 0;
  ModelOptions options;
  options.progress = [&](std::size_t now, std::size_t total) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    done.push_back(now);
    whole = total;
  };
  const auto model = testing::load_family({"llama", "hf"}, pool, options);
  ASSERT_FALSE(done.empty());
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_EQ(done.back(), whole);
  EXPECT_GE(whole, model->stored_bytes());
}

}  // namespace
}  // namespace reprise
