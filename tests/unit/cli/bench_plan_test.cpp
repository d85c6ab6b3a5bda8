// What the bench measures for which options, and the figures it makes of samples.
#include "cli/bench_plan.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "cli/bench_report.h"

namespace reprise {
namespace {

using Numbers = std::vector<int>;

Result<BenchPlan> plan(const std::vector<std::string>& words, Position context = 100'000) {
  std::vector<std::string> all = {"bench", "-m", "x"};
  all.insert(all.end(), words.begin(), words.end());
  const auto parsed = parse_command_line(all);
  if (!parsed) return std::unexpected(parsed.error());
  return plan_bench(parsed->options, context, 3);
}

TEST(BenchPlan, EverythingWhenNothingIsAskedFor) {
  const auto all = plan({});
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_EQ(all->depths, (std::vector<Position>{0, 512, 2048, 8192}));
  EXPECT_EQ(all->rows, Numbers{512});
  EXPECT_EQ(all->batches, (Numbers{1, 2, 4, 8}));
  EXPECT_EQ(all->threads, Numbers{3});
  EXPECT_TRUE(all->left_out.empty());
  const auto cells = all->cells();
  EXPECT_EQ(cells.size(), 4U * (4 + 1));
  EXPECT_EQ(std::ranges::count_if(cells, &BenchCell::is_decode), 16);
}

TEST(BenchPlan, OnlyWhatIsAskedFor) {
  const auto decode = plan({"--rows", "1", "--threads", "1,2"});
  ASSERT_TRUE(decode.has_value());
  EXPECT_TRUE(decode->rows.empty());
  EXPECT_EQ(decode->batches, Numbers{1});
  EXPECT_EQ(decode->threads, (Numbers{1, 2}));
  EXPECT_EQ(plan({"--threads", "2,1,2,1"})->threads, (Numbers{2, 1}));
  const auto prefill = plan({"--rows", "64,512,64"});
  ASSERT_TRUE(prefill.has_value());
  EXPECT_EQ(prefill->rows, (Numbers{64, 512}));
  EXPECT_TRUE(prefill->batches.empty());
  const auto batch = plan({"--batch", "2,8"});
  ASSERT_TRUE(batch.has_value());
  EXPECT_TRUE(batch->rows.empty());
  EXPECT_EQ(batch->batches, (Numbers{2, 8}));
  const auto both = plan({"--rows", "1,16", "--batch", "4"});
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->rows, Numbers{16});
  EXPECT_EQ(both->batches, (Numbers{1, 4}));
}

TEST(BenchPlan, DepthsWithoutRoomAreLeftOut) {
  const auto some = plan({"--depths", "2048,0,512"}, 2048);
  ASSERT_TRUE(some.has_value());
  EXPECT_EQ(some->depths, (std::vector<Position>{0, 512}));
  EXPECT_EQ(some->left_out, std::vector<Position>{2048});
  const auto none = plan({"--rows", "512"}, 256);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().message, "depth 0 and 512 rows exceed the model's context of 256 tokens");
  EXPECT_TRUE(plan({"--depths", "0", "--batch", "1"}, kBenchDecodeSteps + 2).has_value());
  EXPECT_FALSE(plan({"--depths", "0", "--batch", "1"}, kBenchDecodeSteps + 1).has_value());
}

TEST(BenchPlan, BadListsNameTheFlag) {
  const auto field = [](const std::vector<std::string>& words) {
    const auto made = plan(words);
    return made ? std::string("none") : made.error().field;
  };
  EXPECT_EQ(field({"--depths", "0,x"}), "--depths");
  EXPECT_EQ(field({"--rows", "0"}), "--rows");
  EXPECT_EQ(field({"--rows", "4097"}), "--rows");
  EXPECT_EQ(field({"--batch", "1,,2"}), "--batch");
  EXPECT_EQ(field({"--batch", "257"}), "--batch");
  EXPECT_NE(field({"--threads", "1,0"}), "none");
  EXPECT_NE(field({"--threads", "1,"}), "none");
  EXPECT_NE(field({"--output", "csv"}), "none");
}

TEST(BenchReport, MedianEndsAndSpread) {
  const double values[] = {4, 1, 3, 2, 10};
  const Sampled sampled = Sampled::of(values);
  EXPECT_EQ(sampled.median, 3);
  EXPECT_EQ(sampled.least, 1);
  EXPECT_EQ(sampled.most, 10);
  EXPECT_DOUBLE_EQ(sampled.spread, (4.0 - 2.0) / 3.0);
  const double one[] = {7};
  EXPECT_EQ(Sampled::of(one).median, 7);
  EXPECT_EQ(Sampled::of(one).spread, 0);
}

BenchReport small_report() {
  BenchReport report;
  report.model = "tiny";
  report.kernels = "avx2";
  report.kv_type = "f16";
  report.context_length = 64;
  report.left_out = {2048};
  report.logits_hash = "abc";
  report.bandwidth = {{2, {20, 20, 20}}};
  report.load_threads = 2;
  report.load_seconds = 0.3;
  report.start_seconds = 0.5;
  report.plain_read = PlainRead{1'000'000, 0.2};
  report.resident_bytes = report.stored_bytes = 900'000;
  report.token_bytes = 50'000'000;
  report.results = {{{0, 1, 1, 2}, {5, 4, 6}, {0.02}, "h"},
                    {{0, 1, 4, 2}, {8, 8, 8}, {0.01}, "h"},
                    {{0, 512, 1, 2}, {256, 256, 256}, {}, "g"}};
  return report;
}

TEST(BenchReport, JsonHasEveryFigureByName) {
  const JsonObject json = bench_json(small_report());
  const JsonArray& results = json.at("results").as_array();
  const JsonObject& decode = results[0].as_object();
  EXPECT_EQ(decode.at("kind").as_string(), "decode");
  EXPECT_EQ(decode.at("milliseconds").as_double(), 5);
  EXPECT_EQ(decode.at("milliseconds_best").as_double(), 4);
  EXPECT_EQ(decode.at("tokens_per_second").as_double(), 200);
  EXPECT_EQ(decode.at("gigabytes_per_second").as_double(), 10);  // 50 MB in 5 ms
  EXPECT_EQ(decode.at("bandwidth_fraction").as_double(), 0.5);
  EXPECT_EQ(decode.at("overhead").as_double(), 0.02);
  const JsonObject& batch = results[1].as_object();
  EXPECT_EQ(batch.at("batch").as_int64(), 4);
  EXPECT_EQ(batch.at("tokens_per_second").as_double(), 500);  // of all four
  EXPECT_FALSE(batch.contains("bandwidth_fraction"));
  const JsonObject& prefill = results[2].as_object();
  EXPECT_EQ(prefill.at("kind").as_string(), "prefill");
  EXPECT_EQ(prefill.at("tokens_per_second").as_double(), 2000);
  EXPECT_FALSE(prefill.contains("overhead"));
  EXPECT_DOUBLE_EQ(json.at("load").at("ratio").as_double(), 1.5);
  EXPECT_EQ(json.at("logits_hash").as_string(), "abc");
  EXPECT_EQ(json.at("depths_left_out").as_array().size(), 1U);
}

TEST(BenchReport, TableSaysTheSame) {
  const std::string table = bench_table(small_report());
  for (const char* piece : {"1.50 x a plain read", "decode      0     1     1       2",
                            "prefill     0   512     1       2", "200.0", "2000.0", "50 %",
                            "left out: depth 2048 (the context is 64 tokens)", "logits abc"}) {
    EXPECT_NE(table.find(piece), std::string::npos) << piece << "\n" << table;
  }
}

}  // namespace
}  // namespace reprise
