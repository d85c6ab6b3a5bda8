// The thread beside the engine's: works in order, waits, what is thrown comes out at the wait.
#include "engine/side_thread.h"

#include <atomic>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(SideThread, RunsOneWorkAfterAnotherOnAThreadOfItsOwn) {
  SideThread side;
  side.wait();  // nothing is under way
  int sum = 0;
  std::thread::id first;
  for (int i = 1; i <= 1000; i++) {
    side.start([&, i] {
      sum += i;
      if (i == 1) first = std::this_thread::get_id();
      EXPECT_EQ(std::this_thread::get_id(), first);
    });
    side.wait();
    ASSERT_EQ(sum, i * (i + 1) / 2);
  }
  EXPECT_NE(first, std::this_thread::get_id());
}

TEST(SideThread, TellsWhatWasThrownOnce) {
  SideThread side;
  const auto start_throwing = [&] {
    side.start([] { static_cast<void>(std::stoi("no number")); });
  };
  start_throwing();
  EXPECT_THROW(side.wait(), std::invalid_argument);
  side.wait();
  std::atomic<bool> is_done = false;
  start_throwing();
  {
    const SideThread::WaitAtExit dropped(side);
  }
  side.start([&] { is_done = true; });
  {
    const SideThread::WaitAtExit waiting(side);
  }
  EXPECT_TRUE(is_done);
}

TEST(SideThread, EndsWithWorkUnderWay) {
  std::atomic<bool> is_done = false;
  {
    SideThread side;
    side.start([&] { is_done = true; });
  }
  EXPECT_TRUE(is_done);
}

}  // namespace
}  // namespace reprise
