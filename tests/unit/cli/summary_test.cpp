// The line under a reply, and the table of the bench.
#include <string>

#include <gtest/gtest.h>

#include "cli/bench_report.h"
#include "cli/counted.h"
#include "cli/terminal_reply.h"

namespace reprise {
namespace {

SequenceEnd end_of(Position prompt, Position tokens, double decode_ms, FinishReason reason) {
  SequenceEnd end;
  end.usage.prompt_tokens = prompt;
  end.usage.completion_tokens = tokens;
  end.timings.prefill_ms = 5;
  end.timings.decode_ms = decode_ms;
  end.reason = reason;
  return end;
}

TEST(Summary, ASpeedNeedsAnInterval) {
  const Options options;
  EXPECT_EQ(summary_line(options, end_of(12, 11, 500, FinishReason::stop)),
            "[12 prompt tokens, 0 cached, first token after 5 ms; 11 tokens at 20.0 tokens/s]\n");
  EXPECT_EQ(summary_line(options, end_of(1, 1, 0.03, FinishReason::stop)),
            "[1 prompt token, 0 cached, first token after 5 ms; 1 token]\n");
  EXPECT_EQ(summary_line(options, end_of(1, 0, 0, FinishReason::cancelled)),
            "[1 prompt token, 0 cached, first token after 5 ms; 0 tokens; stopped]\n");
}

TEST(Summary, ACutReplySaysWhatCutIt) {
  Options options;
  EXPECT_NE(summary_line(options, end_of(5, 3, 0, FinishReason::length))
                .find("3 tokens; cut: the context is full]"),
            std::string::npos);
  options.max_tokens = 3;
  EXPECT_NE(summary_line(options, end_of(5, 3, 0, FinishReason::length))
                .find("3 tokens; cut at 3 tokens by -n]"),
            std::string::npos);
  EXPECT_EQ(summary_line(options, end_of(5, 3, 0, FinishReason::stop)).find("cut"),
            std::string::npos);
  EXPECT_EQ(counted(1, "token") + counted(2, "token"), "1 token2 tokens");
}

TEST(BenchTable, NamesEveryRowOnceAndExplainsItsWords) {
  BenchReport report;
  report.bandwidth.push_back({1, {10, 11}});
  report.logits_hash = "0123";
  const std::string table = bench_table(report);
  for (const char* row : {"\nload ", "\nweights ", "\na token ", "\nbandwidth ", "\nlogits 0123\n"})
    EXPECT_NE(table.find(row), std::string::npos) << row << table;
  EXPECT_EQ(table.find("\nmemory"), std::string::npos);
  EXPECT_NE(table.find("read by 1 thread ("), std::string::npos) << table;
  for (const char* word : {"spread: ", "overhead: ", "of it: ", "logits: "})
    EXPECT_NE(table.find(word), std::string::npos) << word;
}

}  // namespace
}  // namespace reprise
