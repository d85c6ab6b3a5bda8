// Which activation a configuration asks for, and that the model then computes it.
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/file.h"
#include "model/common_config.h"
#include "model/experts.h"
#include "model/model.h"
#include "support/safetensors_writer.h"
#include "support/tiny_checkpoint.h"

namespace reprise {
namespace {

Result<Activation> read(const std::string& body, Activation fallback) {
  testing::SafetensorsWriter writer;
  writer.add_f32("x", {1}, std::vector<float>{0});
  const testing::CheckpointFolder folder(R"({"model_type": "llama")" + body + "}", writer);
  const Checkpoint checkpoint = Checkpoint::open(folder.path()).value();
  return read_activation(Settings::read(checkpoint).value(), "hidden_act", fallback);
}

TEST(Activation, EveryWordAndItsAbsence) {
  EXPECT_EQ(read("", Activation::silu).value(), Activation::silu);
  EXPECT_EQ(read("", Activation::gelu_tanh).value(), Activation::gelu_tanh);
  EXPECT_EQ(read(R"(, "hidden_act": null)", Activation::gelu_tanh).value(), Activation::gelu_tanh);
  EXPECT_EQ(read(R"(, "hidden_act": "silu")", Activation::gelu).value(), Activation::silu);
  EXPECT_EQ(read(R"(, "hidden_act": "swish")", Activation::gelu).value(), Activation::silu);
  EXPECT_EQ(read(R"(, "hidden_act": "gelu")", Activation::silu).value(), Activation::gelu);
  EXPECT_EQ(read(R"(, "hidden_act": "gelu_pytorch_tanh")", Activation::silu).value(),
            Activation::gelu_tanh);
}

TEST(Activation, AnUnknownWordIsNamed) {
  const auto refused = read(R"(, "hidden_act": "relu2")", Activation::silu);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::unsupported);
  EXPECT_EQ(refused.error().field, "hidden_act");
  EXPECT_NE(refused.error().message.find("got \"relu2\""), std::string::npos);
  EXPECT_NE(refused.error().message.find("\"gelu\""), std::string::npos);
}

TEST(Activation, EachHasItsOwnKernel) {
  const kernels::KernelTable& table = *kernels::choose_kernels("scalar").value();
  const double x = -0.75;
  const auto run = [&](Activation activation) {
    float gate = static_cast<float>(x);
    const float up = 1;
    activation_kernel(table, activation)(&gate, &up, 1);
    return static_cast<double>(gate);
  };
  EXPECT_NEAR(run(Activation::silu), x / (1 + std::exp(-x)), 1e-7);
  EXPECT_NEAR(run(Activation::gelu), 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))), 1e-7);
  const double t = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
  EXPECT_NEAR(run(Activation::gelu_tanh), 0.5 * x * (1 + std::tanh(t)), 1e-7);
  EXPECT_GT(std::fabs(run(Activation::gelu) - run(Activation::gelu_tanh)), 1e-5);
}

// Equal weights, other activations: other keys and values, so another fingerprint.
TEST(Activation, IsPartOfTheFingerprint) {
  ThreadPool pool(1);
  std::set<std::string> fingerprints;
  for (const std::string word : {"silu", "gelu", "gelu_pytorch_tanh"}) {
    const testing::TemporaryFolder folder;
    const auto path =
        testing::write_tiny_checkpoint(testing::TinyCase("llama"), "hf", folder.path());
    std::string config = read_file(path / "config.json", 1 << 20).value();
    const std::string silu = "\"silu\"";
    const std::size_t at = config.find(silu);
    ASSERT_NE(at, std::string::npos);
    config.replace(at, silu.size(), '"' + word + '"');
    ASSERT_TRUE(write_file_atomic(path / "config.json", config).has_value());
    auto checkpoint = std::make_unique<const Checkpoint>(Checkpoint::open(path).value());
    fingerprints.insert(Model::load(std::move(checkpoint), pool).value().fingerprint());
  }
  EXPECT_EQ(fingerprints.size(), 3U);
}

}  // namespace
}  // namespace reprise
