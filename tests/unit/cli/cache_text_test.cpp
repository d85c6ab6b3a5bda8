// What `reprise cache` makes of a server's replies.
#include "cli/cache_text.h"

#include <string>

#include <gtest/gtest.h>

namespace reprise {
namespace {

constexpr const char* kStats = R"({"entries":2,"bytes":3145728,"capacity_bytes":1073741824,)"
                               R"("hits":5,"lookups":9,"tokens_reused":1234,"more":true})";

std::string run_json(int id, const char* parent, const char* hash, int start, int end,
                     const char* rest) {
  return R"({"id":)" + std::to_string(id) + R"(,"parent":)" + parent + R"(,"hash":")" + hash +
         R"(","start":)" + std::to_string(start) + R"(,"end":)" + std::to_string(end) +
         R"(,"tokens":)" + std::to_string(end - start) + R"(,"pages":[1,2],)" + rest + "}";
}

constexpr const char* kPlain =
    R"("marks":[],"bytes":1536,"age_seconds":3.9,"hits":1,"in_use":0,"pinned_for_seconds":null)";

std::string tree_json(const std::string& runs, bool truncated = false) {
  return R"({"object":"cache.tree","scope":{"tenant":"alice"},"runs":[)" + runs +
         R"(],"truncated":)" + (truncated ? "true" : "false") + "}";
}

TEST(CacheText, RunsStandUnderTheRunsTheyContinue) {
  // The server sends parents first, not depth first.
  const std::string runs =
      run_json(
          10, "null", "00112233445566ff", 0, 128,
          R"("marks":[{"position":57,"kind":"turn_end"},{"position":128,"kind":"branch_point"}],)"
          R"("bytes":2097152,"age_seconds":7300,"hits":12,"in_use":2,"pinned_for_seconds":65)") +
      "," + run_json(11, "10", "aaaaaaaaaaaaaaaa", 128, 200, kPlain) + "," +
      run_json(12, "10", "bbbbbbbbbbbbbbbb", 128, 129, kPlain) + "," +
      run_json(13, "11", "cccccccccccccccc", 200, 210, kPlain) + "," +
      run_json(14, "null", "dddddddddddddddd", 0, 5, kPlain);
  const Result<std::string> text = cache_text(kStats, tree_json(runs));
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text,
            "cache of alice: 2 entries, 3.0 MiB of 1.0 GiB; 5 hits in 9 lookups, 1234 tokens "
            "reused\n"
            "001122334455  0-128  2.0 MiB  2 h old  12 hits  in use by 2  pinned for 1 min  "
            "[turn_end 57, branch_point 128]\n"
            "  aaaaaaaaaaaa  128-200  1.5 KiB  3 s old  1 hit\n"
            "    cccccccccccc  200-210  1.5 KiB  3 s old  1 hit\n"
            "  bbbbbbbbbbbb  128-129  1.5 KiB  3 s old  1 hit\n"
            "dddddddddddd  0-5  1.5 KiB  3 s old  1 hit\n");
}

TEST(CacheText, AnAdminSeesEverybodysNumbersToo) {
  std::string stats = kStats;
  stats.insert(stats.size() - 1,
               R"(,"all":{"entries":7,"bytes":4194304,"used_bytes":8388608,"hits":1,)"
               R"("lookups":1,"tokens_reused":1})");
  EXPECT_EQ(cache_text(stats, tree_json("")).value(),
            "cache of alice: 2 entries, 3.0 MiB of 1.0 GiB; 5 hits in 9 lookups, 1234 tokens "
            "reused\n"
            "all keys: 7 entries, 4.0 MiB of 8.0 MiB in use; 1 hit in 1 lookup, 1 token reused\n");
}

TEST(CacheText, AnEmptyTreeAndACutOneSaySo) {
  const Result<std::string> empty =
      cache_text(kStats, R"({"scope":{"tenant":""},"runs":[],"truncated":false})");
  ASSERT_TRUE(empty) << empty.error().message;
  EXPECT_TRUE(empty->starts_with("prompt cache: 2 entries"));
  EXPECT_EQ(empty->find('\n'), empty->size() - 1);
  const Result<std::string> cut =
      cache_text(kStats, tree_json(run_json(1, "null", "00", 0, 5, kPlain), true));
  ASSERT_TRUE(cut);
  EXPECT_TRUE(cut->ends_with("(1 runs, the most recently used; there are more)\n"));
}

TEST(CacheText, AChainOfAnyLengthIsShown) {
  std::string runs;
  for (int i = 0; i < 5000; i++) {
    const std::string parent = i == 0 ? "null" : std::to_string(i - 1);
    runs += (i == 0 ? "" : ",") + run_json(i, parent.c_str(), "00", i, i + 1, kPlain);
  }
  const Result<std::string> text = cache_text(kStats, tree_json(runs));
  ASSERT_TRUE(text);
  EXPECT_EQ(std::count(text->begin(), text->end(), '\n'), 5001);
  EXPECT_LT(text->size(), std::size_t{5001} * 150);
}

TEST(CacheText, RepliesOfAnotherFormAreNamed) {
  const struct {
    std::string stats, tree, part;
  } kCases[] = {
      {"{", tree_json(""), "/v1/cache/stats"},
      {"[]", tree_json(""), "/v1/cache/stats: got no object"},
      {kStats, "null", "/v1/cache/tree: got no object"},
      {R"({"capacity_bytes":1,"entries":"two"})", tree_json(""),
       "the statistics: got no entries, expected a number"},
      {kStats, R"({"runs":5})", "the tree: got no runs, expected an array"},
      {kStats, tree_json(R"({"id":1})"), "a run: got no parent, expected a number"},
      {kStats, tree_json("7"), "runs: got no objects"},
  };
  for (const auto& wrong : kCases) {
    const Result<std::string> text = cache_text(wrong.stats, wrong.tree);
    ASSERT_FALSE(text) << wrong.part;
    EXPECT_NE(text.error().message.find(wrong.part), std::string::npos) << text.error().message;
  }
}

TEST(CacheText, NamesOfAServerCannotSteerTheTerminal) {
  const Result<std::string> text =
      cache_text(kStats, tree_json(run_json(1, "null", "\\u001b[2J", 0, 5, kPlain)));
  ASSERT_TRUE(text);
  EXPECT_EQ(text->find('\x1b'), std::string::npos);
}

TEST(CacheText, ResetSaysWhatWent) {
  EXPECT_EQ(reset_text(R"({"cleared":true,"freed_bytes":2048,"freed_entries":1})").value(),
            "dropped 1 entry, 2.0 KiB freed\n");
  EXPECT_FALSE(reset_text(R"({"cleared":true})"));
}

TEST(CacheText, UnitsOfSizeAndTime) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(5.0 * (1ULL << 40)), "5.0 TiB");
  EXPECT_EQ(duration_text(-3), "0 s");
  EXPECT_EQ(duration_text(59.9), "59 s");
  EXPECT_EQ(duration_text(3599), "59 min");
  EXPECT_EQ(duration_text(86'399), "23 h");
  EXPECT_EQ(duration_text(1e300).substr(0, 1), "1");
}

}  // namespace
}  // namespace reprise
