// The bench on a tiny model: one hash of the logits for every number of threads, every batch, every
// order of rounds and every instruction set; more than enough figures.
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "cli/bench_runner.h"
#include "cli/stack.h"
#include "kernels/kernels.h"
#include "support/tiny_checkpoint.h"

namespace reprise {
namespace {

class BenchOfTinyModel : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ("bench_test_" + std::to_string(::getpid()));
    model_ = testing::write_tiny_checkpoint(testing::TinyCase("gemma3"), "gguf", folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The hash, or the error.
  std::string hash(const std::vector<std::string>& words, int rounds = 2) {
    std::vector<std::string> all = {"bench", "-m", model_.string(), "--log-level", "off"};
    all.insert(all.end(), words.begin(), words.end());
    auto parsed = parse_command_line(all);
    if (!parsed) return parsed.error().message;
    Options options = parsed->options;
    auto plan = plan_bench(options, 4096, 1);
    if (!plan) return plan.error().message;
    options.threads = plan->threads.back();
    options.thread_counts.clear();
    const auto stack = Stack::load(options);
    if (!stack) return stack.error().message;
    BenchRunner runner(*stack, options.kv_type, std::move(*plan));
    if (const Status filled = runner.fill(); !filled) return filled.error().message;
    for (int round = 0; round < rounds; round++) runner.run_round(round == 0);
    for (const BenchResult& result : runner.results()) {
      EXPECT_EQ(result.milliseconds.size(), static_cast<std::size_t>(rounds - 1));
      EXPECT_EQ(result.overhead.size(), result.cell.is_decode() ? result.milliseconds.size() : 0);
      for (const double time : result.milliseconds) EXPECT_GT(time, 0);
      for (const double part : result.overhead) EXPECT_TRUE(part >= 0 && part <= 1) << part;
    }
    const auto found = runner.logits_hash();
    return found ? *found : found.error().message;
  }

  std::filesystem::path folder_, model_;
};

TEST_F(BenchOfTinyModel, OneHashForThreadsBatchesAndInstructionSets) {
  const std::vector<std::string> cells = {"--depths", "0,7,70", "--rows", "1,5,33"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), cells.begin(), cells.end());
    return hash(more);
  };
  const std::string expected = with({"--threads", "1"});
  ASSERT_EQ(expected.size(), 32U) << expected;
  EXPECT_EQ(with({"--threads", "2"}), expected);
  EXPECT_EQ(with({"--threads", "1,2,3"}), expected);
  EXPECT_EQ(with({"--threads", "2", "--batch", "2,5"}), expected);
  for (const std::string isa : {"scalar", "avx2", "avx512"}) {
    if (!kernels::choose_kernels(isa)) continue;  // not on this machine
    EXPECT_EQ(with({"--isa", isa}), expected) << isa;
  }
  EXPECT_NE(hash({"--depths", "0,7", "--rows", "1,5,33"}), expected);
}

TEST_F(BenchOfTinyModel, KeysAndValuesOfEveryTypeBench) {
  std::string last;
  for (const char* type : {"f16", "bf16", "f32"}) {
    const std::string made = hash({"--kv-type", type, "--depths", "70", "--batch", "1,3"});
    EXPECT_EQ(made.size(), 32U) << made;
    EXPECT_NE(made, last);
    last = made;
  }
}

TEST_F(BenchOfTinyModel, OnlyTheBenchTakesSeveralThreadCounts) {
  Options options;
  options.model = model_.string();
  options.log_level = "off";
  options.thread_counts = {1, 2};
  const auto stack = Stack::load(options);
  ASSERT_FALSE(stack.has_value());
  EXPECT_EQ(stack.error().field, "--threads");
}

}  // namespace
}  // namespace reprise
