// Random conversation graphs over every family: warm = cold, to the byte (law L9).
//   REPRISE_GRAPH_SECONDS   CPU time for all families together (120)
//   REPRISE_GRAPHS          exactly so many graphs a family instead
//   REPRISE_GRAPH_SEED      the first graph's seed (0); alone: just this one
#include "graph/graph.h"

#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "support/tiny_case.h"

namespace reprise::testing {
namespace {

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::optional<std::uint64_t> setting(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

class WarmEqualsCold : public ::testing::TestWithParam<std::string> {};

TEST_P(WarmEqualsCold, OverRandomConversationGraphs) {
  const double begin = cpu_seconds();
  const double seconds = static_cast<double>(setting("REPRISE_GRAPH_SECONDS").value_or(120)) /
                         ::testing::UnitTest::GetInstance()->test_to_run_count();
  const std::optional<std::uint64_t> seed = setting("REPRISE_GRAPH_SEED");
  std::optional<std::uint64_t> graphs = setting("REPRISE_GRAPHS");
  if (!graphs && seed) graphs = 1;

  GraphFamily family(GetParam());
  Tally tally;
  std::string trouble;
  std::uint64_t next = seed.value_or(0);
  const auto goes_on = [&] {
    return graphs ? tally.graphs < *graphs : tally.graphs == 0 || cpu_seconds() - begin < seconds;
  };
  while (trouble.empty() && goes_on()) trouble = Graph(family, next++).run(tally);
  fmt::print("{}, {:.1f} s of CPU\n", tally.line(family.name()), cpu_seconds() - begin);
  EXPECT_EQ(trouble, "") << "REPRISE_GRAPH_SEED=" << next - 1 << " repeats it";
  EXPECT_GT(tally.graphs, 0u);
  if (tally.graphs >= 20 && trouble.empty()) {  // so many must have met everything
    EXPECT_GT(tally.certain, 0u);
    EXPECT_GT(tally.cancelled, 0u);
    EXPECT_GT(tally.accepted, 0u);
    EXPECT_GT(tally.drafted, tally.accepted);
    EXPECT_GT(tally.preemptions, 0u);
    EXPECT_GT(tally.evictions, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, WarmEqualsCold, ::testing::ValuesIn(tiny_cases()),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace reprise::testing
